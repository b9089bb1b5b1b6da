"""scatter, scatter_add and one_hot against loops, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

PLACES = [
    ((3, 5), (3, 2), 1),
    ((6, 4), (5, 3), 0),
    ((2, 4, 3), (1, 6, 3), 1),
    ((2, 4, 3), (2, 4, 1), -1),
    ((7,), (9,), 0),
    ((4,), (0,), 0),
    ((2, 0), (2, 0), 1),
]


def places(index, axis):
    """Yield each place of index, in row-major order, and where it points."""
    for at in np.ndindex(index.shape):
        to = list(at)
        to[axis] = index[at]
        yield at, tuple(to)


@pytest.mark.parametrize(("shape", "index_shape", "axis"), PLACES)
def test_scatter(shape, index_shape, axis, rng):
    """With repeated places: the last value in row-major order stays, and the others get no gradient."""
    index, values = rng.integers(0, max(1, shape[axis]), index_shape), rng.normal(size=index_shape)
    want = np.zeros(shape)
    for at, to in places(index, axis):
        want[to] = values[at]
    i, v = it.from_numpy(index), it.from_numpy(values, requires_grad=True)
    assert ops.scatter(v, axis, i, shape).numpy().tolist() == want.tolist()
    assert ops.scatter(v.astype("bfloat16"), axis, i.astype("uint8"), shape).dtype.name == "bfloat16"
    gradcheck(lambda t: ops.scatter(t, axis, i, shape), v)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16"])
def test_scatter_moves_values_of_any_dtype(dtype):
    y = ops.scatter(it.tensor([[1, 0], [0, 1]]).astype(dtype), 1, it.tensor([[2, 1], [0, 0]]), (2, 3))
    assert y.dtype.name == dtype
    assert y.astype("int64").tolist() == [[0, 0, 1], [1, 0, 0]]
    big = it.tensor([2**62 + 1])
    assert ops.scatter(big, 0, it.tensor([1]), (2,)).tolist() == [0, 2**62 + 1]


@pytest.mark.parametrize(("shape", "index_shape", "axis"), PLACES)
def test_scatter_add(shape, index_shape, axis, rng):
    index, values = rng.integers(0, max(1, shape[axis]), index_shape), rng.normal(size=index_shape)
    x = rng.normal(size=shape)
    want = x.copy()
    for at, to in places(index, axis):
        want[to] += values[at]
    i = it.from_numpy(index)
    t, v = it.from_numpy(x, requires_grad=True), it.from_numpy(values, requires_grad=True)
    np.testing.assert_allclose(ops.scatter_add(t, axis, i, v).numpy(), want, rtol=1e-12, atol=1e-12)
    gradcheck(lambda a, b: ops.scatter_add(a, axis, i, b), t, v)
    gradcheck(lambda b: ops.scatter_add(t.detach(), axis, i, b), v)


def test_scatter_add_of_other_dtypes():
    index = it.tensor([1] * 1024)
    half = ops.scatter_add(
        it.ones(2, dtype="bfloat16"), 0, index, it.full((1024,), 1.0078125, dtype="bfloat16")
    )
    assert half.tolist() == [1.0, 1032.0], "summed in float32, rounded once: 1 + 1024 * 1.0078125 = 1033"
    assert ops.scatter_add(it.tensor([2**62, 1]), 0, it.tensor([0, 0]), it.tensor([1, 2])).tolist() == [
        2**62 + 3,
        1,
    ]
    assert ops.scatter_add(
        it.tensor([250, 1], "uint8"), 0, it.tensor([0]), it.tensor([9], "uint8")
    ).tolist() == [3, 1]
    mixed = ops.scatter_add(it.tensor([1, 2]), 0, it.tensor([0]), it.tensor([0.5]))
    assert mixed.tolist() == [1.5, 2.0]
    x = it.tensor([1.0, 2.0], requires_grad=True)
    v = it.tensor([0.5], "float64", requires_grad=True)
    ops.scatter_add(x, 0, it.tensor([1]), v).backward(it.tensor([3.0, 4.0], "float64"))
    assert (x.grad.tolist(), v.grad.tolist()) == ([3.0, 4.0], [4.0])
    assert (x.grad.dtype.name, v.grad.dtype.name) == ("float32", "float64")


def test_routing_weights_and_map():
    """What a mixture of experts does with them: probabilities of the chosen experts, 0 elsewhere."""
    probs = it.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]], requires_grad=True)
    values, chosen = probs.topk(2)
    dense = ops.scatter(values, -1, chosen, probs.shape)
    np.testing.assert_allclose(dense.tolist(), [[0.0, 0.6, 0.3], [0.5, 0.0, 0.3]], rtol=1e-6)
    chosen_map = ops.one_hot(chosen, 3, "bool")
    assert chosen_map.tolist() == [
        [[False, True, False], [False, False, True]],
        [[True, False, False], [False, False, True]],
    ]
    dense.backward(it.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert probs.grad.tolist() == [[0.0, 2.0, 3.0], [4.0, 0.0, 6.0]]


@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (0,), (2, 0)])
def test_one_hot(shape, rng):
    index = np.asarray(rng.integers(0, 5, shape))
    y = ops.one_hot(it.from_numpy(index), 5)
    assert y.dtype is it.dtype.int64
    assert y.numpy().tolist() == np.eye(5, dtype=np.int64)[index].tolist()
    assert y.shape == (*shape, 5)
    for dtype in ("bool", "uint8", "float16", "bfloat16"):
        assert ops.one_hot(it.from_numpy(index), 5, dtype).dtype.name == dtype
    assert ops.one_hot(it.zeros(0, dtype="int32"), 0).shape == (0, 0)


def test_errors():
    x, index = it.ones(2, 3), it.tensor([[0, 1], [1, 0]])
    with pytest.raises(ShapeError, match=r"ScatterForward.*values has shape \(2, 3\), expected \(2, 2\)"):
        ops.scatter(x, 1, index, (2, 3))
    with pytest.raises(ShapeError, match=r"ScatterForward.*index has shape \(2, 2\)"):
        ops.scatter(it.ones(2, 2), 1, index, (1, 3))
    with pytest.raises(ShapeError, match="scatter: axis 2 is out of range"):
        ops.scatter(it.ones(2, 2), 2, index, (2, 3))
    with pytest.raises(DtypeError, match="scatter: index has dtype float32"):
        ops.scatter(x, 1, x, (2, 3))
    with pytest.raises(DtypeError, match="scatter_add: index has dtype float32"):
        ops.scatter_add(x, 1, x, x)
    with pytest.raises(ShapeError, match=r"ScatterAddForward.*values has shape \(2, 3\), expected \(2, 2\)"):
        ops.scatter_add(x, 1, index, x)
    with pytest.raises(DtypeError, match=r"ScatterAddForward.*values has dtype float64, expected float32"):
        ops.ScatterAddForward(x, index, it.ones(2, 2, dtype="float64"), 1)
    with pytest.raises(DtypeError, match="ScatterAddForward: x has dtype bool"):
        ops.scatter_add(x > 0, 1, index, it.ones(2, 2) > 0)
    with pytest.raises(ShapeError, match=r"OneHot.*classes -1 is negative"):
        ops.one_hot(index, -1)
    with pytest.raises(DtypeError, match="one_hot: index has dtype float32"):
        ops.one_hot(x, 3)
    with pytest.raises(DtypeError, match="unknown dtype 'int7'"):
        ops.one_hot(index, 3, "int7")
