"""Measuring on a shared machine: a measurement during which others used the processors is done again."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Quiet:
    """``quiet(measure)`` calls ``measure``, which runs processes, until others took less than ``limit``.

    ``limit`` is a share of all processors. After ``patience`` seconds of repeats in all, what comes is taken;
    ``worst`` and ``repeats`` tell how it went.
    """

    def __init__(self, patience: float, limit: float = 0.1) -> None:
        self.patience, self.limit = patience, limit
        self.worst, self.repeats = 0.0, 0

    def __call__(self, measure: Callable[[], T]) -> T:
        while True:
            began, before, own = time.monotonic(), busy(), _own()
            result = measure()
            took = time.monotonic() - began
            others = (busy() - before - (_own() - own)) / (took * (os.cpu_count() or 1))
            if others <= self.limit or self.patience <= 0:
                self.worst = max(self.worst, others)
                return result
            self.repeats += 1
            self.patience -= took
            self._wait()

    def _wait(self) -> None:
        """Wait for a moment in which nobody else computes."""
        while self.patience > 0:
            before = busy()
            time.sleep(0.3)
            self.patience -= 0.3
            if (busy() - before) / 0.3 < self.limit:
                return

    def __str__(self) -> str:
        return f"others used up to {self.worst:.0%} of the processors meanwhile; {self.repeats} repeats"


def busy() -> float:
    """Return the seconds of processor time used by everything here, and stolen by the host, since boot."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Return the seconds of processor time of this process and of the children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
