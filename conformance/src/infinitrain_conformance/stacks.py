"""What faulthandler wrote of a process that died: the frames that are the test's own."""

from __future__ import annotations

import re
from typing import Final

SHOWN: Final = 15
"""Frames of one thread: those nearest to the end."""
_MOST: Final = 45
_HEAD: Final = re.compile(r"Fatal Python error: |Timeout \(\d")
_THREAD: Final = re.compile(
    r"(Current t|T)hread 0x\w+.*\(most recent call first\):|Current thread's C stack trace"
)
_FRAME: Final = re.compile(r'  (File "(?P<path>[^"]*)", line \d+ in .*|Binary file .*|<.*>|\.\.\.)$')
_OTHER: Final = re.compile(
    r"\s*$|Extension modules: |Python runtime state: |  Garbage-collecting$|  <no Python frame>$"
)
_MACHINERY: Final = re.compile(
    r"[/\\](_pytest|pluggy|pytest)[/\\]|infinitrain_conformance[/\\](plugin|orphans)\.py$|^<frozen (runpy|importlib)"
)


def split(text: str) -> tuple[str, list[str]]:
    """Return what a process wrote to stderr without faulthandler's part, and that part's lines: of each thread the
    frames that are not pytest's, the thread that died first.
    """
    rest: list[str] = []
    threads: list[list[str]] = []
    dumping = False
    for line in text.splitlines():
        if _HEAD.match(line):
            dumping, current = True, False
        elif not dumping:
            rest.append(line)
        elif _THREAD.match(line):
            threads.append([])
            current = line.startswith("Current thread 0x")
            if current:
                threads.insert(0, threads.pop())
        elif frame := _FRAME.match(line):
            into = threads[0 if current else -1] if threads else []
            if frame["path"] and not _MACHINERY.search(frame["path"]) and len(into) < SHOWN:
                into.append(line)
        elif not _OTHER.match(line):
            rest.append(line)
    kept = [frames for frames in threads if frames]
    lines = ["stack, the latest call first:", *kept[0]] if kept else []
    for number, frames in enumerate(kept[1:], 2):
        lines += [f"thread {number}:", *frames]
    return "".join(f"{line}\n" for line in rest), lines[:_MOST]
