"""The command ``infinitrain-conformance``."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from . import details, known, progress, summary
from .__about__ import __version__
from .expected import DEFAULT_FILE
from .options import DEFAULT_TIMEOUT, timeout
from .output import Unwritable, say, silence, writing
from .report import INTERRUPTED, LEVELS, USAGE, Report
from .runner import Run, run, run_in_process
from .target import Spec

EPILOG = f"""\
levels:
{chr(10).join(f"  {level}  {text}" for level, text in LEVELS.items())}

exit codes:
  0  conformant on everything that was selected
  1  failures, crashes, skips that are not listed, a planted fault that was not caught, or a required test that
     did not run
  2  usage
  3  the backend is not installed, does not register or does not start; the cause is printed
  4  nothing ran
  6  the backend is installed, but there is no device: L0 ran and passed
  130  interrupted; what had run is reported

Arguments after -- go to pytest: `infinitrain-conformance --backend NAME --in_process -- --pdb`.
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
        type=timeout,
        default=DEFAULT_TIMEOUT,
        help="seconds for one test, 0 for no limit (default %(default)g)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="processes that share the tests, at most four for each CPU (default: several for devices that are host "
        "memory, 1 for a card)",
    )
    parser.add_argument(
        "--in_process",
        action="store_true",
        help="run the tests in this process, for a debugger; a crash ends it",
    )
    parser.add_argument(
        "--xfail",
        metavar="FILE",
        type=Path,
        help=f"expected failures, in TOML (default: {DEFAULT_FILE} here, if there is one)",
    )
    parser.add_argument(
        "--known_skips",
        metavar="FILE",
        type=Path,
        help="fail unless exactly the tests that FILE lists are unsupported or skipped",
    )
    parser.add_argument(
        "--write_known_skips",
        metavar="FILE",
        type=Path,
        help="write that list from this run; reasons are kept",
    )
    parser.add_argument(
        "--matrix", action="store_true", help="print a row for each op, not one for each direction"
    )
    parser.add_argument(
        "--verbose", action="store_true", help=f"print all failures, not {details.SHOWN} of each op"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report for machines")
    parser.add_argument(
        "--faults",
        metavar="NAME",
        nargs="*",
        help="check that the suite catches defects: those planted in the fake backend, and those generated from the "
        "op table, which run on --backend (default: fake); or planted, generated, an op, a kind, faults by name; list "
        "prints them",
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
    try:
        if sys.stdout is None:
            raise Unwritable("stdout is closed")
        code = _main(argv)
        say("", end="")
        return code
    except Unwritable as error:
        reason = str(error)
    except BrokenPipeError:
        reason = "cannot write to stdout: nobody reads it any more"
    silence()
    print(f"infinitrain-conformance: {reason}", file=sys.stderr)
    return USAGE


def _main(argv: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    ours, _, pytest_args = _split(given)
    parser = _parser()
    args = parser.parse_args(ours)
    levels = _levels(parser, args.level)
    try:
        if args.faults is not None:
            if levels or args.op or args.keyword or args.json or pytest_args:
                parser.error("--faults takes names of faults, and no selection of tests")
            from .faults import main as faults_main

            spec = None if args.backend is None else _spec(parser, args)
            return faults_main(args.faults, spec, seed=args.seed, timeout=args.timeout)
        what = Run(
            _spec(parser, args),
            levels=levels,
            ops=tuple(args.op),
            keyword=args.keyword,
            seed=args.seed,
            timeout=args.timeout,
            workers=args.workers if args.workers is not None else (1 if pytest_args else None),
            xfail=args.xfail or (Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None),
            pytest_args=tuple(pytest_args),
        )
        _check(parser, args, what)
        with _ended_by_sigterm():
            report = (
                run_in_process(what)
                if args.in_process
                else run(what, show=progress.Progress(verbose=args.verbose))
            )
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return _finish(args, given, report)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a closed terminal, do what Ctrl-C does: the workers, in sessions of their own, would
    outlive this process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ends = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = [(number, signal.signal(number, signal.default_int_handler)) for number in ends]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace, what: Run) -> None:
    """Refuse what can be seen to go wrong before the tests run."""
    for flag in ("json", "write_known_skips"):
        path = getattr(args, flag)
        if path is not None and not path.parent.is_dir():
            parser.error(f"--{flag} {path}: there is no folder {path.parent}")
        if path is not None and path.is_dir():
            parser.error(f"--{flag} {path}: that is a folder")
    for flag in ("xfail", "known_skips"):
        path = getattr(args, flag)
        if path is not None and not path.is_file():
            parser.error(f"--{flag} {path}: there is no such file")
    for flag in ("known_skips", "write_known_skips"):
        if getattr(args, flag) is not None and not what.is_whole:
            parser.error(f"--{flag} is about the whole suite: drop what narrows it")
    if args.workers is not None and args.workers < 1:
        parser.error(f"--workers {args.workers}: 1 or more")
    _check_names(parser, args.op, args.keyword)
    if args.in_process and (args.workers or 1) > 1:
        parser.error("--in_process is one process: drop --workers")


def _check_names(parser: argparse.ArgumentParser, ops: Sequence[str], keyword: str | None) -> None:
    """Refuse ops that are not in the table, and an expression that pytest cannot read."""
    if keyword is not None:
        from _pytest.mark import expression

        try:
            expression.Expression.compile(keyword)
        except (SyntaxError, getattr(expression, "ParseError", SyntaxError)) as error:
            parser.error(f"-k {keyword!r}: {getattr(error, 'msg', error)}")
    if ops:
        from infinitrain.backend import OPS

        for op in ops:
            near = difflib.get_close_matches(op, OPS, 1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/ops.md lists them"
            if op not in OPS and op != "-":
                parser.error(f"--op {op!r} is no op; {hint}")


def _finish(args: argparse.Namespace, given: Sequence[str], report: Report) -> int:
    """Compare with what is checked in, write what was asked for, print the summary."""
    complete = report.abort is None and not report.interrupted and report.no_device is None
    if args.known_skips is not None and complete:
        differences = known.check(args.known_skips, report)
        if differences:
            report.problems += [*differences, f"if that is right: {_regenerate(given)}"]
    if args.json is not None:
        with writing(f"--json {args.json}"):
            report.write(args.json)
    if report.abort is None or report.interrupted:
        told = details.groups(report) if args.in_process else details.lines(report, verbose=args.verbose)
        if told:
            say("\n".join(["", *told]))
    say("\n".join(["", *summary.lines(report, full_matrix=args.matrix, coverage=not args.op)]))
    if args.write_known_skips is not None and complete:
        with writing(f"--write_known_skips {args.write_known_skips}"):
            total = known.write(args.write_known_skips, report)
        say(f"{args.write_known_skips}: {total} tests that do not run")
    return report.exit_code


def _regenerate(given: Sequence[str]) -> str:
    """Return the command that writes the list of known skips anew."""
    words = [word.replace("--known_skips", "--write_known_skips") for word in given]
    return shlex.join(["infinitrain-conformance", *words])


def _split(argv: list[str]) -> tuple[list[str], str, list[str]]:
    if "--" not in argv:
        return argv, "", []
    at = argv.index("--")
    return argv[:at], "--", argv[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
