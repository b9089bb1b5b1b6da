"""Contenders that time the same op in turns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from statistics import median
from typing import Any

from _pairs import PAIRS
from _pairs_timing import differ
from _shapes import Shape
from _worker import Worker

PAUSE = 0.05  # seconds between turns, after which no pool of threads spins any more

Times = dict[str, dict[str, dict[str, float]]]
"""Contender -> forward, recorded, backward, node -> us: median, min."""


class Different(Exception):
    """An op gives other numbers than PyTorch's."""


def measure(
    name: str,
    shape: Shape,
    workers: Mapping[str, Worker],
    rounds: int,
    seconds: float,
    *,
    without: str = "",
    chain: bool = False,
) -> Times:
    """Return the times of a pair in each worker. Raises Different.

    ``without`` is a worker that computes nothing; ``chain`` asks for the price of one more node.
    """
    digests = {
        who: w.call("prepare", name=name, shape=asdict(shape), digests=who != without)
        for who, w in workers.items()
    }
    first = next(iter(digests))
    for who, digest in digests.items():
        if who != without and not PAIRS[name].random and differ(digest, digests[first]):
            raise Different(f"{name}: {who} and {first} give different numbers: {digest}, {digests[first]}")
    found: dict[str, dict[str, list[float]]] = {who: {} for who in workers}
    for _ in range(rounds):
        for who, worker in workers.items():
            time.sleep(PAUSE)
            for what, us in worker.call("time", seconds=seconds, chain=chain).items():
                found[who].setdefault(what, []).append(us)
    return {
        who: {what: {"median": median(us), "min": min(us)} for what, us in whats.items()}
        for who, whats in found.items()
    }


def node(times: Mapping[str, Mapping[str, float]], which: str = "median") -> float:
    """Return the us of forward and backward together; forward alone where there is no backward."""
    if "backward" not in times:
        return times["forward"][which]
    return times["recorded"][which] + times["backward"][which]


def ratio(times: Times, what: str, which: str = "median") -> float | None:
    """Return how many times as long ours takes as PyTorch's."""
    ours, theirs = times["ours"].get(what), times["eager"].get(what)
    return None if ours is None or theirs is None else ours[which] / theirs[which]


def chosen(names: list[str]) -> list[str]:
    """Return the pairs asked for, all of them by default. Raises SystemExit with status 2 for an unknown one."""
    strange = [name for name in names if name not in PAIRS]
    if strange:
        import sys

        print(f"no op {', '.join(map(repr, strange))}; there are {', '.join(PAIRS)}", file=sys.stderr)
        raise SystemExit(2)
    return names or list(PAIRS)


def close(workers: Mapping[str, Any]) -> None:
    for worker in workers.values():
        worker.close()
