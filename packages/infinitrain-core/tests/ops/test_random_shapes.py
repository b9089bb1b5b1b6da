"""A thousand random cases: what infer says is what comes out, in shape, dtype and value, as NumPy has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.optable import OPS


def _shape(rng: np.random.Generator, low: int = 0, high: int = 4) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(0, 4, rng.integers(low, high + 1)))


def _partner(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that broadcasts with ``shape``."""
    other = [1 if rng.random() < 0.3 else n for n in shape]
    return tuple(other[rng.integers(0, len(shape) + 1) :])


def _values(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(rng.uniform(0.5, 2.0, shape)).astype(rng.choice(["float32", "float64"]))


def _case(rng: np.random.Generator) -> tuple[str, Any, np.ndarray]:
    """Return what was drawn, the op's result, NumPy's."""
    kind = rng.integers(0, 8)
    if kind == 0:
        name = str(rng.choice(["add", "sub", "mul", "div", "lt", "ge"]))
        fn = {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": np.divide,
            "lt": np.less,
            "ge": np.greater_equal,
        }
        shape = _shape(rng)
        a, b = _values(rng, shape), _values(rng, _partner(rng, shape))
        a, b = (a, b) if rng.random() < 0.5 else (b, a)
        return (
            f"{name} {a.shape} {b.shape}",
            getattr(ops, name)(it.from_numpy(a), it.from_numpy(b)),
            fn[name](a, b),
        )
    x = _values(rng, _shape(rng, low=0 if kind == 1 else 1))
    t, n = it.from_numpy(x), x.ndim
    axis = int(rng.integers(-n, n)) if n else 0
    if kind == 1:
        name = str(rng.choice(["sum", "mean", "max", "min"]))
        some = tuple(int(a) for a in rng.permutation(n)[: rng.integers(0, n + 1)])
        empty = any(x.shape[a] == 0 for a in some)
        name = "sum" if empty else name
        keep = bool(rng.random() < 0.5)
        want = getattr(np, name)(x, axis=some, keepdims=keep)
        return f"{name} {x.shape} {some} {keep}", getattr(ops, name)(t, some, keep), want
    if kind == 2:
        axes = tuple(int(a) for a in rng.permutation(n))
        return f"permute {x.shape} {axes}", ops.permute(t, axes), np.transpose(x, axes)
    if kind == 3:
        index = tuple(
            slice(*[None if rng.random() < 0.3 else int(v) for v in rng.integers(-5, 6, 2)]) for _ in x.shape
        )
        index = tuple(slice(s.start, s.stop, int(rng.choice([-2, -1, 1, 2, 3]))) for s in index)
        return f"getitem {x.shape} {index}", t[index], x[index]
    if kind == 4:
        times = int(rng.integers(0, 4))
        return (
            f"repeat {x.shape} {times} {axis}",
            ops.repeat_interleave(t, times, axis),
            np.repeat(x, times, axis),
        )
    if kind == 5:
        shape = (*_shape(rng, high=4 - n), *[3 if m == 1 else m for m in x.shape])
        return f"expand {x.shape} {shape}", ops.expand(t, shape), np.broadcast_to(x, shape)
    if kind == 6:
        count = int(rng.integers(1, 4))
        return (
            f"concat {x.shape} {count} {axis}",
            ops.concat([t] * count, axis),
            np.concatenate([x] * count, axis),
        )
    size = int(rng.integers(1, 4))
    pieces = ops.split(t, size, axis)
    want = np.split(x, range(size, x.shape[axis], size), axis)
    assert [p.shape for p in pieces] == [w.shape for w in want]
    return f"split {x.shape} {size} {axis}", pieces[-1], want[-1]


@pytest.mark.parametrize("seed", range(4))
def test_infer_equals_result(seed):
    rng = np.random.default_rng(seed)
    for number in range(250):
        what, got, want = _case(rng)
        assert got.shape == want.shape, f"case {number}: {what}"
        assert got.numpy().dtype == want.dtype, f"case {number}: {what}"
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, err_msg=f"case {number}: {what}")


def test_every_row_says_what_it_computes():
    for row in OPS.values():
        assert row.doc.endswith("."), f"{row.name}: {row.doc!r}"
        assert all(name in OPS for name in row.gradient), f"{row.name}: gradient {row.gradient}"
