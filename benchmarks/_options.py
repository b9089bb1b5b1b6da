"""Command-line options that the benchmarks against PyTorch share."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

QUICK = 2  # rounds


def add_common(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Add --rounds, --threads, --json and --quick."""
    parser.add_argument("--rounds", type=positive, default=rounds, help=f"turns of each (default {rounds})")
    parser.add_argument("--threads", type=positive, default=2, help="of each process (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK} rounds, to see that it runs: no result"
    )


def check_common(parser: argparse.ArgumentParser, args: argparse.Namespace, torch: bool) -> None:
    """Leave with status 2 where the options cannot be followed; --quick sets the rounds."""
    if torch and not find_spec("torch"):
        parser.error(f"this needs PyTorch, which {sys.executable} has not: `nox -s bench` installs it")
    if args.json and not args.json.parent.is_dir():
        parser.error(f"--json {args.json}: there is no folder {args.json.parent}")
    if args.quick:
        args.rounds = QUICK


def positive(text: str) -> int:
    """Return a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)
