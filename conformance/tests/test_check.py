"""Comparing with the oracle where numbers end."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain_conformance.check import compare
from infinitrain_conformance.oracles import plain

INF = np.inf


@pytest.mark.parametrize(
    ("got", "oracle", "dtype", "right"),
    [
        (INF, INF, "float32", True),
        (-INF, INF, "float32", False),
        (3e38, INF, "float32", False),  # a tolerance relative to infinity would allow anything
        (np.nan, INF, "float32", False),
        (INF, np.nan, "float32", False),
        (np.nan, np.nan, "float32", True),
        (INF, 1e39, "float32", True),  # beyond what the dtype has
        (INF, 3e38, "float32", False),
        (INF, 65520.0, "float16", True),
        (65504.0, 65520.0, "float16", True),
        (INF, 65000.0, "float16", False),
        (-INF, 1e6, "float16", False),
    ],
)
def test_infinities(got, oracle, dtype, right):
    ok, line = compare(None, "y", it.from_numpy(np.array([got])).astype(dtype), plain(np.array([oracle])))
    assert ok is right, line


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.01, False), (0.99, False)])
def test_a_factor_that_each_element_may_have_but_not_all(factor, right):
    """AttentionForward allows 1.6 % of the terms in bfloat16: of a thousand independent errors little is left."""
    x = np.random.default_rng(0).uniform(1, 2, 1000)
    got = it.from_numpy(x * factor).astype("bfloat16")
    ok, line = compare("AttentionForward", "y", got, plain(x))
    assert ok is right, line
    assert ok or "together they are off by" in line
