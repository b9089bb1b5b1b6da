"""Optimizer steps, the gradient norm, the search for infinities: lists of tensors of unlike sizes, one empty; gradients
and norms whose squares leave float32's range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cases import As, Built, Data, OpCase, Stat, case
from ..oracles import Want
from ..oracles import optimizer as oracles
from .reduction import weighed

CASES: list[OpCase] = []
Shapes = tuple[tuple[int, ...], ...]
SHAPES: Shapes = ((7, 33), (129,), (), (1, 1), (0,))
WIDE_RANGE = ("float32", "bfloat16", "float64")
Lists = tuple[np.ndarray, ...]


def _lists(d: Data, shapes: Shapes, scale: float = 1.0, mean: float = 0.0) -> Lists:
    return tuple(d.normal(*shape, scale=scale, mean=mean) for shape in shapes)


def _stat(value: np.ndarray) -> Stat:
    return Stat(np.asarray(value))  # arithmetic makes scalars of 0-d arrays


def _named(**lists: list[Want]) -> dict[str, Want]:
    return {f"{name}[{i}]": want for name, wants in lists.items() for i, want in enumerate(wants)}


def adamw(
    d: Data, step: int, decay: float = 0.1, size: float = 0.1, eps: float = 1e-8, shapes: Shapes = SHAPES
) -> Built:
    grads = _lists(d, shapes, size, 0.3 * size)
    # Moments as earlier gradients of that size would have left them, uncorrelated with this one.
    scale = size * (step > 1)
    ms = [_stat(0.2 * scale * d.rng.standard_normal(s)) for s in shapes]
    vs = [_stat(0.1 * scale**2 * d.rng.standard_normal(s) ** 2) for s in shapes]

    def oracle(params: Lists, grads: Lists, ms: Lists, vs: Lists, *settings: Any) -> dict[str, Want]:
        h = dict(zip(("lr", "beta1", "beta2", "eps", "weight_decay", "step"), settings, strict=True))
        new = [oracles.adamw(*arrays, h) for arrays in zip(params, grads, ms, vs, strict=True)]
        return _named(params=[p for p, _, _ in new], ms=[m for _, m, _ in new], vs=[v for _, _, v in new])

    settings = (1e-2, 0.9, 0.95, eps, decay, step)
    return Built((_lists(d, shapes, mean=0.5), grads, tuple(ms), tuple(vs), *settings), oracle)


case(CASES, "AdamW", "first_step", adamw, 1)
case(CASES, "AdamW", "second_step", adamw, 2)
case(CASES, "AdamW", "step1000", adamw, 1000)
case(CASES, "AdamW", "no_decay", adamw, 3, decay=0.0)
case(CASES, "AdamW", "tiny_gradients", adamw, 5, size=1e-30, dtypes=WIDE_RANGE)  # squares are 0 in float32
case(CASES, "AdamW", "large_gradients", adamw, 5, size=1e12, dtypes=WIDE_RANGE)
case(CASES, "AdamW", "large_eps", adamw, 4, eps=0.1, dtypes=("float32",))

SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "first": False}


def sgd(d: Data, shapes: Shapes = SHAPES, **changes: Any) -> Built:
    h = SGD | changes
    momenta = tuple(_stat(0.5 * d.rng.standard_normal(s)) for s in shapes) if h["momentum"] else ()

    def oracle(params: Lists, grads: Lists, momenta: Lists, *settings: Any) -> dict[str, Want]:
        kept: Any = momenta or (None,) * len(params)
        new = [oracles.sgd(*arrays, h) for arrays in zip(params, grads, kept, strict=True)]
        return _named(params=[p for p, _ in new], momenta=[b for _, b in new if b is not None])

    return Built((_lists(d, shapes, mean=0.5), _lists(d, shapes, 0.3, 0.1), momenta, *h.values()), oracle)


case(CASES, "SGD", "momentum", sgd)
case(CASES, "SGD", "first_step", sgd, first=True, dampening=0.3)
case(CASES, "SGD", "decay", sgd, weight_decay=0.05)
case(CASES, "SGD", "dampening", sgd, dampening=0.3, weight_decay=0.05)
case(CASES, "SGD", "nesterov", sgd, nesterov=True)
case(CASES, "SGD", "nesterov_first", sgd, nesterov=True, first=True, dtypes=("float32",))
case(CASES, "SGD", "plain", sgd, momentum=0.0)
case(CASES, "SGD", "plain_decay", sgd, momentum=0.0, weight_decay=0.05)


def scale(d: Data, factor: float, size: float = 3.0, shapes: Shapes = SHAPES) -> Built:
    def oracle(tensors: Lists, factor: float) -> dict[str, Want]:
        return _named(tensors=[Want(t * factor, np.abs(t * factor)) for t in tensors])

    return Built((_lists(d, shapes, size), factor), oracle)


case(CASES, "ScaleInPlace", "shrink", scale, 0.37)
case(CASES, "ScaleInPlace", "grow", scale, 1024.0, dtypes=("float32",))
case(CASES, "ScaleInPlace", "unscale", scale, 2.0**-16, size=1e4, dtypes=WIDE_RANGE)


def norm(d: Data, *sizes: float, long: int = 0) -> Built:
    shapes = (*SHAPES, (long,))
    tensors = tuple(
        d.normal(*s, scale=sizes[i % len(sizes)], mean=0.5 * sizes[0]) for i, s in enumerate(shapes)
    )
    return Built((tensors,), oracles.global_norm)


def heavy(d: Data, shapes: Shapes) -> Built:
    """A few elements make up most of the norm: one of hundreds of thousands that is lost shows."""
    return Built((tuple(weighed(d, s) for s in shapes),), oracles.global_norm)


def two_dtypes(d: Data, size: float) -> Built:
    """float32 beside float64, which is the result's."""
    single = (size * d.rng.standard_normal(257)).astype(np.float32).astype(np.float64)
    return Built(((As(single, "float32"), d.normal(33, scale=size)),), oracles.global_norm)


def special(d: Data, value: float, index: int) -> Built:
    tensors = tuple(d.normal(*s) for s in SHAPES)
    tensors[index].reshape(-1)[-1:] = value
    return Built((tensors,), oracles.global_norm)


case(CASES, "GlobalNorm", "few", norm, 1.0)  # of 100,000 terms a lost one would not show
case(CASES, "GlobalNorm", "several", norm, 1.0, long=100_000, clause="4.7")
case(CASES, "GlobalNorm", "large", norm, 1e30, dtypes=WIDE_RANGE)
case(CASES, "GlobalNorm", "small", norm, 1e-30, long=5000, dtypes=WIDE_RANGE)
case(CASES, "GlobalNorm", "unlike", norm, 1e30, 1e-30, 1e3, dtypes=WIDE_RANGE)
case(CASES, "GlobalNorm", "small_squares", norm, 3e-20, dtypes=WIDE_RANGE)  # squares are subnormal in float32
case(CASES, "GlobalNorm", "beyond_float32", norm, 1e200, 1e190, dtypes=("float64",))
case(CASES, "GlobalNorm", "below_float32", norm, 1e-200, dtypes=("float64",))
case(CASES, "GlobalNorm", "two_dtypes_small", two_dtypes, 1e-30, dtypes=("float64",))
case(CASES, "GlobalNorm", "two_dtypes_large", two_dtypes, 1e30, dtypes=("float64",))
case(CASES, "GlobalNorm", "zeros", norm, 0.0, dtypes=("float32",))
case(CASES, "GlobalNorm", "infinity", special, -np.inf, 1, dtypes=("float32", "float16"))
case(CASES, "GlobalNorm", "nan", special, np.nan, 0, dtypes=("float32", "bfloat16"))


def finite(d: Data, value: float, index: int, shapes: Shapes = SHAPES) -> Built:
    largest = {"float16": 65504.0, "float64": 1e308}.get(d.dtype.name, 3e38)
    tensors = tuple(d.round(largest * d.rng.uniform(-1, 1, s)) for s in shapes)
    tensors[index].reshape(-1)[-1:] = value
    return Built((tensors,), oracles.all_finite)


case(CASES, "AllFinite", "infinity_last", finite, np.inf, 3)
case(CASES, "AllFinite", "nan_first", finite, np.nan, 0)
case(CASES, "AllFinite", "negative_infinity", finite, -np.inf, 1)
case(CASES, "AllFinite", "largest", finite, 0.0, 2)
