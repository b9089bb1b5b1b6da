"""Functions of one tensor against NumPy in float64, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


# name -> (oracle, range of inputs away from poles and kinks)
FUNCTIONS = {
    "neg": (np.negative, (-2.0, 2.0)),
    "abs": (np.abs, (-2.0, -0.2)),
    "reciprocal": (lambda x: 1.0 / x, (0.4, 3.0)),
    "exp": (np.exp, (-2.0, 2.0)),
    "log": (np.log, (0.3, 4.0)),
    "sqrt": (np.sqrt, (0.3, 4.0)),
    "rsqrt": (lambda x: x**-0.5, (0.3, 4.0)),
    "sin": (np.sin, (-4.0, 4.0)),
    "cos": (np.cos, (-4.0, 4.0)),
    "tanh": (np.tanh, (-3.0, 3.0)),
    "sigmoid": (sigmoid, (-5.0, 5.0)),
}
SHAPES = [(), (1,), (2, 3), (2, 1, 3), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_and_gradient(name, shape, rng):
    oracle, limits = FUNCTIONS[name]
    x = rng.uniform(*limits, shape)
    t = it.from_numpy(x, requires_grad=True)
    y = getattr(t, name)() if hasattr(t, name) else getattr(ops, name)(t)
    np.testing.assert_allclose(y.numpy(), oracle(x), rtol=1e-13, atol=1e-15)
    assert y.shape == shape
    gradcheck(getattr(ops, name), t)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_and_half_follow_float64(name, rng):
    oracle, limits = FUNCTIONS[name]
    for dtype, rtol in (("float32", 4e-7), ("float16", 1e-3), ("bfloat16", 8e-3)):
        x = it.tensor(rng.uniform(*limits, (50,))).astype(dtype)
        x.requires_grad = True
        y = getattr(ops, name)(x)
        assert y.dtype.name == dtype
        want = oracle(x.numpy().astype(np.float64))
        np.testing.assert_allclose(y.numpy().astype(np.float64), want, rtol=rtol, atol=rtol * 0.01)
        y.backward(it.ones(50, dtype=dtype))
        assert x.grad.dtype.name == dtype


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"neg", "abs"}))
def test_integers_become_float32(name):
    y = getattr(ops, name)(it.tensor([1, 2, 3], "int16"))
    assert y.dtype is it.dtype.float32
    np.testing.assert_allclose(y.numpy(), FUNCTIONS[name][0](np.array([1.0, 2.0, 3.0])), rtol=1e-6)


def test_integers_keep_their_dtype_in_neg_and_abs():
    x = it.tensor([-3, 0, 5], "int16")
    assert (-x).tolist() == [3, 0, -5]
    assert abs(x).tolist() == [3, 0, 5]
    assert abs(x).dtype is it.dtype.int16


def test_sigmoid_is_accurate_at_both_ends():
    x = np.array([-80.0, -20.0, 0.0, 20.0, 200.0])
    y = it.tensor(x, "float32").sigmoid().numpy()
    np.testing.assert_allclose(y[:4], sigmoid(x[:4]), rtol=1e-6)
    assert y[4] == 1.0
    assert it.tensor([-1000.0]).sigmoid().item() == 0.0


def test_the_gradient_of_abs_at_0_is_0():
    x = it.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    abs(x).sum().backward()
    assert x.grad.tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "sigmoid"])
def test_functions_that_save_their_result_let_the_input_be_overwritten(name):
    x = it.tensor([0.5, 1.0], requires_grad=True)
    h = x * 1.0
    y = getattr(ops, name)(h)
    h.detach().fill_(9.0)
    y.sum().backward()
    slope = {"exp": np.exp, "sqrt": lambda v: 0.5 / np.sqrt(v), "tanh": lambda v: 1 - np.tanh(v) ** 2}
    slope["sigmoid"] = lambda v: sigmoid(v) * (1 - sigmoid(v))
    np.testing.assert_allclose(x.grad.numpy(), slope[name](np.array([0.5, 1.0])), rtol=1e-6)


def test_errors():
    with pytest.raises(DtypeError, match=r"NegForward: x has dtype bool; the op takes numeric dtypes"):
        -it.tensor([True])
    with pytest.raises(TypeError, match="ExpForward: x is a tensor, got float"):
        ops.exp(1.0)
    with pytest.raises(ShapeError, match=r"ExpBackward.*y has shape \(3,\), expected \(2,\)"):
        ops.ExpBackward(it.ones(2), it.ones(3))
    with pytest.raises(DtypeError, match=r"ExpBackward.*y has dtype float64, expected float32"):
        ops.ExpBackward(it.ones(2), it.ones(2, dtype="float64"))
