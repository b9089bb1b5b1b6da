"""Contenders that train in turns: who may sit at the machine together, warm-up, agreement, rounds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from _contenders import Contender, disagreement
from _machine import available_memory
from _quiet import busy
from _shapes import Shape
from _worker import Worker

PAUSE = 0.3  # seconds between turns, after which no pool of threads spins any more
FIRST = 4  # steps at first, whose losses are compared; they are warm-up too
TOLERANCE = 1e-5  # between float32 losses, relative: bfloat16 products are off by more
RESERVE = 3 << 30  # bytes of memory that are left to others
QUIET = 0.1  # share of all processors that others may use in a round that counts


class Disagreement(Exception):
    """The losses of contenders differ: they did not train the same model."""


@dataclass
class Trained:
    """What is known of one contender."""

    contender: Contender
    losses: list[float] = field(default_factory=list)
    first_step: float = 0.0  # seconds from the start of the process to the end of the first step
    rounds: list[list[float]] = field(default_factory=list)  # ms of each step
    peak: int = 0  # bytes
    faults: float = 0.0  # page faults of a step, in the last round
    sitting: int = 0


@dataclass
class Measured:
    """The outcome; ``others`` is the share of all processors that other programs used in each round."""

    trained: dict[str, Trained]
    sgemm: list[float]  # seconds for the products of a step, in each round of the first sitting
    others: list[float]
    repeats: int = 0  # rounds that were measured again

    def rounds(self, sitting: int | None = None) -> dict[str, list[list[float]]]:
        return {n: t.rounds for n, t in self.trained.items() if sitting in (None, t.sitting)}


def train(
    contenders: Mapping[str, Contender],
    shape: Shape,
    *,
    threads: int,
    rounds: int,
    steps: int,
    sgemm: bool = False,
    patience: float = 0,
) -> Measured:
    """Let ``contenders`` train in turns, each in its process. Raises Disagreement, WorkerError.

    When memory does not hold all of them, the last ones get a sitting of their own after the others. A round during
    which other programs used more than ``QUIET`` is done again, for up to ``patience`` seconds of repeats in all.
    """
    left, measured = list(contenders), Measured({}, [], [])
    sitting = 0
    while left:
        table = _Sitting(shape, threads)
        try:
            while left and table.has_room():
                name = left.pop(0)
                trained = table.seat(name, contenders[name])
                trained.sitting = sitting
                measured.trained[name] = trained
                _say(f"{name}: first step after {trained.first_step:.1f} s, losses {_short(trained.losses)}")
                _compare(measured.trained)
            if sgemm and not sitting:
                table.seat_sgemm()
            patience = table.play(rounds, steps, patience)
        finally:
            table.close()
        measured.sgemm += table.sgemm
        measured.others += table.others
        measured.repeats += table.repeats
        sitting += 1
    return measured


class _Sitting:
    """Contenders whose processes are alive at the same time."""

    def __init__(self, shape: Shape, threads: int) -> None:
        self.shape, self.threads = shape, threads
        self.workers: dict[str, Worker] = {}
        self.trained: dict[str, Trained] = {}
        self.sgemm: list[float] = []
        self.others: list[float] = []
        self.repeats = 0

    def has_room(self) -> bool:
        """Tell whether one more process fits that is as large as the largest so far; the first one always does."""
        largest = max((t.peak for t in self.trained.values()), default=0)
        return not self.workers or available_memory() > largest + RESERVE

    def seat(self, name: str, contender: Contender) -> Trained:
        """Start a contender and let it do its first steps."""
        worker = self.workers[name] = contender.start(self.threads)
        trained = self.trained[name] = Trained(contender)
        worker.call("prepare", shape=asdict(self.shape))
        trained.losses += worker.call("steps", count=1)["losses"]
        trained.first_step = worker.age()
        trained.losses += worker.call("steps", count=FIRST - 1)["losses"]
        trained.peak = worker.call("memory")
        time.sleep(PAUSE)
        return trained

    def seat_sgemm(self) -> None:
        """Let the products of the shape take turns as well."""
        worker = Worker("_sgemm", {"OPENBLAS_NUM_THREADS": str(self.threads)}, {"threads": self.threads})
        self.workers["sgemm"] = worker
        worker.call("prepare", shape=asdict(self.shape))
        worker.call("seconds")

    def play(self, rounds: int, steps: int, patience: float) -> float:
        """Do the rounds, each begun by another contender; return the patience that is left."""
        names = list(self.workers)
        while len(self.others) < rounds:
            turn = len(self.others)
            at = turn % len(names)
            began, before, own = time.perf_counter(), busy(), self._cpu()
            found = {name: self._turn(name, steps) for name in names[at:] + names[:at]}
            took, used = time.perf_counter() - began, busy() - before - (self._cpu() - own)
            others = max(0.0, used / took / (os.cpu_count() or 1))
            if others > QUIET and patience > 0:
                patience -= took
                self.repeats += 1
                _say(f"others used {others:.0%} of the processors: round {turn + 1} again")
                continue
            self.others.append(others)
            for name, times in found.items():
                if name == "sgemm":
                    self.sgemm.append(times)
                else:
                    self.trained[name].rounds.append(times)
        for name, trained in self.trained.items():
            trained.peak = self.workers[name].call("memory")
        return patience

    def _turn(self, name: str, steps: int) -> Any:
        time.sleep(PAUSE)
        if name == "sgemm":
            return self.workers[name].call("seconds")
        found = self.workers[name].call("steps", count=steps, settle=self.shape.settle)
        self.trained[name].faults = found["faults"]
        return found["times"]

    def _cpu(self) -> float:
        return sum(worker.cpu for worker in self.workers.values())

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def _compare(trained: Mapping[str, Trained]) -> None:
    wrong = disagreement({n: t.losses for n, t in trained.items() if t.contender.float32}, TOLERANCE)
    if wrong:
        raise Disagreement(f"the float32 contenders do not train the same model:\n{wrong}")


def _short(losses: Sequence[float]) -> str:
    return " ".join(f"{loss:.5f}" for loss in losses)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
