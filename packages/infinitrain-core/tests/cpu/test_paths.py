"""Kernels of the CPU that choose a way by size or by values: each way against NumPy, written apart."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS

SIZES = [(3, 7), (40, 50), (9, 400), (90, 400)]  # on both sides of every limit


def call(name: str, *args: object) -> object:
    def tensor(value: object) -> object:
        if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
            return tuple(it.from_numpy(v) for v in value)
        return it.from_numpy(value) if isinstance(value, np.ndarray) else value

    got = OPS[name].call(*map(tensor, args))
    return tuple(t.numpy() for t in got) if isinstance(got, tuple) else got.numpy()


def normal(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("special", ["distinct", "ties", "nan"])
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k(shape: tuple[int, int], largest: bool, special: str, axis: int) -> None:
    x = normal(shape)
    if special == "ties":
        x = np.round(x * 2)
    elif special == "nan":
        x[1, 2] = x[1, 4] = np.nan
        x[0, 1] = np.inf
    # Python's sort, by keys that order NaN last, then by index: stable in both directions.
    rows = x.T if axis == 0 else x
    for k in (1, 3, rows.shape[1]):
        values, places = call("TopKForward", x, k, axis, largest)
        sign = -1.0 if largest else 1.0
        for row, value, place in zip(
            rows, values.T if axis == 0 else values, places.T if axis == 0 else places, strict=True
        ):
            keys = [
                (sign * (2.0 if np.isnan(v) else 1.0 if np.isinf(v) else 0.0), sign * v, i)
                for i, v in enumerate(row)
            ]
            keys = [(a, 0.0 if np.isnan(b) else b, i) for a, b, i in keys]
            want = [i for _, _, i in sorted(keys)[:k]]
            assert place.tolist() == want
            np.testing.assert_array_equal(value, row[want])


@pytest.mark.parametrize("shape", [(3, 5), (200, 300)])
@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [((1, 2), (3, 4), (1, 1)), ((0, 0), (2, 5), (1, 2)), ((2, 4), (-1, 0), (-1, -2))],
)
def test_the_gradient_of_a_slice(shape: tuple[int, int], starts: tuple, ends: tuple, steps: tuple) -> None:
    taken = [list(range(a, b, c)) for a, b, c in zip(starts, ends, steps, strict=True)]
    grad = normal(tuple(map(len, taken)))
    want = np.zeros(shape, np.float32)
    for i, row in enumerate(taken[0]):
        for j, column in enumerate(taken[1]):
            want[row, column] = grad[i, j]
    np.testing.assert_array_equal(call("SliceBackward", grad, shape, starts, ends, steps), want)


def test_the_gradient_of_a_large_slice() -> None:
    grad = normal((190, 150))
    want = np.zeros((200, 300), np.float32)
    want[7:197, 90:240] = grad
    np.testing.assert_array_equal(call("SliceBackward", grad, (200, 300), (7, 90), (197, 240), (1, 1)), want)


@pytest.mark.parametrize("shape", [(3, 5), (200, 300)])
def test_what_a_mask_drops_may_be_anything(shape: tuple[int, int]) -> None:
    grad, mask = normal(shape), normal(shape, 1) > 0
    grad[mask] = np.array([np.nan, np.inf, -np.inf], np.float32)[np.arange(mask.sum()) % 3]
    np.testing.assert_array_equal(call("MaskBackward", grad, mask, shape), np.where(mask, 0, grad))
    da, db = call("WhereBackward", mask, grad, shape, shape)
    np.testing.assert_array_equal(da, np.where(mask, grad, 0))
    np.testing.assert_array_equal(db, np.where(mask, 0, grad))


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e30])
@pytest.mark.parametrize("shape", [(3, 5), (200, 300)])
def test_gradients_of_norms_of_any_size(shape: tuple[int, int], scale: float) -> None:
    x = (normal(shape) * np.float32(scale)).astype(np.float32)
    x[1] = 0
    y = call("NormForward", x, (1,), False)
    wide = np.sqrt((x.astype(np.float64) ** 2).sum(1))
    np.testing.assert_allclose(y, wide, rtol=1e-5)
    for of_grad in (1e-20, 1.0, 1e20):
        g = (normal(shape[:1], 3) * np.float32(of_grad)).astype(np.float32)
        want = x.astype(np.float64) * (g / np.where(wide == 0, 1, wide))[:, None]
        got = call("NormBackward", g, x, y, (1,), False)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("value", [1.0, 1e30, -1e38, np.inf, -np.inf, np.nan])
def test_finite_elements_whose_squares_are_not(value: float) -> None:
    a, b = normal((300,)), normal((70_000,))
    b[60_000] = value
    assert bool(call("AllFinite", (a, b))) == np.isfinite(value)


def test_nan_is_the_extreme_that_gets_the_gradient() -> None:
    x = normal((4, 6))
    x[1, 2] = x[1, 5] = np.nan
    x[2, 0] = x[2, 3] = 9.0
    grad = normal((4,), 1)
    want = np.zeros_like(x)
    for i, places in enumerate((None, [2, 5], [0, 3], None)):
        at = [int(np.argmax(x[i]))] if places is None else places
        want[i, at] = grad[i] / len(at)
    got = call("MaxBackward", grad, x, call("MaxForward", x, (1,), False), (1,), False)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("mu", "dampening", "decay", "nesterov"),
    [(0.0, 0, 0, False), (0.9, 0, 0, False), (0.8, 0.3, 0.1, False), (0.9, 0, 0.2, True)],
)
def test_sgd(first: bool, mu: float, dampening: float, decay: float, nesterov: bool) -> None:
    size = 70_001
    p, g, b = normal((size,)), normal((size,), 1), normal((size,), 2)
    tensors = [it.from_numpy(a.copy()) for a in (p, g, b)]
    held = (tensors[2],) if mu else ()
    OPS["SGD"].call((tensors[0],), (tensors[1],), held, 0.1, mu, dampening, decay, nesterov, first)
    wide = g.astype(np.float64) + decay * p
    step = wide
    if mu:
        kept = wide if first else mu * b.astype(np.float64) + (1 - dampening) * wide
        step = wide + mu * kept if nesterov else kept
        np.testing.assert_allclose(tensors[2].numpy(), kept, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tensors[0].numpy(), p - 0.1 * step, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(tensors[1].numpy(), g)
