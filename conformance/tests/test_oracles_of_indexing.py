"""Oracles of indexing, moving and reducing: gradients against central differences, the rest against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from differences import slope

from infinitrain_conformance.oracles import indexing, reduction, scatter, shape, topk

# name: (shape of x, forward of x -> y, backward of (grad, x, y) -> dx)
INDEX = np.array([[0, 2, 2], [1, 0, 1]])
CONDITION = np.array([[True], [False], [True]])
WHERE = ((2, 0), (-1, 3), (-2, 2))  # [2::-2, :3:2]
GRADIENTS: dict[str, tuple[tuple[int, ...], Any, Any]] = {
    "gather": (
        (2, 4),
        lambda x: indexing.gather(x, INDEX, 1)["y"],
        lambda g, x, y: indexing.gather_backward(g, INDEX, (2, 4), 1)["dx"],
    ),
    "index_select": (
        (2, 4),
        lambda x: indexing.index_select(x, INDEX, 1)["y"],
        lambda g, x, y: indexing.index_select_backward(g, INDEX, (2, 4), 1)["dx"],
    ),
    "embedding": (
        (4, 2),
        lambda x: indexing.embedding(INDEX, x)["y"],
        lambda g, x, y: indexing.embedding_backward(INDEX, g, 4)["dweight"],
    ),
    "mask": (
        (1, 4),
        lambda x: indexing.mask(x, CONDITION, 5.0)["y"],
        lambda g, x, y: indexing.mask_backward(g, CONDITION, (1, 4))["dx"],
    ),
    "where_a": (
        (1, 4),
        lambda x: indexing.where(CONDITION, x, np.ones(1))["y"],
        lambda g, x, y: indexing.where_backward(CONDITION, g, (1, 4), (1,))["da"],
    ),
    "where_b": (
        (4,),
        lambda x: indexing.where(CONDITION, np.ones((3, 1)), x)["y"],
        lambda g, x, y: indexing.where_backward(CONDITION, g, (3, 1), (4,))["db"],
    ),
    "scatter": (
        (2, 3),
        lambda x: scatter.scatter(x, INDEX, (2, 4), 1)["y"],
        lambda g, x, y: scatter.scatter_backward(g, INDEX, 1)["dvalues"],
    ),
    "topk": (
        (3, 5),
        lambda x: topk.topk(x, 2, 1, True)["values"],
        lambda g, x, y: scatter.scatter(g, topk.topk(x, 2, 1, True)["indices"].value, (3, 5), 1)["y"],
    ),
    "slice": (
        (3, 4),
        lambda x: shape.slice_(x, *WHERE)["y"],
        lambda g, x, y: shape.slice_backward(g, (3, 4), *WHERE)["dx"],
    ),
    "repeat": (
        (2, 3),
        lambda x: shape.repeat(x, 3, 1)["y"],
        lambda g, x, y: shape.repeat_backward(g, 3, 1)["dx"],
    ),
    "expand": (
        (3, 1),
        lambda x: shape.expand(x, (2, 3, 4))["y"],
        lambda g, x, y: shape.expand_backward(g, (3, 1))["dx"],
    ),
    "sum": (
        (2, 3, 4),
        lambda x: reduction.sum_(x, (0, 2), False)["y"],
        lambda g, x, y: reduction.sum_backward(g, x.shape, (0, 2), False)["dx"],
    ),
    "mean": (
        (2, 3, 4),
        lambda x: reduction.mean(x, (0, 2), True)["y"],
        lambda g, x, y: reduction.mean_backward(g, x.shape, (0, 2), True)["dx"],
    ),
    "max": (
        (2, 3, 4),
        lambda x: reduction.max_(x, (0, 2), False)["y"],
        lambda g, x, y: reduction.extreme_backward(g, x, y, (0, 2), False)["dx"],
    ),
    "min": (
        (2, 3, 4),
        lambda x: reduction.min_(x, (1,), True)["y"],
        lambda g, x, y: reduction.extreme_backward(g, x, y, (1,), True)["dx"],
    ),
    "norm": (
        (2, 3, 4),
        lambda x: reduction.norm(x, (0, 2), False)["y"],
        lambda g, x, y: reduction.norm_backward(g, x, y, (0, 2), False)["dx"],
    ),
    "cumsum": (
        (2, 5),
        lambda x: reduction.cumsum(x, 1)["y"],
        lambda g, x, y: reduction.cumsum_backward(g, 1)["dx"],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    of, forward, backward = GRADIENTS[name]
    rng = np.random.default_rng(3)
    x = rng.permutation(math.prod(of)).reshape(of) / 3.0 + 0.1  # no ties
    y = forward(x).value
    grad = rng.normal(size=y.shape) + 0.3
    want = slope(lambda v: forward(v).value, x, grad)
    np.testing.assert_allclose(backward(grad, x, y).value, want, rtol=1e-6, atol=1e-7)


def test_indices_by_loops() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    index = np.array([[[2, 0], [1, 3]], [[3, 3], [0, 2]]])
    got = indexing.gather(x, index, 2)["y"].value
    for i, j, k in np.ndindex(2, 2, 2):
        assert got[i, j, k] == x[i, j, index[i, j, k]]
    got = indexing.index_select(x, index[0], 2)["y"].value
    for i, j, k, m in np.ndindex(2, 3, 2, 2):
        assert got[i, j, k, m] == x[i, j, index[0, k, m]]


def test_scatter_by_hand() -> None:
    """Two values for one place: the last stays, and both add up."""
    values, index = np.array([[1.0, 2.0, 4.0]]), np.array([[1, 1, 3]])
    assert scatter.scatter(values, index, (1, 4), 1)["y"].value.tolist() == [[0, 2, 0, 4]]
    got = scatter.scatter_add(np.ones((1, 4)), index, values, 1)["y"]
    assert got.value.tolist() == [[1, 4, 1, 5]]
    assert got.magnitude.tolist() == [[1, 4, 1, 5]]
    assert got.terms == 3
    assert scatter.one_hot(np.array([2, 0]), 3, None)["y"].value.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_topk_by_hand() -> None:
    x = np.array([2.0, math.nan, 5.0, 2.0, -math.inf, 5.0])
    assert topk.topk(x, 4, 0, True)["indices"].value.tolist() == [1, 2, 5, 0]
    assert topk.topk(x, 4, 0, False)["indices"].value.tolist() == [4, 0, 3, 2]


def test_ties_and_nan_share_the_gradient() -> None:
    x = np.array([[1.0, 3.0, 3.0], [math.nan, 2.0, math.nan]])
    y = reduction.max_(x, (1,), False)["y"].value
    dx = reduction.extreme_backward(np.array([4.0, 6.0]), x, y, (1,), False)["dx"].value
    assert dx.tolist() == [[0.0, 2.0, 2.0], [3.0, 0.0, 3.0]]
    assert reduction.argmax(x, 1, False)["y"].value.tolist() == [1, 0]
    assert reduction.argmin(x, 1, True)["y"].value.tolist() == [[0], [0]]


def test_moves_by_numpy() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    assert shape.transpose(x, 0, 2)["y"].value.tolist() == np.swapaxes(x, 0, 2).tolist()
    assert shape.permute(x, (2, 0, 1))["y"].value.tolist() == np.transpose(x, (2, 0, 1)).tolist()
    assert shape.slice_(x[0], *WHERE)["y"].value.tolist() == x[0][2::-2, :3:2].tolist()
    assert shape.repeat(x, 3, 1)["y"].value.tolist() == np.repeat(x, 3, 1).tolist()
    assert shape.concat((x, x[:, :1]), 1)["y"].value.tolist() == np.concatenate([x, x[:, :1]], 1).tolist()
    pieces = shape.split(x, (1, 0, 3), 2)
    assert [pieces[f"pieces[{i}]"].value.shape[2] for i in range(3)] == [1, 0, 3]
    assert pieces["pieces[2]"].value.tolist() == x[:, :, 1:].tolist()
    assert shape.tril(x, 1)["y"].value.tolist() == np.tril(x, 1).tolist()
    assert shape.triu(x, -1)["y"].value.tolist() == np.triu(x, -1).tolist()
    assigned = shape.slice_assign(np.zeros((3, 4)), np.array([[7.0], [8.0]]), *WHERE)["x"].value
    assert assigned.tolist() == [[8, 0, 8, 0], [0] * 4, [7, 0, 7, 0]]
