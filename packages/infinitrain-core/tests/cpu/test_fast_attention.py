"""Attention's fast kernels against float64 NumPy, one score at a time, whatever the threads and the lengths."""

from itertools import pairwise

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

from infinitrain.cpu.fast import attention

SHAPES = [  # batch, length, heads, key/value heads, head size
    (1, 1, 1, 1, 1),
    (3, 16, 4, 4, 16),
    (2, 33, 6, 2, 5),
    (16, 64, 4, 4, 32),
    (1, 129, 3, 3, 24),
    (1, 257, 4, 1, 8),
    (1, 300, 1, 1, 64),
]


@pytest.fixture(autouse=True)
def small_work_has_threads_too(request, monkeypatch):
    if "nt" in request.fixturenames:
        monkeypatch.setattr(attention, "GRAIN", 1)


def reference(qkv, grad, n_head, n_kv, causal):
    """y, lse and the gradient of qkv, in float64, one query at a time."""
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv)
    x = qkv.astype(np.float64).reshape(b, t, n_head + 2 * n_kv, d)
    dy = grad.astype(np.float64).reshape(b, t, n_head, d)
    y, lse, dx = np.zeros_like(dy), np.zeros((b, n_head, t)), np.zeros_like(x)
    for i, h, q in np.ndindex(b, n_head, t):
        key = n_head + h // (n_head // n_kv)
        value, seen = key + n_kv, q + 1 if causal else t
        scores = x[i, :seen, key] @ x[i, q, h] / np.sqrt(d)
        lse[i, h, q] = np.log(np.exp(scores - scores.max()).sum()) + scores.max()
        p = np.exp(scores - lse[i, h, q])
        y[i, q, h] = p @ x[i, :seen, value]
        dp = x[i, :seen, value] @ dy[i, q, h]
        ds = p * (dp - p @ dp) / np.sqrt(d)
        dx[i, q, h] += ds @ x[i, :seen, key]
        dx[i, :seen, key] += np.outer(ds, x[i, q, h])
        dx[i, :seen, value] += np.outer(p, dy[i, q, h])
    return y.reshape(b, t, -1), lse, dx.reshape(qkv.shape)


def draw(shape, seed=0):
    b, t, n_head, n_kv, d = shape
    rng = np.random.default_rng(seed + t)
    qkv = rng.normal(0.3, 1.2, (b, t, (n_head + 2 * n_kv) * d)).astype(np.float32)
    return qkv, rng.normal(0.1, 1, (b, t, n_head * d)).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("causal", [True, False])
def test_against_float64(nt, shape, causal):
    qkv, grad = draw(shape)
    heads = (*shape[2:4], causal)
    want_y, want_lse, want_dx = reference(qkv, grad, *heads)
    x, g = it.from_numpy(qkv), it.from_numpy(grad)
    y, lse = ops.AttentionForward(x, *heads)
    np.testing.assert_allclose(y.numpy(), want_y, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=1e-5, atol=1e-5)
    out = it.from_numpy(np.full_like(qkv, np.nan))  # a stale destination
    ops.AttentionBackward(x, y, lse, g, *heads, out=out)
    np.testing.assert_allclose(out.numpy(), want_dx, rtol=1e-4, atol=1e-4)
    again = ops.AttentionBackward(x, y, lse, g, *heads)
    assert out.numpy().tobytes() == again.numpy().tobytes()
    assert y.numpy().tobytes() == ops.AttentionForward(x, *heads)[0].numpy().tobytes()


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_parts_cover_all_blocks_at_equal_cost(causal, backward):
    """Between any two parts the cost differs by no more than the two dearest blocks."""
    for heads, blocks, nt in ((1, 7, 3), (4, 9, 3), (5, 1, 2), (1, 1, 3), (3, 8, 5)):
        cuts = [attention._cut(t, nt, heads, blocks, causal, backward) for t in range(nt + 1)]
        assert cuts[0] == 0
        assert cuts[-1] == heads * blocks
        assert cuts == sorted(cuts)
        seen = [blocks - c if backward else c + 1 for c in range(blocks)] if causal else [blocks] * blocks
        cost = [sum(seen[i % blocks] for i in range(a, b)) for a, b in pairwise(cuts)]
        assert sum(cost) == heads * sum(seen)
        assert max(cost) - min(cost) <= 2 * blocks


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("at", [3, 70])
def test_what_is_no_number_does_not_reach_earlier_queries(nt, part, at, bad):
    shape = (2, 100, 4, 2, 8)
    qkv, grad = draw(shape)
    spoilt = qkv.copy()
    spoilt[1, at, (4 if part == "key" else 6) * 8 + 3] = bad
    grad[1, at:] = 0
    y, dx = [], []
    for x in (qkv, spoilt):
        forward = ops.AttentionForward(it.from_numpy(x), 4, 2, True)
        y.append(forward[0].numpy())
        back = ops.AttentionBackward(it.from_numpy(x), *forward, it.from_numpy(grad), 4, 2, True).numpy()
        dx.append(back.reshape(2, 100, 8, 8)[1, :at, :4])  # of the earlier queries
    np.testing.assert_allclose(y[1][0], y[0][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y[1][1, :at], y[0][1, :at], rtol=1e-5, atol=1e-6)
    assert not np.isfinite(y[1][1, at:, :16]).all(axis=1).all()
    if part == "key":  # 0 NaN is NaN in the key's own column
        dx = [np.delete(x, 3, axis=-1) for x in dx]
    np.testing.assert_allclose(dx[1], dx[0], rtol=1e-5, atol=1e-5)
    if part == "value":
        np.testing.assert_array_equal(y[1][1, at:, 3], np.full(100 - at, bad, np.float32))


def test_the_kernel_is_the_fast_one_and_threads_are_for_large_work(monkeypatch):
    calls = []
    monkeypatch.setattr(attention, "_forward", lambda *args: calls.append(args[-1]) or True)
    monkeypatch.setattr(attention, "_forward_part", lambda *args: calls.append(args[-1]) or True)
    before = it.get_num_threads()
    it.set_num_threads(2)
    try:
        for length in (16, 1024):
            ops.attention(it.ones(1, length, 48), 1)
    finally:
        it.set_num_threads(before)
    assert calls == [1, 2]
