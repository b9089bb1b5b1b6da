"""The command infinitrain-gpt2. Light on purpose: it must be in place before NumPy and all else are imported."""

from __future__ import annotations

import os
import sys

from .interrupt import ignore_signals, leave_on_signals


def main() -> int:
    """Run `infinitrain_examples.gpt2.main` on the command line, in a process that this function prepares.

    Signals during the start-up end it without a traceback, and standard streams that are closed or broken
    change neither what the run does nor its exit status.
    """
    leave_on_signals()
    _open_standard_streams()
    try:
        from .gpt2 import main as train

        return train()
    except KeyboardInterrupt:  # raised by a backend's own code
        return 130
    finally:
        ignore_signals()
        _flush_standard_streams()


def _open_standard_streams() -> None:
    """Open the null device where 0, 1 or 2 is closed: otherwise the next file gets that number, and output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - for the rest of the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _flush_standard_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python flushes once more at exit, and would then complain and change the exit status.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1 if stream is sys.stdout else 2)


if __name__ == "__main__":
    sys.exit(main())
