"""topk against a sort in Python, with ties and NaN; its gradient against central differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck


def best(row, k, largest):
    """Return the indices of the k best, by the documented order: NaN above all, ties by index."""
    order = [(math.isnan(v), 0.0 if math.isnan(v) else v) for v in row]
    sign = -1 if largest else 1
    return sorted(range(len(row)), key=lambda i: (sign * order[i][0], sign * order[i][1], i))[:k]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3, 6])
@pytest.mark.parametrize(
    ("shape", "axis"), [((6,), 0), ((3, 6), -1), ((6, 2), 0), ((2, 6, 3), 1), ((0, 6), 1)]
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int8", "uint16"])
def test_values_and_indices(dtype, shape, axis, k, largest, rng):
    x = rng.integers(0, 4, shape).astype(np.float64)  # most tie
    if dtype.startswith("float"):
        x[rng.random(shape) < 0.2] = np.nan
    rows = np.moveaxis(x, axis, -1).reshape(-1, 6)
    want = np.array([best(row, k, largest) for row in rows], int).reshape(len(rows), k)
    values, indices = it.from_numpy(x).astype(dtype).topk(k, axis, largest)
    assert values.dtype.name == dtype
    assert indices.dtype is it.dtype.int64
    assert values.shape == indices.shape == (*shape[: axis % len(shape)], k, *shape[axis % len(shape) + 1 :])
    got = np.moveaxis(indices.numpy(), axis, -1).reshape(len(rows), k)
    assert got.tolist() == want.tolist()
    chosen = np.take_along_axis(rows, want, 1) if len(rows) else rows[:, :k]
    np.testing.assert_array_equal(
        np.moveaxis(values.numpy().astype(float), axis, -1).reshape(len(rows), k), chosen
    )


def test_infinities_and_signed_zeros():
    x = it.tensor([0.0, -math.inf, -0.0, math.inf, math.nan])
    assert x.topk(4)[1].tolist() == [4, 3, 0, 2]
    assert x.topk(5, largest=False)[1].tolist() == [1, 0, 2, 3, 4]
    extremes = it.tensor([0, 2**63 - 1, -(2**63)])
    assert extremes.topk(2)[1].tolist() == [1, 0]
    assert extremes.topk(2, largest=False)[0].tolist() == [-(2**63), 0]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((7,), 0, 3), ((3, 5), 1, 2), ((5, 2), 0, 5), ((4, 2), 0, 0)]
)
def test_gradient(shape, axis, k, largest, rng):
    x = it.from_numpy(rng.permutation(int(np.prod(shape))).reshape(shape) / 3.0, requires_grad=True)
    gradcheck(lambda v: ops.topk(v, k, axis, largest)[0], x)
    values, indices = x.topk(k, axis, largest)
    assert (values.requires_grad, indices.requires_grad) == (True, False)


def test_errors():
    x = it.ones(2, 3)
    with pytest.raises(
        ShapeError, match=r"TopKForward\(x: float32\[2, 3\].*k 4 is not in 0\.\.3, the size of axis 1"
    ):
        x.topk(4)
    with pytest.raises(ShapeError, match=r"k -1 is not in 0\.\.2, the size of axis 0"):
        x.topk(-1, 0)
    with pytest.raises(ShapeError, match="topk: axis 2 is out of range"):
        x.topk(1, 2)
    with pytest.raises(ShapeError, match="topk: axis -1 is out of range"):
        it.tensor(1.0).topk(1)
    with pytest.raises(DtypeError, match="TopKForward: x has dtype bool"):
        (x > 0).topk(1)
