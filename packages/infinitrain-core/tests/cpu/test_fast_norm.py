"""The fast normalisations against float64 NumPy written apart: values, accumulation, special values, equal bits."""

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.cpu import norm as numpy_kernels

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

SHAPES = [(1,), (0, 5), (3, 1), (16, 64), (67, 3, 129), (5, 1025), (301, 257)]
EPS = 1e-5


@pytest.fixture(autouse=True)
def _split_everything(fast):
    fast("norm")


def numbers(seed, *shapes):
    rng = np.random.default_rng(seed)
    made = [(rng.standard_normal(s) * rng.uniform(0.5, 2, s) + 0.3).astype(np.float32) for s in shapes]
    return made, [it.tensor(a) for a in made], [a.astype(np.float64) for a in made]


def close(got, want, tolerance=2e-6):
    scale = np.abs(want).max(initial=1.0)
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=tolerance * scale)


def normed(x, centred):
    """Return x without its mean where ``centred``, over its root mean square; the mean, and 1 over that root."""
    mean = x.mean(-1, keepdims=True) if centred else np.zeros((*x.shape[:-1], 1))
    rstd = (((x - mean) ** 2).mean(-1, keepdims=True) + EPS) ** -0.5
    return (x - mean) * rstd, mean[..., 0], rstd[..., 0]


def slopes(x, w, g, centred):
    """Return dx, dweight, dbias by the chain rule, through the mean and the root."""
    h, _, rstd = normed(x, centred)
    d = g * w
    dx = d - h * (d * h).mean(-1, keepdims=True)
    if centred:
        dx = dx - d.mean(-1, keepdims=True)
    leading = tuple(range(x.ndim - 1))
    return dx * rstd[..., None], (g * h).sum(leading), g.sum(leading)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_forward(shape, bias):
    _, (x, r, w, b), (X, _, W, B) = numbers(1, shape, shape, shape[-1:], shape[-1:])
    b, B = (b, B) if bias else (None, 0.0)
    y, mean, rstd = ops.LayerNormForward(x, w, b, EPS)
    h, m, q = normed(X, True)
    for got, want in ((y, h * W + B), (mean, m), (rstd, q)):
        close(got, want)
    total, y, mean, rstd = ops.AddLayerNormForward(x, r, w, b, EPS)
    S = (x.numpy() + r.numpy()).astype(np.float64)
    h, m, q = normed(S, True)
    for got, want in ((total, S), (y, h * W + B), (mean, m), (rstd, q)):
        close(got, want)


@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm_forward(shape):
    _, (x, r, w), (X, _, W) = numbers(2, shape, shape, shape[-1:])
    y, rstd = ops.RmsNormForward(x, w, EPS)
    h, _, q = normed(X, False)
    close(y, h * W)
    close(rstd, q)
    total, y, rstd = ops.AddRmsNormForward(x, r, w, EPS)
    S = (x.numpy() + r.numpy()).astype(np.float64)
    h, _, q = normed(S, False)
    for got, want in ((total, S), (y, h * W), (rstd, q)):
        close(got, want)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("grad_sum", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
def test_backward(shape, grad_sum, accumulate, centred):
    row = shape[-1:]
    _, (x, w, g, s, dw, db), (X, W, G, S, DW, DB) = numbers(3, shape, row, shape, shape, row, row)
    if not accumulate:  # what was there does not matter
        dw, db, DW, DB = it.full(row, float("nan")), it.full(row, float("nan")), 0.0, 0.0
    _, m, r = normed(X, centred)
    mean, rstd = (it.tensor(a.astype(np.float32)) for a in (m, r))
    statistics = (mean, rstd) if centred else (rstd,)
    out = (None, dw, db)[: 2 + centred]
    if grad_sum:
        op = ops.AddLayerNormBackward if centred else ops.AddRmsNormBackward
        got = op(x, w, *statistics, s, g, out=out, accumulate=accumulate)
    else:
        op = ops.LayerNormBackward if centred else ops.RmsNormBackward
        got = op(x, w, *statistics, g, out=out, accumulate=accumulate)
    dx, dweight, dbias = slopes(X, W, G, centred)
    # A row of one element has a slope of 0, made of terms as large as rstd.
    scale = max(1.0, float(np.abs(r).max(initial=0.0))) * 2e-6
    close(got[0], dx + (S if grad_sum else 0), scale)
    rows = max(1, X.size // X.shape[-1])
    close(got[1], DW + dweight, 1e-6 * rows**0.5)
    if centred:
        close(got[2], DB + dbias, 1e-6 * rows**0.5)


@pytest.mark.parametrize("mean", [0.0, 1e3, -1e4])
def test_wide_rows_with_a_large_mean_are_as_exact_as_numpys(mean):
    rng = np.random.default_rng(4)
    a = (mean + rng.standard_normal((3, 100_003))).astype(np.float32)
    exact = a.astype(np.float64)
    want = exact.mean(1), 1 / np.sqrt(exact.var(1) + EPS)
    x, one = it.tensor(a), it.ones(a.shape[1])
    results = [[it.zeros(a.shape), it.zeros(3), it.zeros(3)] for _ in range(2)]
    ops.LayerNormForward(x, one, None, EPS, out=tuple(results[0]))
    numpy_kernels.LayerNormForward(x, one, None, EPS, out=tuple(results[1]))
    for i, exactly in enumerate(want):
        ours, numpys = (np.abs(r[1 + i].numpy() - exactly).max() for r in results)
        assert ours <= max(numpys, 6e-8 * np.abs(exactly).max())


@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_stay_in_their_row(centred, value):
    (a, w), _, _ = numbers(5, (7, 65), (65,))
    a[3, 17] = value
    x, weight = it.tensor(a), it.tensor(w)
    y, *_, rstd = (
        ops.LayerNormForward(x, weight, None, EPS) if centred else ops.RmsNormForward(x, weight, EPS)
    )
    finite = np.isfinite(y.numpy())
    assert finite[[0, 1, 2, 4, 5, 6]].all()
    assert np.isnan(y.numpy()[3, 17])  # an infinity times a root of 0
    assert np.isnan(rstd.numpy()[3]) if centred or np.isnan(value) else rstd.numpy()[3] == 0


def test_equal_threads_give_equal_bits():
    _, (x, w, g, s), (X, *_) = numbers(6, (301, 257), (257,), (301, 257), (301, 257))
    _, m, r = normed(X, True)
    mean, rstd = (it.tensor(a.astype(np.float32)) for a in (m, r))

    def bits():
        first = ops.AddLayerNormForward(x, s, w, w, EPS)
        return b"".join(
            t.numpy().tobytes() for t in (*first, *ops.AddLayerNormBackward(x, w, mean, rstd, s, g))
        )

    assert bits() == bits()
