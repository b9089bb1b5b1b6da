"""Attention, a block of queries at a time, against all scores at once in float64 NumPy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

pytestmark = pytest.mark.usefixtures("layer")


def dense(qkv: np.ndarray, n_head: int, n_kv_head: int, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return y and lse, head by head, from the definition."""
    qkv = qkv.astype(np.float64)
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv_head)
    head = [qkv[:, :, i * d : (i + 1) * d] for i in range(n_head + 2 * n_kv_head)]
    y, lse = np.empty((b, t, n_head * d)), np.empty((b, n_head, t))
    for h in range(n_head):
        g = h * n_kv_head // n_head
        scores = np.einsum("btd,bsd->bts", head[h], head[n_head + g]) / np.sqrt(d)
        if causal:
            scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
        peak = scores.max(-1, keepdims=True)
        weights = np.exp(scores - peak)
        total = weights.sum(-1, keepdims=True)
        y[:, :, h * d : (h + 1) * d] = weights / total @ head[n_head + n_kv_head + g]
        lse[:, h] = (peak + np.log(total))[..., 0]
    return y, lse


def dense_gradient(
    qkv: np.ndarray, grad: np.ndarray, n_head: int, n_kv_head: int, causal: bool
) -> np.ndarray:
    """Return the gradient of qkv by the chain rule through an explicit softmax Jacobian's product."""
    t = qkv.shape[1]
    d = qkv.shape[2] // (n_head + 2 * n_kv_head)
    dqkv = np.zeros(qkv.shape)
    for h in range(n_head):
        g = h * n_kv_head // n_head
        at = [slice(i * d, (i + 1) * d) for i in (h, n_head + g, n_head + n_kv_head + g)]
        q, k, v = (qkv[..., part].astype(np.float64) for part in at)
        dy = grad[..., at[0]]
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        if causal:
            scores[:, ~np.tri(t, dtype=bool)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        dp = dy @ v.transpose(0, 2, 1)
        ds = p * (dp - np.einsum("bts,bts->bt", p, dp)[..., None]) / np.sqrt(d)
        for part, value in zip(
            at, (ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ dy), strict=True
        ):
            dqkv[..., part] += value
    return dqkv


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("b", "t", "n_head", "n_kv_head", "d"),
    [
        (2, 5, 2, 2, 3),
        (2, 1, 4, 2, 3),
        (1, 7, 2, 1, 1),
        (2, 129, 2, 1, 2),
        (1, 301, 4, 2, 3),
        (1, 256, 1, 1, 2),
    ],
)
def test_forward_and_gradient(b, t, n_head, n_kv_head, d, causal, rng):
    """Lengths of one block, of whole ones, of one more than whole ones, and of some."""
    qkv = rng.normal(0.2, 1, (b, t, (n_head + 2 * n_kv_head) * d))
    x = it.from_numpy(qkv, requires_grad=True)
    y, lse = ops.AttentionForward(x, n_head, n_kv_head, causal)
    for got, want in zip((y, lse), dense(qkv, n_head, n_kv_head, causal), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12)
    grad = rng.normal(0.3, 1, y.shape)
    ops.attention(x, n_head, n_kv_head, causal=causal).backward(it.from_numpy(grad))
    want = dense_gradient(qkv, grad, n_head, n_kv_head, causal)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n_head", "n_kv_head", "causal"), [(2, 2, True), (4, 2, True), (2, 1, False)])
def test_gradcheck(n_head, n_kv_head, causal, rng):
    x = it.from_numpy(rng.normal(size=(2, 4, (n_head + 2 * n_kv_head) * 2)), requires_grad=True)
    gradcheck(lambda v: ops.attention(v, n_head, n_kv_head, causal=causal), x)


@pytest.mark.parametrize(
    ("dtype", "unit"), [("float32", 2.0**-23), ("bfloat16", 2.0**-8), ("float16", 2.0**-11)]
)
def test_other_dtypes(dtype, unit, rng):
    x = it.from_numpy(rng.normal(0.2, 1, (2, 140, 8 * 4))).astype(dtype).detach()
    x.requires_grad = True
    y = ops.attention(x, 4, 2)
    given = x.numpy().astype(np.float64)
    np.testing.assert_allclose(
        y.numpy().astype(np.float64), dense(given, 4, 2, True)[0], rtol=unit, atol=1e-5
    )
    grad = it.from_numpy(rng.normal(0.3, 1, y.shape)).astype(dtype)
    y.backward(grad)
    want = dense_gradient(given, grad.numpy().astype(np.float64), 4, 2, True)
    error = np.linalg.norm(x.grad.numpy().astype(np.float64) - want)
    assert error <= max(4 * unit, 1e-5) * np.linalg.norm(want)  # y, of which the gradient is made, is rounded


@pytest.mark.parametrize("causal", [True, False])
def test_memory_is_for_a_block_of_scores(causal, rng):
    """2,048 positions: all scores of the two heads would be 34 MB, and a backward pass has several of that size."""
    qkv = it.from_numpy(rng.normal(size=(1, 2048, 24)).astype(np.float32), requires_grad=True)
    ops.attention(qkv, 2, causal=causal).backward(it.ones(1, 2048, 8))  # what is cached is there
    tracemalloc.start()
    try:
        y = ops.attention(qkv, 2, causal=causal)
        forward = tracemalloc.get_traced_memory()[1]
        y.backward(it.ones(1, 2048, 8))
        both = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert forward < 20e6
    assert both < 20e6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_extreme_scores_are_finite(dtype, rng):
    """Scores of 1e4 and -1e4: the largest alone counts."""
    qkv = rng.normal(0, 1, (1, 200, 12))
    qkv[..., :8] *= 100.0
    x = it.from_numpy(qkv).astype(dtype).detach()
    x.requires_grad = True
    scores = np.einsum("td,sd->ts", qkv[0, :, :4], qkv[0, :, 4:8]) / 2
    assert scores.max() > 1e4
    assert scores.min() < -1e4
    y = ops.attention(x, 1)
    y.backward(it.ones(1, 200, 4).astype(dtype))
    assert np.isfinite(y.numpy().astype(np.float64)).all()
    assert np.isfinite(x.grad.numpy().astype(np.float64)).all()
    assert np.abs(y.numpy().astype(np.float64)).max() <= np.abs(x.numpy().astype(np.float64)[..., 8:]).max()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [3, 130])
def test_a_later_key_that_is_no_number_does_not_reach_earlier_queries(bad, at, rng):
    """A hidden score is minus infinity whatever it was; NaN and infinity reach the queries that see the key."""
    qkv = rng.normal(0.2, 1, (1, 150, 12))
    spoilt = qkv.copy()
    spoilt[0, at, 5] = bad
    clean, got = (ops.attention(it.from_numpy(x), 1).numpy() for x in (qkv, spoilt))
    np.testing.assert_array_equal(got[:, :at], clean[:, :at])
    later = got[0, at:]
    if np.isnan(bad):
        assert np.isnan(later).all()
    else:  # a score is infinite or minus infinite, by the sign of the query
        plus = qkv[0, at:, 1] * bad > 0
        assert np.isnan(later[plus]).all()
        assert np.isfinite(later[~plus]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [3, 130])
@pytest.mark.parametrize("causal", [True, False])
def test_a_later_value_that_is_no_number_does_not_reach_earlier_queries(causal, bad, at, rng):
    """0 times it is NaN: in the same block of queries as in another, only those that see it get it, in its column."""
    qkv = rng.normal(0.2, 1, (2, 150, 16))  # 4 query heads, 2 of keys, 2 of values
    spoilt, column = qkv.copy(), 8 + 4 + 1
    spoilt[1, at, column] = bad
    grad = rng.normal(size=(2, 150, 8))
    grad[1, at:] = 0.0
    tensors = [it.from_numpy(x, requires_grad=True) for x in (qkv, spoilt)]
    clean, got = (ops.attention(x, 4, 2, causal=causal) for x in tensors)
    first = at if causal else 0
    want = clean.numpy()
    want[1, first:, [1, 3]] = bad  # the first of two key/value heads serves query heads 0 and 1
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    if causal:
        clean.backward(it.from_numpy(grad))
        got.backward(it.from_numpy(grad))
        np.testing.assert_allclose(
            tensors[1].grad.numpy()[1, :at, :8], tensors[0].grad.numpy()[1, :at, :8], rtol=1e-10
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_gradients_of_earlier_queries_stay_clean(bad, rng):
    """But for the key's own column, where a probability of 0 meets what is no number: 0 NaN is NaN."""
    qkv = rng.normal(0.2, 1, (1, 6, 12))
    grad = rng.normal(size=(1, 6, 4))
    grad[0, 3:] = 0.0
    tensors = [it.from_numpy(qkv, requires_grad=True) for _ in range(2)]
    spoilt = qkv.copy()
    spoilt[0, 4, 5] = bad
    tensors[1] = it.from_numpy(spoilt, requires_grad=True)
    for x in tensors:
        ops.attention(x, 1).backward(it.from_numpy(grad))
    spoilt, clean = (x.grad.numpy()[:, :3, [0, 2, 3]] for x in reversed(tensors))
    np.testing.assert_array_equal(spoilt, clean)


def test_a_query_that_is_no_number_spoils_its_own_row(rng):
    qkv = rng.normal(size=(1, 140, 12))
    qkv[0, 2, 0] = np.nan
    y = ops.attention(it.from_numpy(qkv), 1).numpy()
    assert np.isnan(y[0, 2]).all()
    assert np.isfinite(np.delete(y[0], 2, axis=0)).all()


def test_empty():
    assert ops.attention(it.from_numpy(np.zeros((2, 0, 12))), 1).shape == (2, 0, 4)
    assert ops.attention(it.from_numpy(np.zeros((0, 3, 12))), 1).shape == (0, 3, 4)


def test_errors():
    x = it.ones(2, 3, 12)
    with pytest.raises(
        ShapeError, match=r"AttentionForward.*n_head=3 must be a positive multiple of n_kv_head=2"
    ):
        ops.attention(x, 3, 2)
    with pytest.raises(ShapeError, match=r"AttentionForward.*n_head=0"):
        ops.attention(x, 0)
    with pytest.raises(
        ShapeError, match=r"AttentionForward.*qkv \(2, 3, 12\) is not .* for 5 \+ 2 x 5 heads"
    ):
        ops.attention(x, 5)
    with pytest.raises(ShapeError, match=r"AttentionForward.*qkv \(3, 12\) is not"):
        ops.attention(it.ones(3, 12), 1)
    with pytest.raises(DtypeError, match=r"AttentionForward: qkv has dtype int64"):
        ops.attention(x.astype("int64"), 1)
    y, lse = ops.AttentionForward(x, 1, 1, True)
    with pytest.raises(ShapeError, match=r"AttentionBackward.*grad has shape"):
        ops.AttentionBackward(x, y, lse, x, 1, 1, True)
    with pytest.raises(DtypeError, match=r"AttentionBackward.*lse has dtype float64, expected float32"):
        ops.AttentionBackward(x, y, lse.astype("float64"), y, 1, 1, True)
