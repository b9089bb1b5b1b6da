"""The loss oracles against finite differences and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from differences import slope

from infinitrain_conformance.oracles import linear_loss, loss

IGNORE = -100


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("padding", [0, 2])
def test_cross_entropy(rng, smoothing, reduction, padding):
    """By loops over what is there, and its gradient by differences."""
    logits, target = rng.normal(size=(5, 6)), np.array([1, IGNORE, 3, 0, 2])
    full = np.concatenate([logits, np.full((5, padding), -np.inf)], 1)
    got = loss.cross_entropy(full, target, IGNORE, smoothing, reduction)
    total, count = 0.0, 0
    for row, t in zip(logits, target, strict=True):
        if t == IGNORE:
            continue
        norm = math.log(sum(math.exp(z) for z in row))
        total += (1 - smoothing) * (norm - row[t]) + smoothing * sum(norm - z for z in row) / 6
        count += 1
    np.testing.assert_allclose(got["loss"].value, total / (count if reduction == "mean" else 1))

    def value(z):
        return loss.cross_entropy(z, target, IGNORE, smoothing, reduction)["loss"].value

    options = (target, got["lse"].value, IGNORE, smoothing, reduction)
    d = loss.cross_entropy_backward(np.asarray(1.5), full, *options)["dlogits"].value
    np.testing.assert_allclose(d[:, :6], 1.5 * slope(value, logits), rtol=1e-5, atol=1e-8)
    assert (d[:, 6:] == 0).all()
    assert (loss.cross_entropy_in_place(np.asarray(1.5), full, *options)["logits"].value == d).all()


def test_a_target_that_is_not_there():
    got = loss.cross_entropy(np.array([[0.0, -np.inf]]), np.array([1]), IGNORE, 0.1, "mean")
    assert got["loss"].value == np.inf


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_linear_cross_entropy(rng, smoothing, padding):
    """``padding`` classes have weights of -inf, and x is positive: they are as good as absent."""
    x, weight, target = rng.uniform(0.1, 2, (2, 3, 4)), rng.normal(size=(5, 4)), rng.integers(0, 5, (2, 3))
    target[0, 1] = IGNORE
    padded = np.concatenate([weight, np.full((padding, 4), -np.inf)])
    whole = linear_loss.linear_cross_entropy(x, padded, target, IGNORE, smoothing, "mean")

    def value(x, weight):
        return linear_loss.linear_cross_entropy(x, weight, target, IGNORE, smoothing, "mean")["loss"].value

    logits = np.einsum("btc,vc->btv", x, weight)
    want = loss.cross_entropy(logits, target, IGNORE, smoothing)
    np.testing.assert_allclose(value(x, weight), want["loss"].value)
    np.testing.assert_allclose(whole["loss"].value, want["loss"].value)
    assert (whole["present"].value == (5 if smoothing else 5 + padding)).all()
    saved = want["lse"].value, whole["present"].value
    args = (np.asarray(1.5), x, padded, target, *saved, IGNORE, smoothing, "mean")
    got = linear_loss.linear_cross_entropy_backward(*args)
    np.testing.assert_allclose(
        got["dx"].value, 1.5 * slope(lambda v: value(v, weight), x), rtol=1e-5, atol=1e-8
    )
    np.testing.assert_allclose(
        got["dweight"].value[:5], 1.5 * slope(lambda v: value(x, v), weight), rtol=1e-5, atol=1e-8
    )
    assert (got["dweight"].value[5:] == 0).all()


@pytest.mark.parametrize("ranks", [2, 4])
def test_parts_of_a_vocabulary(rng, ranks):
    """Parts put together are the whole without its padding; so are the gradients."""
    columns, classes, s = 8, 5, 0.1
    n = columns // ranks
    logits, target = rng.normal(size=(6, columns)), rng.integers(0, classes, 6)
    parts = [
        linear_loss.vocab_part(logits[:, r * n : (r + 1) * n], target, r * n, classes, IGNORE)
        for r in range(ranks)
    ]
    peak, total, picked, sums = (
        np.stack([p[k].value for p in parts]) for k in ("peak", "total", "picked", "sums")
    )
    lse = np.log((total * np.exp(peak)).sum(0))
    each = lse - (1 - s) * picked.sum(0) - s / classes * sums.sum(0)
    whole = loss.cross_entropy(logits[:, :classes], target, IGNORE, s)
    np.testing.assert_allclose(each.mean(), whole["loss"].value)
    g = rng.uniform(0.5, 2, 6)
    found = []
    for r in range(ranks):
        names = np.arange(r * n, (r + 1) * n)
        elsewhere = ~np.isin(target, names)
        p = np.exp(logits[:, names] - lse[:, None])
        masked = np.where(elsewhere, 0, target - r * n)
        args = (g, p, elsewhere, masked, names < classes, n, classes, s)
        found.append(linear_loss.vocab_part_backward(*args)["dlogits"].value)
    got = np.concatenate(found, 1)

    def value(z):
        norm = np.log(np.exp(z).sum(1))
        nll = norm - z[np.arange(6), target]
        return (g * ((1 - s) * nll + s * (norm - z.mean(1)))).sum()

    np.testing.assert_allclose(got[:, :classes], slope(value, logits[:, :classes]), rtol=1e-5, atol=1e-8)
    assert (got[:, classes:] == 0).all()
