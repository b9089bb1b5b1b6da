"""The command ``infinitrain-conformance``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .__about__ import __version__
from .plugin import DEFAULT_TIMEOUT
from .report import LEVELS, USAGE
from .runner import Run, run
from .target import Spec

EPILOG = f"""\
levels:
{chr(10).join(f"  {level}  {text}" for level, text in LEVELS.items())}

exit codes:
  0  conformant on everything that was selected
  1  failures, a planted fault that was not caught, or a required test that did not run
  2  usage
  3  the backend is not installed, does not register or does not start; the cause is printed
  4  nothing ran
  6  the backend is installed, but there is no device: L0 ran and passed

Arguments after -- go to pytest: `infinitrain-conformance --backend NAME -- --pdb`.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="infinitrain-conformance",
        description="Test a device backend against InfiniTrain's backend contract.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--backend", metavar="NAME", help="the device under test: cpu, fake, maca, or with an index: maca:1"
    )
    parser.add_argument(
        "--backend_module",
        metavar="PKG.MOD[:FN]",
        help="registrar to call, for a backend that is not installed",
    )
    parser.add_argument(
        "--backend_option",
        metavar="K=V",
        action="append",
        default=[],
        help="option that the backend declares; repeatable",
    )
    parser.add_argument(
        "--level", metavar="L", action="append", default=[], help="run these levels only: L0,L1 or repeated"
    )
    parser.add_argument(
        "--op", metavar="OP", action="append", default=[], help="run the tests of this op only; repeatable"
    )
    parser.add_argument(
        "-k", metavar="EXPR", dest="keyword", help="run the tests whose id matches pytest's expression"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="another set of random inputs (default 0)"
    )
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=float,
        default=DEFAULT_TIMEOUT,
        help="seconds for one test (default %(default)g)",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report for machines")
    parser.add_argument(
        "--faults",
        metavar="NAME",
        nargs="*",
        help="plant each fault (or those named) in the fake backend, and check that the suite catches it",
    )
    return parser


def _levels(parser: argparse.ArgumentParser, texts: Sequence[str]) -> tuple[str, ...]:
    wanted = tuple(level for text in texts for level in text.split(","))
    for level in wanted:
        if level not in LEVELS:
            parser.error(f"--level {level!r}: one of {', '.join(LEVELS)}")
    return wanted


def _spec(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Spec:
    if args.backend is None:
        parser.error("give --backend NAME, such as --backend cpu")
    if not re.fullmatch(r"[a-z0-9_]+(:[0-9]+)?", args.backend, re.ASCII):
        parser.error(f"--backend {args.backend!r} is no device text, such as maca or maca:1 [contract 1.5]")
    options = []
    for text in args.backend_option:
        key, equals, value = text.partition("=")
        if not key or not equals:
            parser.error(f"--backend_option {text!r} is not of the form name=value")
        options.append((key, value))
    return Spec(args.backend, args.backend_module, tuple(options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    ours, _, pytest_args = _split(given)
    parser = _parser()
    args = parser.parse_args(ours)
    if args.json is not None and not args.json.parent.is_dir():
        parser.error(f"--json {args.json}: there is no folder {args.json.parent}")
    levels = _levels(parser, args.level)
    try:
        if args.faults is not None:
            if args.backend is not None or levels or args.op or args.keyword or args.json or pytest_args:
                parser.error("--faults takes names of faults, and no selection of tests")
            from .faults import main as faults_main

            return faults_main(args.faults, seed=args.seed, timeout=args.timeout)
        what = Run(
            _spec(parser, args),
            levels=levels,
            ops=tuple(args.op),
            keyword=args.keyword,
            seed=args.seed,
            timeout=args.timeout,
            pytest_args=tuple(pytest_args),
        )
        report = run(what)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    if args.json is not None:
        report.write(args.json)
    print()
    print("\n".join(report.lines()))
    return report.exit_code


def _split(argv: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in argv:
        return argv, "", []
    at = argv.index("--")
    return argv[:at], "--", argv[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
