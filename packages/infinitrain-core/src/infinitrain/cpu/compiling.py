"""What a user sees while Numba compiles kernels: one line on standard error, nothing when all is on disk.

`listener` is told of each function; the command `infinitrain warmup` puts its own there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from numba.core import event

ERASE_LINE = "\r\x1b[K"


class Compilation(event.Listener):
    """Counts the functions of our own that Numba compiles, those inside others too."""

    def __init__(self) -> None:
        self.listener: Callable[[str, int], None] = Announcer().compiles
        """Called with a function's name when its compilation begins, and with "" when the outermost one has ended;
        then with how many were begun so far."""
        self.begun: set[Any] = set()
        self._open = 0

    def on_start(self, event: Any) -> None:
        fn = _ours(event)
        if fn is not None:
            self.begun.add(fn)
            self._open += 1
            self.listener(f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}", len(self.begun))

    def on_end(self, event: Any) -> None:
        if _ours(event) is not None:
            self._open -= 1
            if not self._open:
                self.listener("", len(self.begun))


class Announcer:
    """Says that the first run on a machine waits for a compiler, and how far it is."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._start: float | None = None

    def compiles(self, name: str, begun: int) -> None:
        """Show one line: on a terminal updated, and gone when the compiler is done; elsewhere said once."""
        stream = self._stream or sys.stderr
        if stream is None or os.environ.get("INFINITRAIN_QUIET_COMPILE") == "1":
            return
        first, now = self._start is None, time.monotonic()
        self._start = self._start or now
        text = "infinitrain: compiling CPU kernels for this machine, once"
        hint = "(`infinitrain warmup` does it ahead)"
        with suppress(OSError, ValueError):  # closed or broken: no reason to stop
            if updates(stream):
                line = f"{text}: {begun} of at most {functions()}, {now - self._start:.0f} s {hint}"
                rewrite(stream, line if name else "")
            elif first:
                print(f"{text}; about a minute {hint}", file=stream, flush=True)


@cache
def functions() -> int:
    """Return how many functions the fast kernels have: the most that a run has to compile, for one dtype."""
    sources = (path.read_text("utf-8") for path in Path(__file__).parent.glob("fast/*.py"))
    return sum(len(re.findall(r"^@(?:serial|parallel)\b", source, re.MULTILINE)) for source in sources)


def updates(stream: TextIO) -> bool:
    """Tell whether a line on ``stream`` can be written over: a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def rewrite(stream: TextIO, text: str) -> None:
    """Put ``text``, cut to the terminal's width, in the place of the line that is there."""
    print(f"{ERASE_LINE}{text[: shutil.get_terminal_size().columns - 1]}", end="", file=stream, flush=True)


def _ours(event: Any) -> Any:
    fn = event.data["dispatcher"].py_func
    return fn if (fn.__module__ or "").startswith(__package__) else None


compilation = Compilation()
event.register("numba:compile", compilation)
