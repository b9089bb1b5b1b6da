"""linear_cross_entropy is cross_entropy(linear(x, weight)), without the memory of the logits."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.dispatch import clear_plans
from infinitrain.backend.optable import OPS
from infinitrain.cpu import linear_loss as cpu_linear_loss
from infinitrain.errors import DtypeError, InfiniTrainError, ShapeError
from infinitrain.gradcheck import gradcheck
from infinitrain.kernels import loss as array_loss
from infinitrain.ops import loss_composite


@pytest.fixture(params=["explicit", "composite"])
def layer(request, library, monkeypatch):
    """Besides the two libraries of conftest.py, of which the second is the array layer: what other ops make of it."""
    if request.param == "composite":
        if library != "cpu":
            pytest.skip("the composite calls ops; those of the strict library have tests of their own")
        monkeypatch.setenv("INFINITRAIN_KERNELS", "composite")
        clear_plans()
    yield request.param
    clear_plans()


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of few logits, so that small cases have several."""
    monkeypatch.setattr(array_loss, "BLOCK", 64)
    monkeypatch.setattr(loss_composite, "BLOCK", 64)
    monkeypatch.setattr(cpu_linear_loss, "BLOCK", 64)


def data(rng, *lead, width=5, classes=23, ignored=0.0):
    x, weight = rng.normal(0.2, 1, (*lead, width)), rng.normal(size=(classes, width))
    target = rng.integers(0, classes, lead)
    return x, weight, np.where(rng.random(lead) < ignored, -100, target)


def slow(x, weight, target, smoothing, reduction):
    """Return loss, dx and dweight, row by row in float64."""
    loss, dx, dweight = 0.0, np.zeros_like(x), np.zeros_like(weight)
    kept = [i for i in range(len(x)) if target[i] != -100]
    for i in kept:
        z = weight @ x[i]
        p = np.exp(z - z.max())
        p /= p.sum()
        goal = np.full(len(weight), smoothing / len(weight))
        goal[target[i]] += 1 - smoothing
        loss -= goal @ np.log(p)
        dx[i] = (p - goal) @ weight
        dweight += np.outer(p - goal, x[i])
    count = len(kept) if reduction == "mean" else 1
    return loss / count, dx / count, dweight / count


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_values_and_gradients(smoothing, reduction, layer, small_blocks, rng):
    x, weight, target = data(rng, 41, classes=153, ignored=0.3)
    a, w = it.from_numpy(x, requires_grad=True), it.from_numpy(weight, requires_grad=True)
    got = ops.linear_cross_entropy(
        a, w, it.from_numpy(target), label_smoothing=smoothing, reduction=reduction
    )
    got.backward()
    loss, dx, dweight = slow(x, weight, target, smoothing, reduction)
    assert got.item() == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(a.grad.numpy(), dx, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(w.grad.numpy(), dweight, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_classes_that_are_not_there(smoothing, layer, small_blocks, rng):
    """Weights of -inf pad a vocabulary: the loss and its gradients are those without them, in every block."""
    x, weight, target = data(rng, 41, classes=153, ignored=0.3)
    x = np.abs(x) + 0.1
    place = np.sort(rng.choice(200, 153, replace=False))  # of the classes among 47 that are not there
    padded = np.full((200, 5), -np.inf)
    padded[place] = weight
    a, w = it.from_numpy(x, requires_grad=True), it.from_numpy(padded, requires_grad=True)
    ids = np.where(target < 0, -100, place[target])
    got = ops.linear_cross_entropy(a, w, it.from_numpy(ids), label_smoothing=smoothing)
    got.backward()
    loss, dx, dweight = slow(x, weight, target, smoothing, "mean")
    assert got.item() == pytest.approx(loss, rel=1e-13)
    np.testing.assert_allclose(a.grad.numpy(), dx, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(w.grad.numpy()[place], dweight, rtol=1e-10, atol=1e-13)
    assert np.count_nonzero(w.grad.numpy()) == np.count_nonzero(dweight)


def test_classes_that_some_rows_lack(layer, small_blocks, rng):
    """Logits below float64's range are -inf, of one row and not of another; forward's slope is what backward says."""
    x, weight, target = data(rng, 9, classes=40)
    weight[3], weight[17:21] = -1e300, -1e300
    x[2], x[5] = np.abs(x[2]) * 1e10, np.abs(x[5]) * 1e10
    weight[np.abs(weight) < 1e300] *= 1e-10
    x[[0, 1, 3, 4, 6, 7, 8]] *= 1e-300
    target = np.where(np.isin(target, [3, 17, 18, 19, 20]), 0, target)
    t = it.from_numpy(target)

    def loss(v):
        return ops.linear_cross_entropy(v, it.from_numpy(weight), t, label_smoothing=0.3, reduction="sum")

    a = it.from_numpy(x, requires_grad=True)
    loss(a).backward()
    for row in (2, 5):  # the others' numbers are too small for differences
        for c in range(5):
            step = np.zeros_like(x)
            step[row, c] = 1e5
            slope = (loss(it.from_numpy(x + step)).item() - loss(it.from_numpy(x - step)).item()) / 2e5
            assert a.grad.numpy()[row, c] == pytest.approx(slope, rel=1e-4, abs=1e-16)


@pytest.mark.parametrize("shape", [(3, 4), (6,), ()])
def test_gradcheck(shape, layer, rng):
    x, weight, target = data(rng, *shape)
    t = it.from_numpy(target)
    gradcheck(
        lambda x, w: ops.linear_cross_entropy(x, w, t, label_smoothing=0.1),
        it.from_numpy(x, requires_grad=True),
        it.from_numpy(weight, requires_grad=True),
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_equals_the_two_ops(dtype, layer, rng):
    """In half precision the two ops round the logits, so the fused one is nearer to float64."""
    x, weight, target = data(rng, 5, 9, width=16, classes=301, ignored=0.2)
    t = it.from_numpy(target)

    def run(fn):
        made = [it.from_numpy(v).astype(dtype).detach() for v in (x, weight)]
        for tensor in made:
            tensor.requires_grad = True
        loss = fn(*made)
        loss.backward()
        return loss.item(), *[tensor.grad.numpy().astype(np.float64) for tensor in made]

    got = run(lambda x, w: ops.linear_cross_entropy(x, w, t, label_smoothing=0.1))
    want = run(lambda x, w: ops.cross_entropy(ops.linear(x, w), t, label_smoothing=0.1))
    tolerance = 1e-5 if dtype == "float32" else 2e-2
    assert got[0] == pytest.approx(want[0], rel=tolerance)
    for a, b in zip(got[1:], want[1:], strict=True):
        assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


def test_a_tied_weight_accumulates(layer, rng):
    """Embedding and head share a weight: both gradients land in its destination, and again in the next batch."""
    _, weight, _ = data(rng)
    ids, target = rng.integers(0, 23, (2, 6)), it.from_numpy(rng.integers(0, 23, (2, 6)))

    def run(head, times):
        w = it.from_numpy(weight, requires_grad=True)
        destination = it.zeros(23, 5, dtype="float64")
        w.set_grad_destination(destination)
        for _ in range(times):
            head(ops.embedding(it.from_numpy(ids), w), w).backward()
        assert w.grad is destination
        return destination.numpy()

    for times in (1, 2):
        got = run(lambda x, w: ops.linear_cross_entropy(x, w, target), times)
        want = run(lambda x, w: ops.cross_entropy(ops.linear(x, w), target), times)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def test_all_ignored(layer, rng):
    x, weight, _ = data(rng, 4)
    a, w = it.from_numpy(x, requires_grad=True), it.from_numpy(weight, requires_grad=True)
    loss = ops.linear_cross_entropy(a, w, it.from_numpy(np.full(4, -100)), label_smoothing=0.1)
    assert np.isnan(loss.item())
    loss.backward()
    assert (a.grad.numpy() == 0).all()
    assert (w.grad.numpy() == 0).all()


def test_never_holds_all_logits(layer, library, rng, monkeypatch):
    """2,048 rows of 16,384 classes are 128 MiB of logits; forward and backward get by with a fraction of that."""
    monkeypatch.setattr(loss_composite, "BLOCK", 1 << 19)  # the ops that it calls make a few of these
    if library != "cpu":
        pytest.skip("copies between libraries would be measured")
    n, classes, width = 2048, 16384, 16
    x, weight, target = data(rng, n, width=width, classes=classes)
    a, w = (it.from_numpy(v.astype(np.float32), requires_grad=True) for v in (x, weight))
    t = it.from_numpy(target)
    tracemalloc.start()
    ops.linear_cross_entropy(a, w, t, label_smoothing=0.1).backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.15 * 4 * n * classes


def test_policy_and_dtypes(rng):
    row = OPS["LinearCrossEntropyForward"]
    assert row.autocast == "lower"
    x, weight, target = data(rng, 4)
    made = [it.from_numpy(v).astype("bfloat16") for v in (x, weight)]
    assert ops.linear_cross_entropy(*made, it.from_numpy(target)).dtype is it.float32


def test_errors():
    x, w, t = it.ones(2, 3), it.ones(5, 3), it.tensor([0, 1])
    with pytest.raises(ShapeError, match=r"x \(2, 3\) needs a last axis equal to weight's \(5, 4\) second"):
        ops.linear_cross_entropy(x, it.ones(5, 4), t)
    with pytest.raises(ShapeError, match=r"weight \(0, 3\) has no classes"):
        ops.linear_cross_entropy(x, it.ones(0, 3), t)
    with pytest.raises(DtypeError, match="x is bfloat16 and weight float32; cast one, or use autocast"):
        ops.linear_cross_entropy(x.astype("bfloat16"), w, t)
    with pytest.raises(ShapeError, match=r"target has shape \(3,\), expected \(2,\)"):
        ops.linear_cross_entropy(x, w, it.tensor([0, 1, 2]))
    with pytest.raises(IndexError, match=r"target 5 at position 1 is not in 0..4"):
        ops.linear_cross_entropy(x, w, it.tensor([0, 5]))
    with pytest.raises(InfiniTrainError, match=r"label_smoothing=-0.1 is not in 0..1"):
        ops.linear_cross_entropy(x, w, t, label_smoothing=-0.1)
