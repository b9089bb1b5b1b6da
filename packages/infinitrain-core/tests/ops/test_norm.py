"""Normalisation against float64 NumPy, gradients against central differences, parameters of their own dtype."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

pytestmark = pytest.mark.usefixtures("layer")
UNIT = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
SHAPES = [(6,), (3, 6), (2, 3, 7), (2, 1, 3, 5), (2, 1, 2, 2, 4), (5, 1)]
NAMES = ["layer_norm", "rms_norm", "add_layer_norm", "add_rms_norm"]


def reference(name: str, eps: float, x: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return y of any of the four, row by row."""
    others = list(others)
    if name.startswith("add_"):
        x = x + others.pop(0)
    weight, *bias = others
    y = np.empty_like(x)
    for row in np.ndindex(x.shape[:-1]):
        v = x[row] - (np.mean(x[row]) if "layer" in name else 0.0)
        y[row] = v / np.sqrt(np.dot(v, v) / len(v) + eps) * weight + (bias[0] if bias else 0.0)
    return y


def arguments(name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    rows = rng.normal(0.7, 1.5, shape)
    found = [rows, rng.normal(-0.4, 1, shape)] if name.startswith("add_") else [rows]
    found.append(rng.normal(1, 0.3, shape[-1]))
    return [*found, rng.normal(0.2, 1, shape[-1])] if "layer" in name else found


def normalise(name: str, eps: float):
    """Return the function of tensors that gives y, or (sum, y)."""
    return lambda *tensors: getattr(ops, name)(*tensors, eps=eps)


def y_of(result):
    return result[1] if isinstance(result, tuple) else result


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_forward_and_gradient(name, shape, rng):
    arrays = arguments(name, rng, shape)
    tensors = [it.from_numpy(a, requires_grad=True) for a in arrays]
    result = normalise(name, 1e-3)(*tensors)
    np.testing.assert_allclose(y_of(result).numpy(), reference(name, 1e-3, *arrays), rtol=1e-11, atol=1e-12)
    if name.startswith("add_"):
        np.testing.assert_array_equal(result[0].numpy(), arrays[0] + arrays[1])
    gradcheck(normalise(name, 1e-3), *tensors)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_parameters_may_have_another_dtype(name, dtype, rng):
    """As under autocast: activations in half, parameters and their gradients in float32 [contract 5.1]."""
    arrays = arguments(name, rng, (40, 33))
    rows = 2 if name.startswith("add_") else 1
    tensors = [it.from_numpy(a).astype(dtype if i < rows else "float32") for i, a in enumerate(arrays)]
    tensors = [it.from_numpy(t.numpy(), requires_grad=True) for t in tensors]
    wide = [it.from_numpy(t.numpy().astype(np.float64), requires_grad=True) for t in tensors]
    result = normalise(name, 1e-5)(*tensors)
    if rows == 2:  # what is normalised is the rounded sum
        np.testing.assert_array_equal(result[0].numpy(), (wide[0] + wide[1]).astype(dtype).numpy())
        exact = normalise(name.removeprefix("add_"), 1e-5)(wide[0] + wide[1], *wide[2:])
    else:
        exact = normalise(name, 1e-5)(*wide)
    y = y_of(result)
    assert y.dtype.name == dtype
    unit = UNIT[dtype]
    np.testing.assert_allclose(y.numpy().astype(np.float64), exact.numpy(), rtol=9 * unit, atol=20 * unit)

    grad = it.from_numpy(rng.normal(0.3, 1, y.shape)).astype(dtype)
    y.backward(grad)
    exact.backward(it.from_numpy(grad.numpy().astype(np.float64)))
    for i, (ours, theirs) in enumerate(zip(tensors, wide, strict=True)):
        assert ours.grad.dtype.name == (dtype if i < rows else "float32")
        if i < rows:
            limit = 20 * unit
        else:  # a rounded sum, not the rounded parts: bfloat16 would be off by 1e-2
            limit = 1e-5 if rows == 1 else max(1e-5, 4 * unit)
        error = np.linalg.norm(ours.grad.numpy().astype(np.float64) - theirs.grad.numpy())
        assert error <= limit * np.linalg.norm(theirs.grad.numpy())


@pytest.mark.parametrize("mean", [0.0, 100.0])
@pytest.mark.parametrize("name", NAMES)
def test_means_far_from_zero_in_float32(name, mean, rng):
    arrays = [a.astype(np.float32) for a in arguments(name, rng, (16, 64))]
    arrays[0] += np.float32(mean)
    y = y_of(normalise(name, 1e-5)(*map(it.from_numpy, arrays))).numpy()
    wide = [a.astype(np.float64) for a in arrays]
    if name.startswith("add_"):
        wide[:2] = [(arrays[0] + arrays[1]).astype(np.float64), np.zeros_like(wide[0])]
    np.testing.assert_allclose(y, reference(name, 1e-5, *wide), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["add_layer_norm", "add_rms_norm"])
@pytest.mark.parametrize("used", ["sum", "y", "both"])
def test_either_result_may_have_no_gradient(name, used, rng):
    arrays = arguments(name, rng, (4, 5))
    fused, apart = ([it.from_numpy(a, requires_grad=True) for a in arrays] for _ in range(2))
    u, v = (it.from_numpy(rng.normal(0.2, 1, (4, 5))) for _ in range(2))

    def loss(total, y):
        terms = {"sum": [total * u], "y": [y * v], "both": [total * u, y * v]}[used]
        return terms[0].sum() if len(terms) == 1 else (terms[0] + terms[1]).sum()

    loss(*getattr(ops, name)(*fused)).backward()
    total = apart[0] + apart[1]
    loss(total, getattr(ops, name.removeprefix("add_"))(total, *apart[2:])).backward()
    for ours, theirs in zip(fused, apart, strict=True):
        if theirs.grad is None:
            assert ours.grad is None
        else:
            np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("frozen", [0, 1, 2])
@pytest.mark.parametrize("name", ["add_layer_norm", "add_rms_norm"])
def test_frozen_arguments_get_none(name, frozen, rng):
    arrays = arguments(name, rng, (4, 5))
    full = [it.from_numpy(a, requires_grad=True) for a in arrays]
    some = [it.from_numpy(a, requires_grad=i != frozen) for i, a in enumerate(arrays)]
    for tensors in (full, some):
        total, y = getattr(ops, name)(*tensors)
        (total * y).sum().backward()
    assert some[frozen].grad is None
    for i, (a, b) in enumerate(zip(full, some, strict=True)):
        if i != frozen:
            np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


@pytest.mark.parametrize("name", ["add_layer_norm", "add_rms_norm"])
def test_one_tensor_as_both_arguments(name, rng):
    arrays = arguments(name, rng, (3, 4))
    x, *parameters = (it.from_numpy(a, requires_grad=True) for a in (arrays[0], *arrays[2:]))
    gradcheck(lambda x, *p: getattr(ops, name)(x, x, *p), x, *parameters)


@pytest.mark.parametrize("name", ["add_layer_norm", "add_rms_norm"])
def test_residual_stream_in_float32(name, rng):
    """A layer's result in bfloat16 is added to a float32 residual: the sum is float32, each gradient its argument's."""
    arrays = arguments(name, rng, (6, 8))
    before = it.from_numpy(arrays[0]).astype("bfloat16").detach()
    before.requires_grad = True
    x = ops.gelu(before)  # whose backward takes a gradient in bfloat16 only
    residual = it.from_numpy(arrays[1].astype(np.float32), requires_grad=True)
    parameters = [it.from_numpy(a.astype(np.float32)) for a in arrays[2:]]
    total, y = getattr(ops, name)(x, residual, *parameters)
    assert (total.dtype, y.dtype) == (it.float32, it.float32)
    np.testing.assert_array_equal(total.numpy(), x.numpy().astype(np.float32) + residual.numpy())
    (total * y).sum().backward()
    assert (before.grad.dtype, residual.grad.dtype) == (it.bfloat16, it.float32)
    dx = residual.grad.astype("bfloat16")
    np.testing.assert_array_equal(before.grad.numpy(), ops.GeluBackward(before.detach(), dx, "tanh").numpy())


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["AddLayerNormForward", "AddRmsNormForward"])
def test_statistics_are_of_the_rounded_sum(name, half, rng):
    """What backward is given as sum has these very statistics."""
    x, residual = (it.from_numpy(rng.normal(0.7, 1, (6, 40))).astype(half) for _ in range(2))
    bias = (None,) if "Layer" in name else ()
    total, *others = ops.OPS[name].call(x, residual, it.ones(40), *bias, 1e-5)
    wide = total.numpy().astype(np.float64)
    centred = wide - (wide.mean(1, keepdims=True) if bias else 0.0)
    np.testing.assert_allclose(others[-1].numpy(), ((centred**2).mean(1) + 1e-5) ** -0.5, rtol=1e-6)
    if bias:
        np.testing.assert_allclose(others[1].numpy(), wide.mean(1), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_parameters_add_up(name, rng):
    arrays = [a.astype(np.float32) for a in arguments(name, rng, (4, 5))]
    tensors = [it.from_numpy(a, requires_grad=True) for a in arrays]
    y_of(normalise(name, 1e-5)(*tensors)).sum().backward()
    once = [t.grad.numpy() for t in tensors]
    y_of(normalise(name, 1e-5)(*tensors)).sum().backward()
    for t, first in zip(tensors, once, strict=True):
        np.testing.assert_allclose(t.grad.numpy(), 2 * first, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_no_rows(name):
    """Nothing to normalise: parameters get gradients of zeros."""
    rows = [it.from_numpy(np.zeros((0, 4)), requires_grad=True) for _ in range(1 + name.startswith("add_"))]
    parameters = [it.from_numpy(np.ones(4), requires_grad=True) for _ in range(1 + ("layer" in name))]
    y = y_of(normalise(name, 1e-5)(*rows, *parameters))
    assert y.shape == (0, 4)
    y.sum().backward()
    assert [p.grad.tolist() for p in parameters] == [[0.0] * 4] * len(parameters)


@pytest.mark.parametrize("name", NAMES)
def test_special_values_stay_in_their_row(name, rng):
    arrays = arguments(name, rng, (4, 6))
    arrays[0][1, 2], arrays[0][3, 0] = np.nan, np.inf
    y = y_of(normalise(name, 1e-5)(*map(it.from_numpy, arrays))).numpy()
    assert np.isfinite(y[[0, 2]]).all()
    assert np.isnan(y[1]).all()
    assert np.isnan(y[3, 0])


def refusals():
    x, w = it.ones(2, 3), it.ones(3)
    bad = {
        "LayerNormForward.*weight has shape \\(4,\\), expected \\(3,\\)": lambda: ops.layer_norm(
            x, it.ones(4)
        ),
        "LayerNormForward.*bias has shape \\(2,\\)": lambda: ops.layer_norm(x, w, it.ones(2)),
        "RmsNormForward.*weight has shape \\(1,\\)": lambda: ops.rms_norm(x, it.ones(1)),
        "RmsNormForward.*x has no last axis": lambda: ops.rms_norm(it.tensor(1.0), w),
        "RmsNormForward.*x has shape \\(2, 0\\), and nothing": lambda: ops.rms_norm(
            it.ones(2, 0), it.ones(0)
        ),
        "AddRmsNormForward.*residual has shape \\(3,\\), expected \\(2, 3\\)": lambda: ops.add_rms_norm(
            x, w, w
        ),
        "AddLayerNormForward.*residual has shape": lambda: ops.add_layer_norm(x, it.ones(2, 1), w),
        "AddLayerNormForward.*bias has shape \\(1,\\)": lambda: ops.add_layer_norm(x, x, w, it.ones(1)),
        "RmsNormBackward.*rstd has shape \\(3,\\)": lambda: ops.RmsNormBackward(x, w, w, x),
        "AddRmsNormBackward.*grad_sum has shape": lambda: ops.AddRmsNormBackward(x, w, it.ones(2), w, x),
        "AddLayerNormBackward.*mean has shape": lambda: ops.AddLayerNormBackward(
            x, w, w, it.ones(2), None, x
        ),
    }
    return [pytest.param(call, match, id=match[:40]) for match, call in bad.items()]


@pytest.mark.parametrize(("call", "match"), refusals())
def test_shapes_that_do_not_fit(call, match):
    with pytest.raises(ShapeError, match=match):
        call()


def test_dtypes_that_do_not_fit():
    x, w = it.ones(2, 3), it.ones(3)
    with pytest.raises(DtypeError, match=r"RmsNormForward.*weight has dtype int64, expected a floating one"):
        ops.rms_norm(x, w.astype("int64"))
    with pytest.raises(DtypeError, match=r"LayerNormForward.*bias has dtype float64, expected float32"):
        ops.layer_norm(x, w, w.astype("float64"))
    with pytest.raises(DtypeError, match=r"AddRmsNormForward.*residual has dtype int64"):
        ops.add_rms_norm(x, x.astype("int64"), w)
    with pytest.raises(
        DtypeError, match=r"LayerNormForward: x has dtype int64; the op takes floating dtypes"
    ):
        ops.layer_norm(x.astype("int64"), w)
    with pytest.raises(DtypeError, match=r"RmsNormBackward.*rstd has dtype float64, expected float32"):
        ops.RmsNormBackward(x, w, it.ones(2).astype("float64"), x)
