"""Softmax and log-softmax against float64 NumPy, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


CASES = [((2, 5), -1), ((2, 5), 0), ((2, 3, 4), 1), ((4,), 0), ((3, 1), 1), ((0, 3), 1)]


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_forward_and_gradient(shape, axis, rng):
    x = rng.normal(size=shape)
    t = it.from_numpy(x, requires_grad=True)
    np.testing.assert_allclose(t.softmax(axis).numpy(), softmax(x, axis), rtol=1e-13)
    np.testing.assert_allclose(ops.log_softmax(t, axis).numpy(), np.log(softmax(x, axis)), rtol=1e-12)
    gradcheck(lambda v: ops.softmax(v, axis), t)
    gradcheck(lambda v: ops.log_softmax(v, axis), t)


def test_large_logits_and_minus_infinity():
    x = it.tensor([[1000.0, 999.0, float("-inf")]])
    want = softmax(np.array([[1.0, 0.0, -np.inf]]), 1)
    np.testing.assert_allclose(x.softmax().numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(ops.log_softmax(x).numpy()[:, :2], np.log(want[:, :2]), rtol=1e-6)
    assert ops.log_softmax(it.tensor([0.0, -1000.0])).tolist() == [0.0, -1000.0]


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_computes_in_float32(half, rng):
    x = it.tensor(rng.normal(size=(3, 400)) * 3).astype(half)
    y = x.softmax()
    assert y.dtype.name == half
    want = softmax(x.numpy().astype(np.float64), 1)
    np.testing.assert_allclose(
        y.numpy().astype(np.float64), want, rtol=2.0**-8 if half == "bfloat16" else 2e-3, atol=1e-7
    )


def test_errors():
    with pytest.raises(ShapeError, match="softmax: axis 2 is out of range"):
        it.ones(2, 3).softmax(2)
    with pytest.raises(
        ShapeError, match="log_softmax: axis -1 is out of range for a tensor with 0 dimensions"
    ):
        ops.log_softmax(it.tensor(1.0))
    with pytest.raises(DtypeError, match="SoftmaxForward: x has dtype int64; the op takes floating dtypes"):
        it.tensor([1, 2]).softmax()
