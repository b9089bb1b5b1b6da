"""Activations, erf, SwiGLU and Linear with GELU against float64, gradients against central differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops
from infinitrain.backend.optable import OPS
from infinitrain.errors import DtypeError, InfiniTrainError, ShapeError
from infinitrain.gradcheck import gradcheck

erf = np.vectorize(math.erf, otypes=[np.float64])


def logistic(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def gelu(x: np.ndarray, form: str) -> np.ndarray:
    if form == "none":
        return x * 0.5 * (1 + erf(x / np.sqrt(2)))
    return x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


FUNCTIONS = {
    "relu": lambda x: np.where(x > 0, x, 0.0),
    "silu": lambda x: x * logistic(x),
    "erf": erf,
    "gelu": lambda x: gelu(x, "tanh"),
}
SHAPES = [(), (1,), (2, 3), (2, 1, 3), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_and_gradient(name, shape, rng):
    x = rng.uniform(-3, 3, shape)
    t = it.from_numpy(x, requires_grad=True)
    y = getattr(ops, name)(t)
    assert y.shape == shape
    np.testing.assert_allclose(y.numpy(), FUNCTIONS[name](x), rtol=2e-14, atol=1e-15)
    gradcheck(getattr(ops, name), t)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32_and_half_follow_float64(name, rng):
    for dtype, rtol in (("float32", 1e-6), ("float16", 1e-3), ("bfloat16", 8e-3)):
        x = it.tensor(rng.uniform(-3, 3, (50,))).astype(dtype)
        x.requires_grad = True
        y = getattr(ops, name)(x)
        assert y.dtype.name == dtype
        want = FUNCTIONS[name](x.numpy().astype(np.float64))
        np.testing.assert_allclose(y.numpy().astype(np.float64), want, rtol=rtol, atol=rtol * 0.1)
        y.backward(it.ones(50, dtype=dtype))
        assert x.grad.dtype.name == dtype


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_gelu_of_large_numbers_has_a_gradient(form):
    """The square of 1e30 is infinite in float32; the slope at both ends is 1 and 0 all the same."""
    x = it.tensor([-3e38, -1e30, -200.0, 200.0, 1e30, 3e38], requires_grad=True)
    y = ops.gelu(x, form)
    np.testing.assert_allclose(y.numpy(), [0, 0, 0, 200, 1e30, 3e38], rtol=1e-6)
    y.backward(it.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert x.grad.tolist() == [0, 0, 0, 4, 5, 6]


def test_silu_is_stable_at_both_ends():
    x = it.tensor([-3e38, -1000.0, -60.0, 60.0, 3e38], requires_grad=True)
    y = ops.silu(x)
    np.testing.assert_allclose(y.numpy(), [0, 0, -60 * math.exp(-60), 60, 3e38], rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0, 0, -59 * math.exp(-60), 1, 1], rtol=1e-5)


def test_relu_passes_nothing_at_0_and_keeps_nan():
    x = it.tensor([-1.0, 0.0, -0.0, 2.0, math.nan, math.inf, -math.inf], requires_grad=True)
    y = ops.relu(x)
    np.testing.assert_array_equal(y.numpy(), np.float32([0, 0, 0, 2, math.nan, math.inf, 0]))
    y.backward(it.tensor([math.inf, math.inf, 3.0, 5.0, 7.0, 11.0, math.nan]))
    np.testing.assert_array_equal(x.grad.numpy(), np.float32([0, 0, 0, 5, 7, 11, 0]))


def test_relu_lets_its_input_be_overwritten():
    x = it.tensor([-1.0, 2.0], requires_grad=True)
    y = ops.relu(x * 1.0)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.0]


def test_erf_is_accurate_everywhere(rng):
    x = np.concatenate([np.linspace(-7, 7, 3001), rng.normal(size=500) * 1e-8, [0.0, 2.5, 30.0]])
    np.testing.assert_allclose(ops.erf(it.from_numpy(x)).numpy(), erf(x), rtol=2e-15)
    special = ops.erf(it.tensor([math.inf, -math.inf, math.nan])).tolist()
    assert special[:2] == [1.0, -1.0]
    assert math.isnan(special[2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_of_subnormal_numbers(dtype):
    info = np.finfo(dtype)
    x = (info.smallest_subnormal * np.array([1, 4, 1000, -77777], dtype)).astype(dtype)
    x = np.append(x, [info.tiny, 5 * info.tiny]).astype(dtype)

    y = ops.erf(it.from_numpy(x)).numpy()

    slope = 2 / math.sqrt(math.pi)
    # In units of the smallest number, and not in float64 arithmetic on it, which would round as well.
    units, want = y / info.smallest_subnormal, (x / info.smallest_subnormal) * slope
    np.testing.assert_allclose(units, want, atol=1.1, rtol=4 * info.eps)


def test_erf_of_integers_is_float32():
    y = ops.erf(it.tensor([-1, 0, 2], "int16"))
    assert y.dtype is it.float32
    np.testing.assert_allclose(y.numpy(), erf(np.array([-1.0, 0.0, 2.0])), rtol=1e-6)


@pytest.mark.parametrize("name", ["relu", "silu", "gelu"])
def test_activations_of_integers_are_refused(name):
    with pytest.raises(DtypeError, match=rf"(?i){name}Forward: x has dtype int64.*floating"):
        getattr(ops, name)(it.tensor([1, 2]))


def test_an_unknown_form_is_named():
    with pytest.raises(InfiniTrainError, match="GELU: approximate='exact'"):
        ops.gelu(it.ones(2), "exact")
    with pytest.raises(InfiniTrainError, match="GELU: approximate='exact'"):
        ops.linear_gelu(it.ones((2, 3)), it.ones((4, 3)), None, "exact")
    with pytest.raises(InfiniTrainError, match="GELU: approximate='exact'"):
        nn.GELU("exact")


@pytest.mark.parametrize("name", ["Relu", "Silu", "Erf"])
def test_gradients_of_another_shape_or_dtype_are_refused(name):
    with pytest.raises(ShapeError, match=rf"{name}Backward.*has shape \(3,\), expected \(2,\)"):
        OPS[f"{name}Backward"].call(it.ones(2), it.ones(3))
    with pytest.raises(DtypeError, match=rf"{name}Backward.*has dtype float64, expected float32"):
        OPS[f"{name}Backward"].call(it.ones(2), it.ones(2, dtype="float64"))


# SwiGLU ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("layer")
@pytest.mark.parametrize("shape", [(8,), (3, 2), (2, 3, 10), (0, 4), (70, 2048)])
def test_swiglu(shape, rng):
    x = rng.normal(0.3, 2.0, shape)
    f = shape[-1] // 2
    y = ops.swiglu(it.from_numpy(x))
    np.testing.assert_allclose(
        y.numpy(), x[..., :f] * logistic(x[..., :f]) * x[..., f:], rtol=1e-13, atol=1e-15
    )
    if x.size < 1000:
        gradcheck(ops.swiglu, it.from_numpy(x, requires_grad=True))


@pytest.mark.usefixtures("layer")
def test_swiglu_in_half_precision_is_rounded_once(rng):
    x = it.from_numpy(rng.normal(0.3, 20.0, (40, 64))).astype("float16")
    wide = x.numpy().astype(np.float64)
    want = wide[:, :32] * logistic(wide[:, :32]) * wide[:, 32:]
    np.testing.assert_allclose(ops.swiglu(x).numpy().astype(np.float64), want, rtol=2.0**-10, atol=2.0**-24)


def test_swiglu_refuses_an_odd_axis():
    with pytest.raises(ShapeError, match=r"SwigluForward\(gate_up: float32\[2, 5\]\).*even"):
        ops.swiglu(it.ones((2, 5)))
    with pytest.raises(ShapeError, match=r"SwigluBackward.*grad has shape \(2, 4\), expected \(2, 2\)"):
        OPS["SwigluBackward"].call(it.ones((2, 4)), it.ones((2, 4)))
    with pytest.raises(DtypeError, match=r"SwigluBackward.*grad has dtype float64, expected float32"):
        OPS["SwigluBackward"].call(it.ones((2, 4)), it.ones((2, 2), dtype="float64"))


# Linear with GELU -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("layer")
@pytest.mark.parametrize("form", ["tanh", "none"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_linear_gelu(with_bias, form, rng):
    x, w, b = rng.normal(0.2, 1, (2, 3, 5)), rng.normal(size=(4, 5)), rng.normal(size=4)
    tensors = [it.from_numpy(a, requires_grad=True) for a in ((x, w, b) if with_bias else (x, w))]
    call = lambda *t: ops.linear_gelu(*t[:2], t[2] if with_bias else None, form)  # noqa: E731
    want = gelu(x @ w.T + (b if with_bias else 0), form)
    np.testing.assert_allclose(call(*tensors).numpy(), want, rtol=1e-12, atol=1e-14)
    gradcheck(call, *tensors)


@pytest.mark.usefixtures("layer")
def test_linear_gelu_is_linear_then_gelu(rng):
    """In all of result and gradients, which land in the parameters' own destinations [contract 4.5]."""
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((300, 20), (700, 20), (700,))]
    found = []
    for call in (ops.linear_gelu, lambda x, w, b: ops.gelu(ops.linear(x, w, b))):
        x, w, b = (it.from_numpy(a, requires_grad=True) for a in arrays)
        for _ in range(2):  # the second time is added
            y = call(x, w, b)
            y.backward(it.from_numpy(np.cos(np.arange(y.numel, dtype=np.float32)).reshape(y.shape)))
        found.append([t.numpy() for t in (y, x.grad, w.grad, b.grad)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_linear_gelu_keeps_a_frozen_weight_out(rng):
    x = it.from_numpy(rng.normal(size=(4, 5)), requires_grad=True)
    w = it.from_numpy(rng.normal(size=(3, 5)))
    ops.linear_gelu(x, w).sum().backward()
    assert w.grad is None
    assert x.grad.shape == (4, 5)


def test_linear_gelu_refuses_shapes_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"LinearGeluForward\(x: float32\[2, 3\], weight: float32\[4, 5\]"):
        ops.linear_gelu(it.ones((2, 3)), it.ones((4, 5)))
    with pytest.raises(ShapeError, match=r"LinearGeluForward.*bias has shape \(3,\), expected \(4,\)"):
        ops.linear_gelu(it.ones((2, 3)), it.ones((4, 3)), it.ones(3))


# Modules --------------------------------------------------------------------------------------------------


def test_modules():
    x = it.tensor([-1.0, 0.5])
    np.testing.assert_array_equal(nn.ReLU()(x).numpy(), ops.relu(x).numpy())
    np.testing.assert_array_equal(nn.SiLU()(x).numpy(), ops.silu(x).numpy())
    np.testing.assert_array_equal(nn.GELU("none")(x).numpy(), ops.gelu(x, "none").numpy())
    assert [repr(m) for m in (nn.GELU(), nn.GELU("none"), nn.ReLU())] == [
        "GELU()",
        "GELU(approximate='none')",
        "ReLU()",
    ]


def test_linear_gelu_runs_in_autocasts_dtype_and_gives_float32_gradients(rng):
    """As Linear does [contract 5.1, 5.3]."""
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((6, 5), (4, 5), (4,))]
    x, w, b = (it.from_numpy(a, requires_grad=True) for a in arrays)
    with it.autocast("cpu", it.bfloat16):
        y = ops.linear_gelu(x, w, b)
    assert y.dtype is it.bfloat16
    want = gelu(arrays[0] @ arrays[1].T + arrays[2], "tanh")
    np.testing.assert_allclose(y.numpy().astype(np.float64), want, atol=0.05)
    y.sum().backward()
    assert all(t.grad.dtype is it.float32 for t in (x, w, b))
