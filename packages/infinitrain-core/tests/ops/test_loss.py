"""Cross-entropy against float64 NumPy written from its definition; label smoothing, padded vocabularies, in place."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import AutogradError, DtypeError, InfiniTrainError, ShapeError
from infinitrain.gradcheck import gradcheck

INF = float("inf")


def expected(logits, target, ignore=-100, smoothing=0.0, reduction="mean"):
    """Loop over rows: the mean over the classes that are there of what softmax gives them."""
    losses = []
    for row, t in zip(logits.reshape(-1, logits.shape[-1]), target.reshape(-1), strict=True):
        if t == ignore:
            continue
        p = np.exp(row - row.max())
        p /= p.sum()
        with np.errstate(divide="ignore"):
            surprise = -np.log(p)
        losses.append((1 - smoothing) * surprise[t] + smoothing * np.mean(surprise[row != -np.inf]))
    return sum(losses) / (len(losses) if reduction == "mean" else 1)


def data(rng, *lead, classes=7, ignored=0.0):
    logits, target = rng.normal(1, 2, (*lead, classes)), rng.integers(0, classes, lead)
    return logits, np.where(rng.random(lead) < ignored, -100, target)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_value_and_gradient(smoothing, reduction, rng):
    logits, target = data(rng, 3, 5, ignored=0.3)
    x, t = it.from_numpy(logits, requires_grad=True), it.from_numpy(target)

    def loss(x):
        return ops.cross_entropy(x, t, label_smoothing=smoothing, reduction=reduction)

    assert loss(x).item() == pytest.approx(expected(logits, target, -100, smoothing, reduction), rel=1e-12)
    gradcheck(loss, x)


def test_a_padded_vocabulary_is_not_there(rng):
    """Classes at -inf: finite, no gradient, and the smoothing of the others as if the padding were cut off."""
    logits, target = data(rng, 4, 6, ignored=0.2)
    padded = np.concatenate([logits, np.full((4, 6, 3), -np.inf)], -1)
    x, short = (it.from_numpy(a, requires_grad=True) for a in (padded, logits))
    got, want = (ops.cross_entropy(a, it.from_numpy(target), label_smoothing=0.2) for a in (x, short))
    assert got.item() == pytest.approx(want.item(), rel=1e-13)
    got.backward()
    want.backward()
    np.testing.assert_allclose(x.grad.numpy()[..., :7], short.grad.numpy(), rtol=1e-12)
    assert (x.grad.numpy()[..., 7:] == 0).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_a_target_that_is_not_there(smoothing):
    x = it.tensor([[0.0, -INF, 1.0], [0.0, 0.5, 1.0]])
    assert ops.cross_entropy(x, it.tensor([1, 1]), label_smoothing=smoothing).item() == INF


@pytest.mark.parametrize("in_place", [False, True])
def test_all_ignored(in_place):
    x = it.tensor([[1.0, INF], [float("nan"), 2.0]], requires_grad=True)
    logits = x + 0.0
    loss = ops.cross_entropy(logits, it.tensor([-100, -100]), label_smoothing=0.1, in_place=in_place)
    assert np.isnan(loss.item())
    loss.backward()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert ops.cross_entropy(x, it.tensor([-100, -100]), reduction="sum").item() == 0.0


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(3, 5), (15,), ()])
def test_in_place_is_the_same(dtype, shape, rng):
    logits, target = data(rng, *shape, ignored=0.3 if shape else 0.0)
    t = it.from_numpy(target)
    x, y = (it.from_numpy(logits).astype(dtype).detach() for _ in range(2))
    x.requires_grad = y.requires_grad = True
    made = y + 0.0
    want = ops.cross_entropy(x, t, label_smoothing=0.1)
    got = ops.cross_entropy(made, t, label_smoothing=0.1, in_place=True)
    assert got.item() == want.item()
    want.backward()
    got.backward()
    tolerance = {"float64": 1e-14, "float32": 1e-6}.get(dtype, 1e-2)
    np.testing.assert_allclose(
        y.grad.numpy().astype(float), x.grad.numpy().astype(float), rtol=tolerance, atol=1e-9
    )
    np.testing.assert_array_equal(made.numpy(), y.grad.numpy())


def test_in_place_leaves_no_old_values_to_others():
    """Who saved the logits too is told what changed them [contract 4.10]."""
    x = it.tensor([[1.0, 2.0]], requires_grad=True)
    logits = x * 2.0
    other = (logits * logits).sum()
    loss = ops.cross_entropy(logits, it.tensor([0]), in_place=True) + other
    with pytest.raises(AutogradError, match=r"CrossEntropyBackwardInPlace has changed it.*\[contract 4.10\]"):
        loss.backward()
    x.zero_grad()
    logits = x * 2.0
    loss = ops.cross_entropy(logits, it.tensor([0]), in_place=True)
    loss.backward(retain_graph=True)
    with pytest.raises(AutogradError, match=r"contract 4\.10"):
        loss.backward()


def test_in_place_leaves_leaves_alone():
    x = it.tensor([[1.0, 2.0]], requires_grad=True)
    for logits in (x, x.view(2, 1).view(1, 2)):
        with pytest.raises(AutogradError, match=r"in_place=True.*\[1, 2\] are the memory of a leaf"):
            ops.cross_entropy(logits, it.tensor([0]), in_place=True)
    plain = it.tensor([[1.0, 2.0]])
    assert ops.cross_entropy(plain, it.tensor([0]), in_place=True).item() == pytest.approx(np.log1p(np.e))
    assert plain.tolist() == [[1.0, 2.0]]


def test_in_place_needs_no_second_logits(library, rng):
    """The gradient of 8 MiB of logits; the array layer's blocks are larger than that, so it is not measured."""
    if library != "cpu":
        pytest.skip("blocks of the array layer are larger than these logits")
    logits, target = data(rng, 256, classes=8192)
    x, t = it.from_numpy(logits.astype(np.float32), requires_grad=True), it.from_numpy(target)
    peaks = []
    for in_place in (False, True) * 2:  # first what is imported and compiled at first use
        loss = ops.cross_entropy(x * 1.0, t, label_smoothing=0.1, in_place=in_place)
        tracemalloc.start()
        loss.backward(retain_graph=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    size = 4 * logits.size
    # Mul's own backward makes one tensor of that size in both.
    assert peaks[3] < 1.3 * size < 1.9 * size < peaks[2]


def test_half_precision_has_a_float32_loss(rng):
    logits, target = data(rng, 64, classes=300)
    x = it.from_numpy(logits).astype("bfloat16")
    loss = ops.cross_entropy(x, it.from_numpy(target), label_smoothing=0.1)
    assert loss.dtype is it.float32
    want = expected(x.numpy().astype(np.float64), target, smoothing=0.1)
    assert loss.item() == pytest.approx(want, rel=1e-6)


def test_errors():
    x, t = it.ones(2, 3), it.tensor([0, 1])
    with pytest.raises(InfiniTrainError, match=r"label_smoothing=1.5 is not in 0..1"):
        ops.cross_entropy(x, t, label_smoothing=1.5)
    with pytest.raises(InfiniTrainError, match=r"label_smoothing=nan is not in 0..1"):
        ops.cross_entropy(x, t, label_smoothing=float("nan"))
    with pytest.raises(InfiniTrainError, match=r"label_smoothing='a': a number in 0..1"):
        ops.cross_entropy(x, t, label_smoothing="a")
    with pytest.raises(InfiniTrainError, match="reduction='none': one of mean, sum"):
        ops.cross_entropy(x, t, reduction="none")
    with pytest.raises(ShapeError, match=r"CrossEntropyForward\(.*target has shape \(3,\), expected \(2,\)"):
        ops.cross_entropy(x, it.tensor([0, 1, 2]))
    with pytest.raises(ShapeError, match="need a last axis of classes"):
        ops.cross_entropy(it.ones(2, 0), t)
    with pytest.raises(IndexError, match=r"target 3 at position 1 is not in 0..2"):
        ops.cross_entropy(x, it.tensor([0, 3]), label_smoothing=0.1)
    with pytest.raises(DtypeError, match="logits has dtype int64; the op takes floating"):
        ops.cross_entropy(it.ones(2, 3, dtype="int64"), t)
