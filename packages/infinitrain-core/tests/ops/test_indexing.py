"""Indexing against NumPy, gradients against central differences, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64"])
@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (0,), (2, 0)])
def test_embedding(shape, dtype, rng):
    ids = rng.integers(0, 5, shape)
    index = it.from_numpy(np.asarray(ids)).astype(dtype)
    w = rng.normal(size=(5, 3))
    weight = it.from_numpy(w, requires_grad=True)
    y = ops.embedding(index, weight)
    assert y.shape == (*shape, 3)
    assert y.numpy().tolist() == w[ids].tolist()
    gradcheck(lambda v: ops.embedding(index, v), weight)


def test_embedding_gradient_adds_up_repeated_ids(rng):
    ids = rng.integers(0, 7, 500)
    weight = it.from_numpy(rng.normal(size=(9, 4)), requires_grad=True)
    u = rng.normal(size=(500, 4))
    want = np.zeros((9, 4))
    for i, row in zip(ids, u, strict=True):
        want[i] += row
    for times in (1, 2):  # the second time it is added to what is there
        ops.embedding(it.from_numpy(ids), weight).backward(it.from_numpy(u))
        np.testing.assert_allclose(weight.grad.numpy(), times * want, rtol=1e-12, atol=1e-12)


def test_embedding_gradient_of_half_precision_accumulates_in_float32():
    weight = it.zeros(3, 2, dtype="bfloat16", requires_grad=True)
    index = it.tensor([1] * 1024)
    ops.embedding(index, weight).backward(it.full((1024, 2), 1.0078125, dtype="bfloat16"))
    assert weight.grad.tolist() == [[0.0, 0.0], [1032.0, 1032.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("ids", "bad", "at"), [([[0, 1], [5, -7]], 5, (1, 0)), ([[0, -1], [9, 1]], -1, (0, 1))]
)
def test_indices_out_of_range_are_named(ids, bad, at):
    """Op, value, position and limit, in every op that takes an index [contract 4.7]."""
    index, place = it.tensor(ids), rf"\[{at[0]}, {at[1]}\]"
    calls = {
        "EmbeddingForward": lambda: ops.embedding(index, it.ones(5, 2)),
        "EmbeddingBackward": lambda: ops.EmbeddingBackward(index, it.ones(2, 2, 3), 5),
        "GatherForward": lambda: ops.gather(it.ones(2, 5), 1, index),
        "GatherBackward": lambda: ops.GatherBackward(it.ones(2, 2), index, (2, 5), 1),
        "IndexSelectForward": lambda: it.ones(3, 5)[:, index],
        "IndexSelectBackward": lambda: ops.IndexSelectBackward(it.ones(3, 2, 2), index, (3, 5), 1),
        "ScatterForward": lambda: ops.scatter(it.ones(2, 2), 0, index, (5, 2)),
        "ScatterBackward": lambda: ops.ScatterBackward(it.ones(5, 2), index, 0),
        "ScatterAddForward": lambda: ops.scatter_add(it.ones(5, 2), 0, index, it.ones(2, 2)),
        "OneHot": lambda: ops.one_hot(index, 5),
    }
    for name, call in calls.items():
        message = rf"^{name}: index {bad} at position {place} is not in 0\.\.4 \[contract 4\.7\]"
        with pytest.raises(IndexError, match=message):
            call()


def test_embedding_errors():
    with pytest.raises(DtypeError, match="index has dtype float32, expected integers"):
        ops.embedding(it.ones(2), it.ones(5, 2))
    with pytest.raises(ShapeError, match=r"weight has shape \(5,\), expected \(V, D\)"):
        ops.embedding(it.tensor([0]), it.ones(5))
    with pytest.raises(ShapeError, match="grad has shape"):
        ops.EmbeddingBackward(it.tensor([0, 1]), it.ones(3, 2), 5)
    with pytest.raises(DtypeError, match="grad has dtype int64"):
        ops.EmbeddingBackward(it.tensor([0]), it.tensor([[1]]), 5)


@pytest.mark.parametrize(
    ("shape", "index_shape", "axis"),
    [
        ((3, 4), (3, 2), 1),
        ((3, 4), (5, 4), 0),
        ((3, 4), (2, 3), -1),
        ((2, 3, 4), (1, 6, 3), 1),
        ((4,), (0,), 0),
    ],
)
def test_gather(shape, index_shape, axis, rng):
    x = rng.normal(size=shape)
    index = rng.integers(0, shape[axis], index_shape)
    want = np.empty(index_shape)
    for place in np.ndindex(index_shape):
        source = list(place)
        source[axis] = index[place]
        want[place] = x[tuple(source)]
    t, i = it.from_numpy(x, requires_grad=True), it.from_numpy(index)
    y = t.gather(axis, i)
    assert y.numpy().tolist() == want.tolist()
    assert ops.gather(t.astype("bfloat16"), axis, i.astype("int32")).shape == index_shape
    gradcheck(lambda v: ops.gather(v, axis, i), t)


def test_gather_errors():
    x = it.ones(2, 3)
    with pytest.raises(IndexError, match=r"GatherForward: index 3 at position \[1, 0\] is not in 0\.\.2"):
        x.gather(1, it.tensor([[0], [3]]))
    with pytest.raises(IndexError, match="index -1 at position"):
        x.gather(1, it.tensor([[-1], [0]]))
    with pytest.raises(DtypeError, match="index has dtype float32, expected integers"):
        x.gather(1, it.ones(2, 1))
    with pytest.raises(ShapeError, match=r"index has shape \(3, 1\)"):
        x.gather(1, it.tensor([[0], [0], [0]]))
    with pytest.raises(ShapeError, match=r"index has shape \(1,\)"):
        x.gather(1, it.tensor([0]))


@pytest.mark.parametrize(
    ("shape", "axis", "index_shape"),
    [
        ((5, 3), 0, (4,)),
        ((2, 5, 3), 1, (2, 3)),
        ((2, 5), -1, (1, 2)),
        ((5,), 0, ()),
        ((5, 2), 0, (0,)),
        ((2, 5), 1, (0, 3)),
    ],
)
def test_index_select(shape, axis, index_shape, rng):
    x, index = rng.normal(size=shape), np.asarray(rng.integers(0, 5, index_shape))
    want = np.take(x, index, axis)
    t, i = it.from_numpy(x, requires_grad=True), it.from_numpy(index)
    y = t.index_select(axis, i)
    assert y.shape == want.shape
    assert y.numpy().tolist() == want.tolist()
    for dtype in ("bool", "uint8", "bfloat16"):
        assert ops.index_select(t.astype(dtype), axis, i.astype("int32")).dtype.name == dtype
    gradcheck(lambda v: ops.index_select(v, axis, i), t)


def test_index_select_gradient_adds_up_repeated_indices(rng):
    index, u = rng.integers(0, 7, 500), rng.normal(size=(3, 500, 2))
    t = it.from_numpy(rng.normal(size=(3, 9, 2)), requires_grad=True)
    want = np.zeros((3, 9, 2))
    for i, n in enumerate(index):
        want[:, n] += u[:, i]
    t[:, it.from_numpy(index)].backward(it.from_numpy(u))
    np.testing.assert_allclose(t.grad.numpy(), want, rtol=1e-12, atol=1e-12)
    half = it.zeros(2, 1, dtype="bfloat16", requires_grad=True)
    half[it.tensor([1] * 1024)].backward(it.full((1024, 1), 1.0078125, dtype="bfloat16"))
    assert half.grad.tolist() == [[0.0], [1032.0]], "summed in float32"


def test_index_select_errors():
    with pytest.raises(ShapeError, match="index_select: axis 2 is out of range"):
        ops.index_select(it.ones(2, 3), 2, it.tensor([0]))
    with pytest.raises(DtypeError, match="index_select: index has dtype float32, expected integers"):
        ops.index_select(it.ones(2, 3), 0, it.ones(1))
    with pytest.raises(TypeError, match="index_select: index is a tensor of integers, got list"):
        ops.index_select(it.ones(2, 3), 0, [0])
    with pytest.raises(ShapeError, match=r"IndexSelectBackward.*grad has shape \(3,\), expected \(1, 3\)"):
        ops.IndexSelectBackward(it.ones(3), it.tensor([0]), (2, 3), 0)
    with pytest.raises(IndexError, match=r"IndexSelectForward: index 0 at position \[0\] is not in 0..-1"):
        ops.index_select(it.ones(0, 3), 0, it.tensor([0]))


BROADCASTS = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((2, 3), (2, 1)),
    ((3,), (2, 3)),
    ((), (2,)),
    ((2, 3), ()),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize(("shape", "mask_shape"), BROADCASTS)
def test_masked_fill(shape, mask_shape, rng):
    x, mask = rng.normal(size=shape), np.asarray(rng.integers(0, 2, mask_shape) > 0)
    t, m = it.from_numpy(np.asarray(x), requires_grad=True), it.from_numpy(mask)
    want = np.where(mask, -2.5, x)
    assert t.masked_fill(m, -2.5).numpy().tolist() == want.tolist()
    assert t.masked_fill(m.astype("int64"), -2.5).numpy().tolist() == want.tolist()
    gradcheck(lambda v: ops.masked_fill(v, m, 4), t)


def test_masked_fill_of_other_dtypes():
    mask = it.tensor([True, False])
    assert it.tensor([1.0, 2.0]).astype("bfloat16").masked_fill(mask, float("-inf")).tolist() == [
        -np.inf,
        2.0,
    ]
    assert it.tensor([1, 2], "uint8").masked_fill(mask, 9).tolist() == [9, 2]
    assert it.tensor([False, False]).masked_fill(mask, True).tolist() == [True, False]
    with pytest.raises(DtypeError, match=r"MaskForward.*value is a float, and x int64"):
        it.tensor([1, 2]).masked_fill(mask, 0.5)
    with pytest.raises(DtypeError, match="masked_fill: 256 does not fit uint8"):
        it.tensor([1, 2], "uint8").masked_fill(mask, 256)
    with pytest.raises(TypeError, match="masked_fill: mask is a Tensor, got list"):
        it.tensor([1, 2]).masked_fill([True, False], 0)
    with pytest.raises(DtypeError, match="mask has dtype int64, expected bool"):
        ops.MaskForward(it.ones(2), it.tensor([1, 0]), 0.0)


WHERE = [
    ((2, 3), (2, 3), (2, 3)),
    ((3,), (2, 1), ()),
    ((2, 1, 1), (3, 1), (1, 4)),
    ((), (2,), (2, 2)),
    ((0,), (1,), ()),
]


@pytest.mark.parametrize("shapes", WHERE)
def test_where(shapes, rng):
    c = np.asarray(rng.integers(0, 2, shapes[0]) > 0)
    a, b = np.asarray(rng.normal(size=shapes[1])), np.asarray(rng.normal(size=shapes[2]))
    condition = it.from_numpy(c)
    x, y = it.from_numpy(a, requires_grad=True), it.from_numpy(b, requires_grad=True)
    assert ops.where(condition, x, y).numpy().tolist() == np.where(c, a, b).tolist()
    assert ops.where(condition, x, 0.5).numpy().tolist() == np.where(c, a, 0.5).tolist()
    assert ops.where(condition, 2, y).numpy().tolist() == np.where(c, 2.0, b).tolist()
    gradcheck(lambda u, v: ops.where(condition, u, v), x, y)
    gradcheck(lambda u: ops.where(condition, u, 1.0), x)
    gradcheck(lambda v: ops.where(condition, 1.0, v), y)


def test_where_promotes_and_takes_two_numbers():
    condition = it.tensor([True, False])
    assert ops.where(condition, 1, 0).tolist() == [1, 0]
    assert ops.where(condition, 1, 0).dtype is it.dtype.int64
    assert ops.where(condition, 1.5, 0).tolist() == [1.5, 0.0]
    assert ops.where(condition, it.tensor([1, 2]), 0.5).tolist() == [1.0, 0.5]
    assert ops.where(it.tensor([2, 0]), it.tensor([1, 2]), it.tensor([0.5, 0.5])).dtype is it.dtype.float32
    x = it.tensor([1.0, 2.0], requires_grad=True)
    h = x.astype("bfloat16")
    ops.where(condition, h, it.tensor([1.0, 1.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


def test_large_integers_are_moved_exactly():
    """Not by way of floats: 2⁶² + 1 has more digits than float64."""
    big, index = 2**62 + 1, it.tensor([1, 0, 1])
    x = it.tensor([7, big])
    assert x.gather(0, index).tolist() == [big, 7, big]
    assert x[index].tolist() == [big, 7, big]
    assert x.masked_fill(x > 7, big - 2).tolist() == [7, big - 2]
    assert ops.where(x > 7, x, it.tensor([big, big])).tolist() == [big, big]
    assert (x.topk(2)[0].tolist(), x.max().item(), x.cumsum().tolist()) == ([big, 7], big, [7, big + 7])
    x[0] = big - 4
    assert x.tolist() == [big - 4, big]
