"""Normalisation: means far from zero (a one-pass variance fails), gradients correlated with x, many rows, parameters of
another dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..cases import As, Built, Data, OpCase, Stat, case
from ..oracles import norm as oracles

CASES: list[OpCase] = []
EPS = 1e-5


def _data(d: Data, shape: tuple[int, ...], mean: float, scale: float) -> np.ndarray:
    """Return rows whose means are different ones near ``mean``."""
    return d.normal(*shape, mean=mean * d.rng.uniform(0.9, 1.1, (*shape[:-1], 1)), scale=scale)


def _scale(d: Data, c: int, dtype: str | None, mean: float = 1.0) -> Any:
    """Return weights or biases: of the tested dtype, or of one of their own."""
    values = mean + 0.3 * d.rng.standard_normal(c)
    return d.round(values) if dtype is None else As(values.astype(np.float32).astype(np.float64), dtype)


def _value(x: Any) -> np.ndarray:
    return x.value if isinstance(x, As) else x


def layer(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    bias: bool = True,
    eps: float = EPS,
    weights: str | None = None,
) -> Built:
    x = _data(d, shape, mean, scale)
    b = _scale(d, shape[-1], weights, 0.2) if bias else None
    return Built((x, _scale(d, shape[-1], weights), b, eps), oracles.layer_norm)


def layer_backward(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    tied: bool = True,
    weights: str | None = None,
    eps: float = EPS,
) -> Built:
    x = d.normal(*shape, mean=mean, scale=scale)
    weight = _scale(d, shape[-1], weights)
    saved = oracles.layer_norm(x, _value(weight), None, eps)
    grad = d.like(x) if tied else d.normal(*shape, mean=0.1)
    statistics = (Stat(saved["mean"].value), Stat(saved["rstd"].value))
    return Built((x, weight, *statistics, grad), oracles.layer_norm_backward)


def rms(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    eps: float = EPS,
    weights: str | None = None,
) -> Built:
    return Built((_data(d, shape, mean, scale), _scale(d, shape[-1], weights), eps), oracles.rms_norm)


def rms_backward(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    tied: bool = True,
    weights: str | None = None,
    eps: float = EPS,
) -> Built:
    x = d.normal(*shape, mean=mean, scale=scale)
    weight = _scale(d, shape[-1], weights)
    saved = oracles.rms_norm(x, _value(weight), eps)
    grad = d.like(x) if tied else d.normal(*shape, mean=0.1)
    return Built((x, weight, Stat(saved["rstd"].value), grad), oracles.rms_norm_backward)


def after_sum(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    wide: bool = False,
    weights: str | None = None,
    eps: float = EPS,
    bias: bool = True,
    centred: bool = True,
) -> Built:
    """A residual of its own size, and, ``wide``, in float32 whatever x has: then the sum is float32 too."""
    x, residual = _data(d, shape, mean, scale), 3.0 * _data(d, shape, mean, scale)
    single = d.dtype.itemsize < 4 and wide

    def rounded(total: np.ndarray) -> np.ndarray:
        return total.astype(np.float32).astype(np.float64) if single else d.round(total)

    other = As(residual, "float32") if single else d.round(residual)
    args = (x, other, _scale(d, shape[-1], weights))
    if not centred:
        return Built((*args, eps), partial(oracles.add_rms_norm, round=rounded))
    b = _scale(d, shape[-1], weights, 0.2) if bias else None
    return Built((*args, b, eps), partial(oracles.add_layer_norm, round=rounded))


def after_sum_backward(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    tied: bool = True,
    weights: str | None = None,
    both: bool = True,
    centred: bool = True,
    eps: float = EPS,
) -> Built:
    """``both``: the sum has a gradient of its own, as large as the norm's."""
    alone = (layer_backward if centred else rms_backward)(d, shape, mean, scale, tied, weights, eps)
    *saved, grad = alone.args
    grad_sum = d.round(0.7 * d.like(saved[0]) - 0.2) if both else None
    oracle = oracles.add_layer_norm_backward if centred else oracles.add_rms_norm_backward
    return Built((*saved, grad_sum, grad), oracle)


def _register(op: str, forward: Callable[..., Built], backward: Callable[..., Built], **how: Any) -> None:
    """The cases that every normalisation has."""
    name, float32, mixed = f"{op}Forward", ("float32",), ("bfloat16", "float16", "float64")
    every = (*float32, *mixed)
    case(CASES, name, "odd", forward, (3, 5, 37), **how)
    case(CASES, name, "model", forward, (2, 8, 768), **how)
    case(CASES, name, "mean100", forward, (4, 16, 64), mean=100.0, clause="4.7", **how)
    case(CASES, name, "mean1000", forward, (32, 64), mean=1000.0, clause="4.7", dtypes=float32, **how)
    case(CASES, name, "tiny", forward, (8, 48), 0.0, 1e-4, dtypes=("float32", "bfloat16"), **how)
    case(CASES, name, "huge", forward, (8, 48), 0.0, 1e4, dtypes=("float32", "bfloat16"), **how)
    case(CASES, name, "vector", forward, (16,), dtypes=every, **how)
    case(CASES, name, "width1", forward, (7, 1), eps=0.1, dtypes=("float32", "bfloat16"), **how)
    case(CASES, name, "rank5", forward, (2, 1, 3, 2, 8), dtypes=every, **how)
    case(CASES, name, "eps", forward, (5, 1, 2, 24), scale=0.1, eps=0.1, dtypes=float32, **how)
    case(
        CASES, name, "float32_weights", forward, (3, 37), weights="float32", clause="5.1", dtypes=mixed, **how
    )

    name = f"{op}Backward"
    case(CASES, name, "odd", backward, (3, 5, 37), **how)
    case(CASES, name, "correlated", backward, (4, 16, 768), clause="4.7", **how)
    case(CASES, name, "independent", backward, (4, 64), tied=False, **how)
    case(CASES, name, "rows4096", backward, (4, 1024, 32), clause="4.7", **how)
    case(CASES, name, "mean100", backward, (8, 64), mean=100.0, clause="4.7", **how)
    case(CASES, name, "tiny", backward, (8, 48), 0.0, 1e-4, dtypes=("float32", "bfloat16"), **how)
    case(CASES, name, "vector", backward, (16,), dtypes=every, **how)
    case(CASES, name, "width1", backward, (7, 1), eps=0.1, dtypes=("float32", "bfloat16"), **how)
    case(CASES, name, "rank5", backward, (2, 1, 3, 2, 8), dtypes=every, **how)
    case(
        CASES,
        name,
        "float32_weights",
        backward,
        (9, 37),
        weights="float32",
        clause="5.1",
        dtypes=mixed,
        **how,
    )


_register("LayerNorm", layer, layer_backward)
_register("RmsNorm", rms, rms_backward)
_register("AddLayerNorm", after_sum, after_sum_backward)
_register("AddRmsNorm", after_sum, after_sum_backward, centred=False)

NO_BIAS = ("float32", "bfloat16", "float64")
case(CASES, "LayerNormForward", "no_bias", layer, (4, 64), bias=False, dtypes=NO_BIAS)
case(CASES, "AddLayerNormForward", "no_bias", after_sum, (4, 64), bias=False, dtypes=NO_BIAS)
for op, centred in (("AddLayerNorm", True), ("AddRmsNorm", False)):
    case(
        CASES, f"{op}Forward", "float32_residual", after_sum, (4, 33), wide=True, centred=centred, clause="5.1",
        dtypes=("bfloat16", "float16"),
    )  # fmt: skip
    case(CASES, f"{op}Backward", "norm_only", after_sum_backward, (4, 33), both=False, centred=centred)
