"""Cross-entropy's fast kernels, alone and over a linear layer, against float64 NumPy, one row at a time."""

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import find_kernel
from infinitrain.device import DeviceType

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

from infinitrain.cpu.fast import linear_loss, loss

IGNORE = -7
SHAPES = [(1, 1), (1, 200), (5, 63), (16, 64), (33, 129), (64, 1027), (3, 5003)]


@pytest.fixture(autouse=True)
def small_work_has_threads_too(request, monkeypatch):
    if "nt" in request.fixturenames:
        monkeypatch.setattr(loss, "GRAIN", 1)
        monkeypatch.setattr(linear_loss, "GRAIN", 1)


def draw(n, classes, ignored=0.3):
    rng = np.random.default_rng(n + classes)
    target = rng.integers(0, classes, n)
    return rng, np.where(rng.random(n) < ignored, IGNORE, target)


def reference(logits, target, reduction, grad):
    """The loss, log sum exp and gradient of float64 logits; the mean of none is NaN."""
    d, lse, losses = np.zeros_like(logits), np.zeros(len(logits)), []
    for i, row in enumerate(logits):
        top = row.max()
        lse[i] = np.log(np.exp(row - top).sum()) + top
        if target[i] != IGNORE:
            losses.append(lse[i] - row[target[i]])
            d[i] = np.exp(row - lse[i])
            d[i, target[i]] -= 1
    total = sum(losses) if reduction == "sum" else np.mean(losses) if losses else np.nan
    return total, lse, d * grad / (max(1, len(losses)) if reduction == "mean" else 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy(nt, shape, reduction):
    rng, target = draw(*shape)
    logits = rng.normal(1.0, 4.0, shape).astype(np.float32)
    want, want_lse, want_d = reference(logits.astype(np.float64), target, reduction, 1.75)
    options = IGNORE, 0.0, reduction
    x, ids, grad = it.from_numpy(logits), it.from_numpy(target), it.tensor(1.75)
    value, lse = ops.CrossEntropyForward(x, ids, *options)
    np.testing.assert_allclose(value.item(), want, rtol=1e-5)
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=1e-5, atol=1e-5)
    out = it.from_numpy(np.full(shape, np.nan, np.float32))  # a stale destination
    ops.CrossEntropyBackward(grad, x, ids, lse, *options, out=out)
    np.testing.assert_allclose(out.numpy(), want_d, rtol=2e-5, atol=1e-6)
    assert x.numpy().tobytes() == logits.tobytes()
    ops.CrossEntropyBackwardInPlace(grad, x, ids, lse, *options)
    assert x.numpy().tobytes() == out.numpy().tobytes()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("width", [1, 24])
def test_linear_cross_entropy(nt, shape, reduction, width):
    n, classes = shape
    rng, target = draw(n, classes)
    x = rng.normal(0.3, 1, (n, width)).astype(np.float32)
    w = rng.normal(0.1, 0.5, (classes, width)).astype(np.float32)
    X, W = x.astype(np.float64), w.astype(np.float64)
    want, want_lse, d = reference(X @ W.T, target, reduction, 1.75)
    options = IGNORE, 0.0, reduction
    tensors = it.from_numpy(x), it.from_numpy(w), it.from_numpy(target)
    value, lse, present = ops.LinearCrossEntropyForward(*tensors, *options)
    np.testing.assert_allclose(value.item(), want, rtol=1e-5)
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=1e-5, atol=1e-5)
    assert (present.numpy() == classes).all()
    before = rng.normal(size=w.shape).astype(np.float32)
    for start, add in ((np.full_like(w, np.nan), False), (before, True)):
        dx, dw = it.from_numpy(np.full_like(x, np.nan)), it.from_numpy(start)
        args = it.tensor(1.75), *tensors, lse, present, *options
        ops.LinearCrossEntropyBackward(*args, out=(dx, dw), accumulate=add)
        np.testing.assert_allclose(dx.numpy(), d @ W, rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(dw.numpy(), d.T @ X + (before if add else 0), rtol=1e-4, atol=2e-5)
        again = ops.LinearCrossEntropyBackward(*args, out=(None, it.from_numpy(start)), accumulate=add)
        assert [a.numpy().tobytes() for a in again] == [dx.numpy().tobytes(), dw.numpy().tobytes()]
    assert lse.numpy().tobytes() == ops.LinearCrossEntropyForward(*tensors, *options)[1].numpy().tobytes()


def test_blocks_of_classes(nt):
    """More classes than a thread holds, where the largest logit and the target are in any block."""
    n, classes = 4096, 1700
    assert linear_loss._width(n) < classes / 3
    rng, target = draw(n, classes)
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((n, 3), (classes, 3)))
    want, want_lse, d = reference(x.astype(np.float64) @ w.T, target, "mean", 1.0)
    tensors = it.from_numpy(x), it.from_numpy(w), it.from_numpy(target)
    value, lse, present = ops.LinearCrossEntropyForward(*tensors, IGNORE)
    np.testing.assert_allclose(value.item(), want, rtol=1e-5)
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=1e-5, atol=1e-5)
    dx, dw = ops.LinearCrossEntropyBackward(it.tensor(1.0), *tensors, lse, present, IGNORE)
    np.testing.assert_allclose(dx.numpy(), d @ w, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(dw.numpy(), d.T @ x, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("over_linear", [False, True])
def test_what_is_no_number_stays_in_its_row(nt, over_linear):
    """NaN and infinity make a row NaN; classes at minus infinity are not there, in whole blocks too."""
    logits = np.random.default_rng(3).normal(size=(6, 1500)).astype(np.float32)
    logits[0, 900], logits[1, 70] = np.nan, np.inf
    logits[2] = -np.inf
    logits[3, :1400] = -np.inf
    logits[4, 1100:] = -np.inf
    target = np.array([5, 6, 7, 1450, 3, 1100])
    with np.errstate(all="ignore"):
        _, want_lse, want_d = reference(logits.astype(np.float64), target, "sum", 1.0)
    want_lse[:3] = want_d[:3] = np.nan
    ids = it.from_numpy(target)
    if (
        over_linear
    ):  # a row picks its column of the weights, whose other elements are finite for the other rows
        for i in (3, 4, 5):
            x, w = it.ones(1, 1), it.from_numpy(np.ascontiguousarray(logits[i : i + 1].T))
            value, lse, present = ops.LinearCrossEntropyForward(x, w, ids[i : i + 1], IGNORE, 0.0, "sum")
            np.testing.assert_allclose(lse.numpy(), want_lse[i : i + 1], rtol=1e-6)
            np.testing.assert_allclose(value.item(), want_lse[i] - logits[i, target[i]], rtol=1e-5)
            args = it.tensor(1.0), x, w, ids[i : i + 1], lse, present, IGNORE, 0.0, "sum"
            dx, dw = ops.LinearCrossEntropyBackward(*args)
            np.testing.assert_allclose(dw.numpy()[:, 0], want_d[i], rtol=1e-5, atol=1e-7)
            finite = np.where(np.isfinite(logits[i]), logits[i], 0.0)
            np.testing.assert_allclose(dx.item(), want_d[i] @ finite, rtol=1e-4, atol=1e-5)
        return
    x = it.from_numpy(logits)
    value, lse = ops.CrossEntropyForward(x, ids, IGNORE, 0.0, "sum")
    assert np.isnan(value.item())
    np.testing.assert_allclose(lse.numpy(), want_lse, rtol=1e-6)
    d = ops.CrossEntropyBackward(it.tensor(1.0), x, ids, lse, IGNORE, 0.0, "sum").numpy()
    np.testing.assert_allclose(d[3:], want_d[3:], rtol=1e-5, atol=1e-7)
    assert np.isnan(d[:3, :20]).all()


@pytest.mark.parametrize("bad", [-1, 9, 1 << 40])
def test_a_target_out_of_range_is_found_before_anything_is_written(nt, bad):
    """[contract 4.7]"""
    target = draw(40, 9, 0.0)[1]
    target[31] = bad
    ids, x, w = it.from_numpy(target), it.ones(40, 9), it.ones(9, 9)
    lse, grad = it.zeros(40), it.tensor(1.0)
    scalar, rows, square = it.zeros(), it.zeros(40, 9), it.zeros(9, 9)
    error = rf": target {bad} at position 31 is not in 0..8 \[contract 4.7\]"
    with pytest.raises(IndexError, match="CrossEntropyForward" + error):
        ops.CrossEntropyForward(x, ids, out=(scalar, lse))
    with pytest.raises(IndexError, match="CrossEntropyBackward" + error):
        ops.CrossEntropyBackward(grad, x, ids, lse, out=rows)
    with pytest.raises(IndexError, match="CrossEntropyBackwardInPlace" + error):
        ops.CrossEntropyBackwardInPlace(grad, x, ids, lse)
    with pytest.raises(IndexError, match="LinearCrossEntropyForward" + error):
        ops.LinearCrossEntropyForward(x, w, ids, out=(scalar, lse, None))
    with pytest.raises(IndexError, match="LinearCrossEntropyBackward" + error):
        ops.LinearCrossEntropyBackward(grad, x, w, ids, lse, lse, out=(rows, square))
    for untouched in (scalar, lse, rows, square):
        assert not untouched.numpy().any()
    assert (x.numpy() == 1).all()


def test_nothing_counts(nt):
    x, ids = it.ones(4, 5), it.full((4,), IGNORE, dtype="int64")
    value, lse = ops.CrossEntropyForward(x, ids, IGNORE)
    assert np.isnan(value.item())
    assert not ops.CrossEntropyBackward(it.tensor(1.0), x, ids, lse, IGNORE).numpy().any()
    value, lse, present = ops.LinearCrossEntropyForward(x, it.ones(6, 5), ids, IGNORE, 0.0, "sum")
    assert value.item() == 0
    for d in ops.LinearCrossEntropyBackward(it.tensor(1.0), x, it.ones(6, 5), ids, lse, present, IGNORE):
        assert not d.numpy().any()


def test_no_rows():
    x, ids, w = it.zeros(0, 5), it.zeros(0, dtype="int64"), it.ones(6, 5)
    assert np.isnan(ops.CrossEntropyForward(x, ids)[0].item())
    value, lse, present = ops.LinearCrossEntropyForward(x, w, ids)
    assert np.isnan(value.item())
    dx, dw = ops.LinearCrossEntropyBackward(it.tensor(1.0), x, w, ids, lse, present)
    assert dx.shape == (0, 5)
    assert not dw.numpy().any()


def test_smoothing_is_numpys():
    """[contract 4.3]"""
    x, ids = it.ones(2, 3), it.zeros(2, dtype="int64")
    row = OPS["CrossEntropyForward"]
    for smoothing, fast in ((0.0, True), (0.1, False)):
        kernel = find_kernel(row, DeviceType.CPU, {"float32"}, (x, ids, -100, smoothing, "mean"))
        assert isinstance(kernel.fn, str) is fast
