"""Writing where there may be no room, or nobody who reads."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


class Unwritable(Exception):
    """Something that has to be written cannot be; the message says what, and why."""


@contextlib.contextmanager
def writing(what: str, remedy: str = "") -> Iterator[None]:
    """Turn what the system says about a file into Unwritable."""
    try:
        yield
    except OSError as error:
        raise Unwritable(f"cannot write {what}: {error.strerror or error}{remedy}") from error


def say(text: str, end: str = "\n") -> None:
    """Print, now. Raises Unwritable."""
    with writing("to stdout"):
        print(text, end=end, flush=True)


def silence() -> None:
    """Send the rest of stdout nowhere: the interpreter would tell once more that it cannot be written."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
