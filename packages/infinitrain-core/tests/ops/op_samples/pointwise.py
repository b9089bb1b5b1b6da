"""Samples of rows that work element by element: functions, arithmetic, comparisons, masks, dropout, casts."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, sqrt, tanh
from typing import Any

import numpy as np

from infinitrain import float32, int64

from .draw import SAMPLERS, Draw, Sample, sample


def each(fn: Callable[[float], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return fn for arrays, element by element in Python."""
    return lambda x: np.array([fn(float(v)) for v in np.ravel(x)]).reshape(np.shape(x))


def gelu(form: str) -> Callable[[np.ndarray], np.ndarray]:
    c = sqrt(2 / np.pi)
    return each(
        (lambda v: v / 2 * (1 + tanh(c * (v + 0.044715 * v**3))))
        if form == "tanh"
        else (lambda v: v / 2 * (1 + erf(v / sqrt(2))))
    )


def _unary(name: str, fn: Callable[[np.ndarray], np.ndarray], positive: bool = False) -> None:
    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x = (d.positive if positive else d.values)(d.shape())
        return Sample((x,), (fn(x),))


_unary("NegForward", lambda x: 0.0 - x)
_unary("AbsForward", lambda x: np.where(x < 0, 0.0 - x, x))
_unary("ReciprocalForward", lambda x: x**-1.0)
_unary("ExpForward", each(exp))
_unary("LogForward", np.log, positive=True)
_unary("SqrtForward", each(sqrt), positive=True)
_unary("RsqrtForward", lambda x: x**-0.5, positive=True)
_unary("SinForward", np.sin)
_unary("CosForward", np.cos)
_unary("TanhForward", each(tanh))
_unary("SigmoidForward", each(lambda v: 1 / (1 + exp(-v))))
_unary("SiluForward", each(lambda v: v / (1 + exp(-v))))
_unary("ErfForward", each(erf))
_unary("ReluForward", lambda x: np.where(x > 0, x, 0.0))


@sample("GeluForward")
def _gelu(d: Draw) -> Sample:
    x, form = d.values(d.shape()), d.one_of("tanh", "none")
    return Sample((x, form), (gelu(form)(x),))


def _special(name: str, fn: Callable[[float], bool]) -> None:
    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x = d.values(d.shape())
        odd = np.asarray(d.rng.choice([1.0, np.nan, np.inf, -np.inf], x.shape))
        return Sample((x * odd,), (each(fn)(x * odd).astype(bool),))


_special("IsFiniteForward", lambda v: abs(v) < np.inf)
_special("IsNanForward", lambda v: v != v)


@sample("NotForward")
def _not(d: Draw) -> Sample:
    x = d.values(d.shape()).round()
    return Sample((x,), (x == 0,))


# Two tensors --------------------------------------------------------------------------------------------------------


def _binary(name: str, fn: Any, low: bool = False) -> None:
    """``low`` rounds values, so that some are equal and some zero."""

    @sample(name)
    def draw_case(d: Draw) -> Sample:
        a, b = d.pair()
        x, y = d.values(a), d.values(b, shift=1 / 256)
        x, y = (x.round(), y.round()) if low else (x, y)
        return Sample((x, y), (fn(x, y),))


_binary("AddForward", np.add)
_binary("SubForward", np.subtract)
_binary("MulForward", np.multiply)
_binary("DivForward", np.divide)
_binary("MaximumForward", lambda a, b: np.where(a > b, a, b))
_binary("MinimumForward", lambda a, b: np.where(a < b, a, b))

_COMPARED = {
    "Equals": np.equal,
    "NotEquals": np.not_equal,
    "Lt": np.less,
    "Le": np.less_equal,
    "Gt": np.greater,
    "Ge": np.greater_equal,
}
for _name, _fn in _COMPARED.items():
    _binary(f"{_name}Forward", _fn, low=True)
_binary("AndForward", lambda a, b: (a != 0) & (b != 0), low=True)
_binary("OrForward", lambda a, b: (a != 0) | (b != 0), low=True)


@sample("PowTensorForward")
def _pow_tensor(d: Draw) -> Sample:
    a, b = d.pair()
    x, y = d.positive(a), d.values(b) / 2
    return Sample((x, y), (np.exp(y * np.log(x)),))


@sample("WhereForward")
def _where(d: Draw) -> Sample:
    full = d.shape()
    mask = np.asarray(d.rng.random(d.partner(full)) < 0.5)
    a, b = d.values(d.partner(full)), d.values(d.partner(full))
    return Sample((mask, a, b), (a * mask + b * (1 - mask),))


# A tensor and numbers -----------------------------------------------------------------------------------------------


def _scalar(name: str, fn: Any) -> None:
    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x, value = d.values(d.shape()), float(d.values(()))
        return Sample((x, value), (fn(x, value),))


_scalar("AddScalarForward", lambda x, v: x + v)
_scalar("MulScalarForward", lambda x, v: x * v)
for _name, _fn in _COMPARED.items():
    _scalar(f"{_name}ScalarForward", _fn)


@sample("DivScalarForward")
def _div_scalar(d: Draw) -> Sample:
    x, value, dividend = d.values(d.shape()), float(d.values(())), d.flag()
    return Sample((x, value, dividend), (value / x if dividend else x / value,))


@sample("PowForward")
def _pow(d: Draw) -> Sample:
    x, base = d.positive(d.shape()), d.flag()
    value = float(d.positive(())) if base else float(d.values(()))
    return Sample((x, value, base), (np.exp(x * np.log(value)) if base else np.exp(value * np.log(x)),))


@sample("ClampForward")
def _clamp(d: Draw) -> Sample:
    x, low, high = d.values(d.shape()), -d.int(0, 3), d.int(0, 3)
    return Sample((x, float(low), float(high)), (each(lambda v: sorted((low, v, high))[1] + 0.0)(x),))


@sample("MaskForward")
def _mask(d: Draw) -> Sample:
    a, b = d.pair()
    x, mask, value = d.values(a), np.asarray(d.rng.random(b) < 0.5), float(d.values(()))
    return Sample((x, mask, value), (x * (1 - mask) + value * mask,))


@sample("DropoutForward")
def _dropout(d: Draw) -> Sample:
    x, p, first = d.values(d.shape()), d.one_of(0.0, 0.25, 0.5, 1.0), d.int(0, 9)
    key, step = int(d.rng.integers(2**63)), d.int(0, 99)
    samples = x.reshape(len(x) if x.ndim else 1, -1) if x.size else x.reshape(0, 0)
    kept = np.zeros(samples.shape)
    for i, row in enumerate(kept):
        words = np.random.Philox(key=[key, 0], counter=[0, first + i, step, 0]).random_raw(len(row) // 2 + 1)
        halves = np.stack([words & 0xFFFFFFFF, words >> np.uint64(32)], 1).ravel()[: len(row)]
        row[:] = halves >= round(p * 2**32)
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return Sample((x, p, key, step, first), (x * kept.reshape(x.shape) * scale,))


# Bytes --------------------------------------------------------------------------------------------------------------


@sample("Cast")
def _cast(d: Draw) -> Sample:
    x, dtype = d.values(d.shape()), d.one_of(float32, int64)
    return Sample((x, dtype), (np.trunc(x) if dtype is int64 else x,), smooth=False)


@sample("Fill")
def _fill(d: Draw) -> Sample:
    x, value = d.values(d.shape()), float(d.values(()))
    return Sample((x, value), (np.full(x.shape, value),))


@sample("Copy")
def _copy(d: Draw) -> Sample:
    shape = d.shape()
    return Sample((d.values(shape), x := d.values(shape)), (x,))


@sample("AccumulateGrad")
def _accumulate(d: Draw) -> Sample:
    shape = d.shape()
    grad, rate, x = d.values(shape), float(d.values(())), d.values(shape)
    return Sample((grad, rate, x), (x + rate * grad,))


assert SAMPLERS
