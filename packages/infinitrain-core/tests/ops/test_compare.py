"""Comparisons and logic against NumPy and Python."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import ShapeError

COMPARISONS = {
    "equals": operator.eq,
    "not_equals": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3, 1), (1, 4)),
    ((), (2,)),
    ((2,), ()),
    ((), ()),
    ((0, 2), (1, 1)),
]


@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8", "bool"])
def test_tensors_broadcast(name, dtype, a_shape, b_shape, rng):
    a, b = rng.integers(0, 3, a_shape), rng.integers(0, 3, b_shape)
    if dtype == "bool":
        a, b = a > 1, b > 1
    x, y = it.from_numpy(np.asarray(a)).astype(dtype), it.from_numpy(np.asarray(b)).astype(dtype)
    compare = COMPARISONS[name]
    got = compare(x, y)
    assert got.dtype is it.dtype.bool_
    assert got.numpy().tolist() == np.asarray(compare(a, b)).tolist()
    assert getattr(ops, name)(x, y).numpy().tolist() == got.numpy().tolist()


@pytest.mark.parametrize("name", COMPARISONS)
def test_numbers_on_either_side(name):
    compare = COMPARISONS[name]
    for dtype in ("float32", "int8", "uint8", "int64", "bfloat16"):
        x = it.tensor([0, 1, 2, 100], dtype)
        a = [0, 1, 2, 100]
        for value in (1, 2.5, -1, 100, 300, 1e30, -(2**70), 2**70, np.float32(2), True):
            assert compare(x, value).tolist() == [compare(v, float(value)) for v in a], (dtype, value)
            if not isinstance(value, np.generic):
                assert compare(value, x).tolist() == [compare(float(value), v) for v in a], (dtype, value)
    truth = it.tensor([True, False])
    for value in (True, False, 1, 0, 0.5, 2):
        assert compare(truth, value).tolist() == [compare(1, value), compare(0, value)]


def test_integers_and_floats_are_compared_exactly():
    big = it.tensor([2**24 + 1, 2**24])
    assert (big == it.tensor([2.0**24, 2.0**24])).tolist() == [False, True]
    assert (big > 2.0**24).tolist() == [True, False]
    assert (it.tensor([2**53 + 1]) == 2**53).tolist() == [False]
    assert (it.tensor([255], "uint8") == it.tensor([-1], "int8")).tolist() == [False]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_a_tensor_of_a_number_equals_it(dtype):
    x = it.tensor([0.1, 0.3]).astype(dtype) if dtype != "float64" else it.tensor([0.1, 0.3], dtype)
    assert (x == 0.1).tolist() == [True, False]


def test_nan_equals_nothing():
    x = it.tensor([float("nan"), 1.0])
    assert (x == x).tolist() == [False, True]
    assert (x != x).tolist() == [True, False]
    assert (x < it.tensor(float("nan"))).tolist() == [False, False]


def test_objects_that_are_no_numbers_are_unequal_by_pythons_rule():
    x = it.tensor([1.0])
    for other in (None, "a", [1.0], {}):
        assert ops.equals(x, other) is NotImplemented
        assert (x == other) is False
        assert (x != other) is True
    assert x in [None, x]
    with pytest.raises(TypeError, match="<: a tensor is compared with a Tensor or a number, got str"):
        ops.lt(x, "a")


def test_logic_takes_nonzero_as_true():
    a, b = it.tensor([0.0, 0.5, -1.0, 0.0]), it.tensor([0, 0, 3, 2])
    assert (a & b).tolist() == [False, False, True, False]
    assert (a | b).tolist() == [False, True, True, True]
    assert (~a).tolist() == [True, False, False, True]
    assert ((a > 0) | True).tolist() == [True] * 4
    assert ((a > 0) & 0).tolist() == [False] * 4
    assert (it.tensor([[True], [False]]) & it.tensor([True, False])).tolist() == [
        [True, False],
        [False, False],
    ]
    for y in (a & b, a | b, ~b):
        assert y.dtype is it.dtype.bool_


def test_results_carry_no_graph():
    x = it.tensor([1.0, 2.0], requires_grad=True)
    for y in (x > 1, x == x * 2, x & x):
        assert not y.requires_grad
        assert y.grad_fn is None


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match=r"LtForward\(a: float32\[2\], b: float32\[3\]\)"):
        ops.lt(it.ones(2), it.ones(3))
