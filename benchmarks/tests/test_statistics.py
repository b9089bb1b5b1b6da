"""Medians, intervals and exponents."""

from __future__ import annotations

from _statistics import estimate, exponent, interval, resampled, round_medians
from itertools import product
from statistics import median

import numpy as np
import pytest

ROUNDS = {"ours": [[3.0, 1.0, 2.0], [5.0, 9.0, 4.0], [8.0, 8.5, 7.0]], "theirs": [[6.0], [5.5], [20.0]]}


def test_a_round_counts_as_its_median_and_a_contender_as_the_median_of_its_rounds() -> None:
    assert round_medians(ROUNDS["ours"]) == [2.0, 5.0, 8.0]
    assert {name: values[0] for name, values in resampled(ROUNDS).items()} == {"ours": 5.0, "theirs": 6.0}


def test_draws_take_the_same_rounds_of_all_contenders() -> None:
    noisy = {
        "ours": [[t] for t in (1.0, 7.0, 2.0, 40.0, 3.0)],
        "theirs": [[2 * t] for t in (1.0, 7.0, 2.0, 40.0, 3.0)],
    }
    value, bounds = estimate(noisy, lambda m: m["theirs"] / m["ours"])
    assert value == 2.0
    assert bounds == (2.0, 2.0)


def test_intervals_are_those_of_all_possible_draws() -> None:
    rounds = [1.0, 4.0, 6.0, 11.0, 12.0, 20.0]
    every = [median(draw) for draw in product(rounds, repeat=len(rounds))]
    low, high = interval(resampled({"ours": [[ms] for ms in rounds]})["ours"])
    assert np.percentile(every, 3) <= low <= np.percentile(every, 7)
    assert np.percentile(every, 93) <= high <= np.percentile(every, 97)


def test_the_measured_value_is_no_draw() -> None:
    assert interval(np.array([1000.0, *[1.0] * 3])) == (1.0, 1.0)


def test_exponent() -> None:
    sizes = [2.0, 3.0, 5.0, 8.0]
    assert exponent(sizes, [0.7 * s**1.3 for s in sizes]) == pytest.approx(1.3)
