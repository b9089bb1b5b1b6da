"""What a run prints: plain lines for people and scripts, and a progress bar where a person looks on.

The step line has a fixed form, that of InfiniTrain: its scripts that compare two runs read it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

_MIB = 1024 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CLAUSE = re.compile(r"\s*\[contract [\d., ]+\]")
_ERASE_LINE = "\r\x1b[K"
_REDRAW_SECONDS = 0.1
_NARROWEST = 20  # columns; below, a bar only wraps


@dataclass(frozen=True)
class Memory:
    """Peaks of one step in bytes; None where the device cannot tell."""

    used: int | None = None
    reserved: int | None = None


@dataclass(frozen=True)
class Ranks:
    """Sizes of the data, tensor, sequence and pipeline parallel groups."""

    dp: int = 1
    tp: int = 1
    sp: int = 1
    pp: int = 1


NOT_KNOWN = Memory()
ALONE = Ranks()


def step_line(
    step: int,
    steps: int,
    *,
    loss: float,
    lr: float,
    seconds: float,
    tokens: int,
    memory: Memory = NOT_KNOWN,
    ranks: Ranks = ALONE,
) -> str:
    """Return the log line of step number `step` (from 1) of `steps`.

    `seconds` is the duration of the step, `tokens` the number of tokens that all ranks together trained on.
    """
    return (
        f"step {step:4d}/{steps} | train loss {loss:.6f} | lr {lr:.2e} | "
        f"({seconds * 1000:.2f} ms | {rate(tokens, seconds):.0f} tok/s | "
        f"peak used: {megabytes(memory.used)} MB | peak reserved: {megabytes(memory.reserved)} MB, "
        f"DP={ranks.dp}, TP={ranks.tp}, SP={ranks.sp}, PP={ranks.pp})"
    )


def megabytes(number: int | None) -> str:
    """Return bytes as the step line tells them: in units of 2**20, right-aligned."""
    return "  n/a" if number is None else f"{number // _MIB:5d}"


def rate(tokens: int, seconds: float) -> float:
    """Return tokens per second, 0 for a step too short for the clock."""
    return tokens / seconds if seconds > 0 else 0.0


def printable(text: str) -> str:
    r"""Replace control characters, but for line end and tab, by escapes such as `\x1b`.

    Text that a model makes up may contain any of them; on a terminal they would do harm.
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    r"""Return `text` in one line: a list's items after one another, other line ends and controls as escapes."""
    text = text.encode("utf-8", errors="backslashreplace").decode()
    return printable(text.replace("\n  - ", " - ")).replace("\n", "\\n").replace("\t", "\\t")


def say_error(prog: str, error: object) -> None:
    """Print what went wrong as one line on standard error. Clause numbers are for those who write backends."""
    with suppress(OSError):  # the exit status says it too
        print(f"{prog}: error: {one_line(_CLAUSE.sub('', str(error)))}", file=sys.stderr, flush=True)


class Console:
    """Prints lines to `stream` (default: standard output) and, once `log_to` was called, also to a file.

    The progress bar exists only on a terminal that can move its cursor. It has a colour unless the variable
    NO_COLOR of the environment says no. A pipe or a file gets plain lines, and so does the log.
    """

    def __init__(
        self, stream: TextIO | None = None, *, progress: bool = True, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._log: TextIO | None = None
        self._bar_enabled = progress and self._stream.isatty() and environ.get("TERM") != "dumb"
        self._colour = not environ.get("NO_COLOR")
        self._bar_shown = False
        self._bar_time = -_REDRAW_SECONDS
        self._broken = False

    def log_to(self, file: TextIO) -> None:
        """From now on, write every line to `file` as well."""
        self._log = file

    def line(self, text: str = "") -> None:
        """Print `text`, which may have several lines.

        Raises:
            OSError: the log file cannot be written. Output that fails is no error: a run of hours should not
                end because of `| head`, a full disk behind `>`, or a terminal that was closed.
        """
        text = printable(text)
        self.clear()
        self._write(text + "\n")
        if self._log is not None:
            self._log.write(text + "\n")
            self._log.flush()

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Show the bar at `done` of `total` steps; does nothing where there is no bar."""
        now = time.monotonic()
        if not self._bar_enabled or (now - self._bar_time < _REDRAW_SECONDS and done < total):
            return
        self._bar_time = now
        label = f" {done}/{total} {note}".rstrip()
        columns = shutil.get_terminal_size().columns
        if columns < _NARROWEST:
            return
        width = max(0, min(30, columns - len(label) - 3))
        filled = "#" * (width * done // max(total, 1))
        bar = f"\x1b[36m{filled}\x1b[0m" if self._colour else filled
        empty = "." * (width - len(filled))
        self._write(f"{_ERASE_LINE}[{bar}{empty}]{printable(label)[: max(0, columns - width - 3)]}")
        self._bar_shown = True

    def clear(self) -> None:
        """Take the bar away, so that something else can be printed."""
        if self._bar_shown:
            self._write(_ERASE_LINE)
            self._bar_shown = False
            self._bar_time = -_REDRAW_SECONDS

    def _write(self, text: str) -> None:
        if self._broken:
            return
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            self._stream.write(text.encode(encoding, errors="replace").decode(encoding))
            self._stream.flush()
        except OSError:
            self._broken = True
            # Python flushes standard output once more at exit and would complain; give it somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
