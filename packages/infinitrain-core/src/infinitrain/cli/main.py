"""The subcommands, and what becomes of errors: no traceback for what a user or a provider did."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..__about__ import __version__
from ..errors import BackendError, InfiniTrainError
from . import new_backend, ops, warmup
from .usage import USAGE, Parser, UsageError, did_you_mean

BROKEN: Final = 3
INTERRUPTED: Final = 130
COMMANDS: Final = {"ops": ops, "new-backend": new_backend, "warmup": warmup}

EPILOG: Final = """\
examples:
  infinitrain ops --profile training            the ops that dense models need
  infinitrain ops --op LinearForward            one op in full, and how its kernel is declared
  infinitrain ops --missing mychip              what the provider mychip lacks, and what that blocks
  infinitrain new-backend mychip ./mychip       a provider's repository that passes the conformance suite
  infinitrain warmup                            compile the CPU's fast kernels before the first run

exit status: 0 done; 1 the answer is no (ops --missing); 2 usage; 3 a backend does not load; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # formulas, where the terminal has no Unicode
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except UsageError as error:
        return _complain(str(error), USAGE)
    except BackendError as error:
        return _complain(f"infinitrain: {error}", BROKEN)
    except InfiniTrainError as error:  # such as a variable of the environment that is no number
        return _complain(f"infinitrain: {error}", USAGE)
    except BrokenPipeError:  # `infinitrain ops | head`: a reader that has enough is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(argv: list[str]) -> int:
    parser = Parser(
        prog="infinitrain",
        description="Look up ops, check what a backend has, start a new one, compile the CPU's kernels.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name, help=module.HELP, description=module.DESCRIPTION, epilog=module.EPILOG
        )
        module.add_arguments(command)
    word = argv[0] if argv else ""
    if word and not word.startswith("-") and word not in COMMANDS:
        parser.error(f"unknown command {word!r}{did_you_mean(word, COMMANDS)}")
    try:
        args, rest = parser.parse_known_args(argv)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    if rest:
        (commands.choices.get(args.command) or parser).error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command is None:
        parser.error(f"give a command: {' or '.join(COMMANDS)}")
    return COMMANDS[args.command].run(args)


def _complain(text: str, status: int) -> int:
    with suppress(OSError):
        print(text, file=sys.stderr)
    return status
