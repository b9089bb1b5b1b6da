"""Clamp, maximum, minimum, isfinite, isnan."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.optable import OPS
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("low", "high"), [(-0.5, 0.75), (None, 0.25), (-0.25, None), (0.5, 0.5), (-1, 1), (-INF, 1.0)]
)
def test_clamp(low, high, rng):
    x = rng.normal(size=(4, 7))
    t = it.from_numpy(x, requires_grad=True)
    y = ops.clamp(t, low, high)
    np.testing.assert_array_equal(y.numpy(), np.clip(x, low, high))
    gradcheck(lambda t: ops.clamp(t, low, high), t)


def test_clamp_passes_the_gradient_on_its_bounds_and_keeps_nan():
    x = it.tensor([-2.0, -1.0, 0.0, 3.0, 4.0, NAN, INF, -INF], requires_grad=True)
    y = ops.clamp(x, -1, 3)
    np.testing.assert_array_equal(y.numpy(), np.float32([-1, -1, 0, 3, 3, NAN, 3, -1]))
    y.backward(it.tensor([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]))
    assert x.grad.tolist() == [0, 3, 5, 7, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_clamp_of_integers_keeps_their_dtype(dtype):
    x = it.tensor([0, 3, 9, 100], dtype)
    y = ops.clamp(x, 2, 9)
    assert y.dtype.name == dtype
    assert y.tolist() == x.clamp(2, 9).tolist() == [2, 3, 9, 9]
    assert ops.clamp(x, 5).tolist() == [5, 5, 9, 100]
    assert ops.clamp(x, high=5).tolist() == [0, 3, 5, 5]


def test_clamp_of_the_largest_integers():
    top = 2**64 - 1
    assert ops.clamp(it.from_numpy(np.array([3, top], np.uint64)), 4).tolist() == [4, top]
    assert ops.clamp(it.tensor([-(2**63), 5], "int64"), high=4).tolist() == [-(2**63), 4]


def test_clamp_of_integers_by_a_float_is_float32():
    y = ops.clamp(it.tensor([0, 3, 9]), 0.5, 4)
    assert y.dtype is it.float32
    assert y.tolist() == [0.5, 3, 4]


def test_clamp_keeps_half_precision():
    x = it.tensor([-3.0, 0.3, 7.0]).astype("bfloat16")
    y = ops.clamp(x, -1, 1)
    assert y.dtype is it.bfloat16
    assert y.tolist() == [-1, x.tolist()[1], 1]


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ((3, 1), ValueError, "clamp: low=3 is above high=1"),
        ((None, None), ValueError, "clamp: low and high are both None"),
        ((NAN, 1), ValueError, "clamp: a bound is NaN: low=nan"),
        (("1", 2), TypeError, "clamp: an operand is a Tensor or a number, got str"),
        ((0, it.ones(2)), TypeError, "clamp: an operand is a Tensor or a number, got Tensor"),
    ],
)
def test_clamp_names_bad_bounds(bounds, error, message):
    with pytest.raises(error, match=message):
        ops.clamp(it.ones(3), *bounds)


def test_clamp_refuses_what_does_not_fit():
    with pytest.raises(DtypeError, match=r"clamp: 300 does not fit uint8"):
        ops.clamp(it.tensor([1], "uint8"), 0, 300)
    with pytest.raises(DtypeError, match=r"ClampForward: x has dtype bool"):
        ops.clamp(it.tensor([True]), 0, 1)
    with pytest.raises(TypeError, match="clamp: one operand is a Tensor"):
        ops.clamp(3, 0, 1)
    with pytest.raises(ShapeError, match=r"ClampBackward.*x has shape \(3,\), expected \(2,\)"):
        OPS["ClampBackward"].call(it.ones(2), it.ones(3), 0.0, 1.0)
    with pytest.raises(DtypeError, match=r"ClampBackward.*x has dtype float64, expected float32"):
        OPS["ClampBackward"].call(it.ones(2), it.ones(2, dtype="float64"), 0.0, 1.0)


# The larger and the smaller -------------------------------------------------------------------------------

PAIRS = {"maximum": np.maximum, "minimum": np.minimum}
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((4, 1, 3), (2, 1)), ((), (3,)), ((0, 3), (3,)), ((1,), (4, 5))]


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name, a, b, rng):
    left, right = rng.normal(size=a), rng.normal(size=b)
    tensors = it.from_numpy(left, requires_grad=True), it.from_numpy(right, requires_grad=True)
    y = getattr(ops, name)(*tensors)
    np.testing.assert_array_equal(y.numpy(), PAIRS[name](left, right))
    gradcheck(getattr(ops, name), *tensors)


@pytest.mark.parametrize(("name", "to_a"), [("maximum", [0, 3, 7]), ("minimum", [2, 3, 0])])
def test_ties_share_the_gradient(name, to_a):
    a = it.tensor([1.0, 5.0, 9.0], requires_grad=True)
    b = it.tensor([2.0, 5.0, 8.0], requires_grad=True)
    getattr(ops, name)(a, b).backward(it.tensor([2.0, 6.0, 7.0]))
    assert a.grad.tolist() == to_a
    assert b.grad.tolist() == [2 - to_a[0], 3, 7 - to_a[2]]


@pytest.mark.parametrize("name", PAIRS)
def test_nan_propagates(name):
    a = it.tensor([NAN, 1.0, NAN, INF], requires_grad=True)
    b = it.tensor([1.0, NAN, NAN, INF], requires_grad=True)
    y = getattr(ops, name)(a, b)
    np.testing.assert_array_equal(y.numpy(), np.float32([NAN, NAN, NAN, INF]))
    y.backward(it.tensor([2.0, 3.0, 5.0, 8.0]))
    assert a.grad.tolist() == b.grad.tolist() == [2, 3, 5, 4]


def test_pairs_promote():
    a, b = it.tensor([1, 5, -3], "int16"), it.tensor([4.0, 4.5, 1.0], requires_grad=True)
    y = ops.maximum(a, b)
    assert y.dtype is it.float32
    assert y.tolist() == [4, 5, 1]
    y.sum().backward()
    assert b.grad.tolist() == [1, 0, 1]
    assert ops.minimum(it.tensor([1, 200], "uint8"), it.tensor([-2, 3], "int8")).dtype is it.int16
    assert ops.maximum(it.tensor([True, False]), it.tensor([False, False])).tolist() == [True, False]
    assert ops.minimum(it.tensor([True, True]), it.tensor([False, True])).tolist() == [False, True]


def test_pairs_of_half_and_single_give_each_its_own_gradient():
    a = it.tensor([1.0, 5.0]).astype("bfloat16")
    a.requires_grad = True
    b = it.tensor([4.0, 4.0], requires_grad=True)
    y = ops.maximum(a, b)
    assert y.dtype is it.float32
    y.sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (it.bfloat16, it.float32)
    assert a.grad.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["Maximum", "Minimum"])
def test_pairs_refuse(name):
    function = getattr(ops, name.lower())
    with pytest.raises(ShapeError, match=rf"{name}Forward\(a: float32\[2\], b: float32\[3\]\).*broadcast"):
        function(it.ones(2), it.ones(3))
    with pytest.raises(TypeError, match=rf"{name}Forward: b is a tensor, got float"):
        function(it.ones(2), 1.0)
    with pytest.raises(ShapeError, match=rf"{name}Backward.*grad has shape \(3,\), expected \(2,\)"):
        OPS[f"{name}Backward"].call(it.ones(3), it.ones(2), it.ones(2))


# What is finite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_isfinite_and_isnan(dtype):
    x = it.tensor([0.0, -INF, NAN, 3.0, INF]).astype(dtype)
    x.requires_grad = True
    assert ops.isfinite(x).tolist() == x.isfinite().tolist() == [True, False, False, True, False]
    assert ops.isnan(x).tolist() == x.isnan().tolist() == [False, False, True, False, False]
    assert not ops.isnan(x).requires_grad
    assert ops.isnan(x).dtype is it.bool_


def test_integers_are_finite():
    assert ops.isfinite(it.tensor([1, 2])).tolist() == [True, True]
    assert ops.isnan(it.tensor([1, 2], "uint8")).tolist() == [False, False]
    with pytest.raises(DtypeError, match="IsNanForward: x has dtype bool"):
        ops.isnan(it.tensor([True]))
