"""A process that was killed ends no other: those that it started notice, and end themselves with what they started."""

from __future__ import annotations

import _thread  # whose frames, unlike those of `threading`, are these alone in the stacks of a crash
import multiprocessing
import os
import signal
from collections.abc import Callable


def end_with_pipe(handle: int) -> None:
    """End this process and its group when the other end of a pipe is closed: its owner is gone."""
    _thread.start_new_thread(_follow, (lambda: os.read(handle, 1),))


def end_with_parent() -> None:
    """The same for a process of ``multiprocessing``."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        _thread.start_new_thread(_follow, (parent.join,))


def _follow(wait: Callable[[], object]) -> None:
    wait()
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
