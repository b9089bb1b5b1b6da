"""Ratios of medians over alternating rounds, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np

CONFIDENCE, RESAMPLES, SEED = 0.90, 4000, 7

Rounds = Mapping[str, Sequence[Sequence[float]]]
"""Contender -> round -> times of its steps, all contenders in equally many rounds."""
Medians = Mapping[str, np.ndarray]
"""Contender -> its median in each of some resamples."""


def round_medians(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return the median of each round: steps of one turn share what disturbed it, so that rounds are the sample."""
    return [median(times) for times in rounds]


def resampled(rounds: Rounds) -> dict[str, np.ndarray]:
    """Return each contender's median: first as measured, then in ``RESAMPLES`` draws of rounds with replacement.

    A draw takes the same rounds of all contenders, since they were measured side by side.
    """
    count = len(next(iter(rounds.values())))
    draws = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    chosen = np.concatenate((np.arange(count)[None], draws))
    return {name: np.median(np.array(round_medians(times))[chosen], axis=1) for name, times in rounds.items()}


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the bounds between which ``CONFIDENCE`` of the resampled values lie, without the first, the measured."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values[1:], (tail, 100 - tail))
    return float(low), float(high)


def estimate(rounds: Rounds, value: Callable[[Medians], np.ndarray]) -> tuple[float, tuple[float, float]]:
    """Return what ``value`` makes of the contenders' medians, and its interval."""
    found = value(resampled(rounds))
    return float(found[0]), interval(found)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return p of the power law cost = a size**p that fits best, in least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
