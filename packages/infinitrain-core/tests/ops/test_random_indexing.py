"""Random indices, places and axes, fixed seeds: what NumPy selects, sets, adds up and sorts, sizes 0 and 1 included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops


def _shape(rng: np.random.Generator, least: int = 1) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(0, 5, rng.integers(least, 5)))


def _index(rng: np.random.Generator, shape: tuple[int, ...], tensor: bool) -> tuple[Any, ...]:
    """Return ints, slices, None, at most one Ellipsis and, if asked for, one array of indices."""
    items: list[Any] = []
    chosen = int(rng.integers(0, len(shape))) if tensor else -1
    for axis, n in enumerate(shape):
        if rng.random() < 0.2:
            items.append(None)
        if axis == chosen:
            items.append(rng.integers(0, max(1, n), _shape(rng)[:2] if n else (0,)))
        elif n and rng.random() < 0.4:
            items.append(int(rng.integers(-n, n)))
        else:
            start, stop = (None if rng.random() < 0.4 else int(v) for v in rng.integers(-5, 6, 2))
            items.append(slice(start, stop, int(rng.choice([-2, -1, 1, 2]))))
    if rng.random() < 0.5:  # an Ellipsis in the place of some axes, or of none
        at = int(rng.integers(0, len(items) + 1))
        kept = [not (isinstance(i, np.ndarray) or i is None) for i in items[at : at + 1]]
        items[at : at + int(rng.random() < 0.5 and all(kept))] = [...]
    return tuple(items)


def _ours(index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(it.from_numpy(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.parametrize("seed", range(4))
def test_getitem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(150):
        x = rng.normal(size=_shape(rng))
        index = _index(rng, x.shape, tensor=bool(rng.random() < 0.7))
        if sum(i is None for i in index) + x.ndim > 7:
            continue
        want, t = x[index], it.from_numpy(x, requires_grad=True)
        got = t[_ours(index)]
        assert got.shape == want.shape, f"case {number}: {x.shape} {index}"
        assert got.numpy().tolist() == want.tolist(), f"case {number}: {x.shape} {index}"
        if want.size:
            grad, dx = rng.normal(size=want.shape), np.zeros(x.shape)
            np.add.at(dx, index, grad)
            got.backward(it.from_numpy(grad))
            np.testing.assert_allclose(
                t.grad.numpy(), dx, atol=1e-12, err_msg=f"case {number}: {x.shape} {index}"
            )


@pytest.mark.parametrize("seed", range(4))
def test_setitem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(150):
        x = rng.normal(size=_shape(rng))
        index = _index(rng, x.shape, tensor=False)
        part = x[index]
        value = rng.normal(
            size=[1 if rng.random() < 0.3 else n for n in part.shape][int(rng.integers(0, 2)) :]
        )
        t = it.from_numpy(x.copy())
        x[index] = value
        t[index] = it.from_numpy(np.asarray(value))
        assert t.numpy().tolist() == x.tolist(), f"case {number}: {x.shape} {index} {value.shape}"


@pytest.mark.parametrize("seed", range(4))
def test_along_an_axis(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(100):
        x = rng.integers(-3, 4, _shape(rng)) / 2.0
        axis = int(rng.integers(0, x.ndim))
        n, t = x.shape[axis], it.from_numpy(x)
        what = f"case {number}: {x.shape} axis {axis}"
        np.testing.assert_allclose(t.cumsum(axis).numpy(), np.cumsum(x, axis), err_msg=what)
        some = tuple(int(a) for a in rng.permutation(x.ndim)[: rng.integers(0, x.ndim + 1)])
        want = np.sqrt((x * x).sum(some, keepdims=True))
        np.testing.assert_allclose(t.norm(some, True).numpy(), want, rtol=1e-12, err_msg=what)
        k = int(rng.integers(0, n + 1))
        order = np.argsort(-x, axis, kind="stable").take(np.arange(k), axis)
        values, indices = ops.topk(t, k, axis)
        assert indices.numpy().tolist() == order.tolist(), what
        assert values.numpy().tolist() == np.take_along_axis(x, order, axis).tolist(), what
        if n:
            assert t.argmin(axis).shape == x.sum(axis).shape
        # As many places along the axis as one likes, along the others at most as many as x has.
        sizes = [
            int(rng.integers(0, 6)) if i == axis else int(rng.integers(0, m + 1))
            for i, m in enumerate(x.shape)
        ]
        sizes[axis] = sizes[axis] if n else 0
        index, added = rng.integers(0, max(1, n), sizes), rng.normal(size=sizes)
        at = list(np.indices(sizes))
        at[axis] = index
        summed, placed = x.copy(), np.zeros(x.shape)
        np.add.at(summed, tuple(at), added)
        for place in np.ndindex(*sizes):
            placed[tuple(int(a[place]) for a in at)] = added[place]
        i, v = it.from_numpy(index), it.from_numpy(added)
        assert t.gather(axis, i).numpy().tolist() == x[tuple(at)].tolist(), what
        np.testing.assert_allclose(t.scatter_add(axis, i, v).numpy(), summed, atol=1e-12, err_msg=what)
        assert ops.scatter(v, axis, i, x.shape).numpy().tolist() == placed.tolist(), what
