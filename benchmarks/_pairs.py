"""Ops that both frameworks have, with their inputs by shape of the model; `_pairs_ours` and `_pairs_torch` call them.

A pair has the rows of the op table that it measures: its forward ones; the rows of their gradients belong to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _shapes import Shape

Rng = np.random.Generator
Make = Callable[[Rng, Shape], tuple[Any, ...]]


@dataclass(frozen=True)
class Pair:
    """``make`` returns arrays; where there is a ``gradient``, those of floats want one. ``random`` results differ."""

    rows: tuple[str, ...]
    make: Make
    gradient: bool = True
    random: bool = False


PAIRS: dict[str, Pair] = {}
EXCUSED = {
    "CrossEntropyBackwardInPlace": "CrossEntropyBackward into the memory of its logits; part of every training step",
}
"""Rows of the profiles training and fused that no pair measures."""


def _pair(name: str, rows: str, make: Make, gradient: bool = True, random: bool = False) -> None:
    PAIRS[name] = Pair(tuple(rows.split()), make, gradient, random)


# Inputs ---------------------------------------------------------------------------------------------------
def normal(rng: Rng, *dims: int) -> np.ndarray:
    return rng.standard_normal(dims, np.float32)


def _x(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return (normal(rng, s.batch, s.time, s.width),)


def _two(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return _x(rng, s) + _x(rng, s)


def _hidden(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return (normal(rng, s.batch, s.time, s.hidden),)


def _positive(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return (np.abs(_x(rng, s)[0]) + 0.2,)


def _quotient(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return _x(rng, s) + _positive(rng, s)


def _mask(rng: Rng, s: Shape) -> np.ndarray:
    return rng.random((s.batch, s.time, s.width)) < 1 / 3


def _index(rng: Rng, limit: int, *dims: int) -> np.ndarray:
    return rng.integers(0, limit, dims)


def _weight(rng: Rng, outputs: int, inputs: int) -> np.ndarray:
    return normal(rng, outputs, inputs) * np.float32(0.02)


def _linear(outputs: Callable[[Shape], int], inputs: Callable[[Shape], int], bias: bool = True) -> Make:
    def make(rng: Rng, s: Shape) -> tuple[Any, ...]:
        x = normal(rng, s.batch, s.time, inputs(s))
        return x, _weight(rng, outputs(s), inputs(s)), *([normal(rng, outputs(s))] if bias else [])

    return make


def _norm(residual: bool, bias: bool) -> Make:
    def make(rng: Rng, s: Shape) -> tuple[Any, ...]:
        x = _two(rng, s) if residual else _x(rng, s)
        return *x, 1 + 0.1 * normal(rng, s.width), *([normal(rng, s.width)] if bias else [])

    return make


def _flat(count: int) -> Make:
    """Tensors of the size of the largest weight of a layer; positive, since one is a second moment."""
    return lambda rng, s: tuple(np.abs(normal(rng, s.hidden * s.width)) for _ in range(count))


# Linear algebra and what surrounds it ---------------------------------------------------------------------
_pair("linear to qkv", "LinearForward", _linear(lambda s: s.packed, lambda s: s.width))
_pair("linear to width", "LinearForward", _linear(lambda s: s.width, lambda s: s.width))
_pair("linear to hidden", "LinearForward", _linear(lambda s: s.hidden, lambda s: s.width))
_pair("linear from hidden", "LinearForward", _linear(lambda s: s.width, lambda s: s.hidden))
_pair("linear to vocabulary", "LinearForward", _linear(lambda s: s.vocab, lambda s: s.width, bias=False))
_pair("linear_gelu", "LinearGeluForward GeluForward", _linear(lambda s: s.hidden, lambda s: s.width))
_pair(
    "matmul of heads",
    "MatmulForward",
    lambda rng, s: (
        normal(rng, s.batch * s.heads, s.time, s.time),
        normal(rng, s.batch * s.heads, s.time, s.width // s.heads),
    ),
)
_pair("attention", "AttentionForward", lambda rng, s: (normal(rng, s.batch, s.time, s.packed), s.heads))
_pair(
    "rope",
    "RopeForward",
    lambda rng, s: (normal(rng, s.batch, s.time, s.width), s.heads),
)
_pair("swiglu", "SwigluForward", lambda rng, s: (normal(rng, s.batch, s.time, 2 * s.hidden),))
_pair("layer_norm", "LayerNormForward", _norm(residual=False, bias=True))
_pair("rms_norm", "RmsNormForward", _norm(residual=False, bias=False))
_pair("add_layer_norm", "AddLayerNormForward", _norm(residual=True, bias=True))
_pair("add_rms_norm", "AddRmsNormForward", _norm(residual=True, bias=False))
_pair(
    "embedding",
    "EmbeddingForward",
    lambda rng, s: (_index(rng, s.vocab, s.batch, s.time), _weight(rng, s.vocab, s.width)),
)
_pair(
    "cross_entropy",
    "CrossEntropyForward",
    lambda rng, s: (normal(rng, s.tokens, s.vocab), _index(rng, s.vocab, s.tokens)),
)
_pair(
    "linear_cross_entropy",
    "LinearCrossEntropyForward",
    lambda rng, s: (
        normal(rng, s.tokens, s.width),
        _weight(rng, s.vocab, s.width),
        _index(rng, s.vocab, s.tokens),
    ),
)

# Element by element ---------------------------------------------------------------------------------------
for _name, _row in (("gelu", "GeluForward"), ("relu", "ReluForward"), ("silu", "SiluForward")):
    _pair(_name, _row, _hidden)
for _name in ("erf", "neg", "exp", "sin", "cos", "tanh", "sigmoid"):
    _pair(_name, f"{_name.title()}Forward", _x)
for _name in ("reciprocal", "log", "sqrt", "rsqrt"):
    _pair(_name, f"{_name.title()}Forward", _positive)
for _name in ("add", "sub", "mul", "maximum", "minimum"):
    _pair(_name, f"{_name.title()}Forward", _two)
_pair("add a row", "AddForward", lambda rng, s: (*_x(rng, s), normal(rng, s.width)))
_pair("div", "DivForward", _quotient)
_pair("add a number", "AddScalarForward", _x)
_pair("mul by a number", "MulScalarForward", _x)
_pair("div by a number", "DivScalarForward", _x)
_pair("number div", "DivScalarForward DivScalarBackward", _positive)
_pair("pow", "PowForward", _positive)
_pair("clamp", "ClampForward", _x)
_pair("dropout", "DropoutForward", _x, random=True)
_pair("masked_fill", "MaskForward", lambda rng, s: (*_x(rng, s), _mask(rng, s)))
_pair("where", "WhereForward", lambda rng, s: (_mask(rng, s), *_two(rng, s)))
for _name, _row in (
    ("equals", "Equals"), ("not_equals", "NotEquals"), ("lt", "Lt"), ("le", "Le"), ("gt", "Gt"), ("ge", "Ge"),
):  # fmt: skip
    _pair(_name, f"{_row}Forward", _two, gradient=False)
    _pair(f"{_name} a number", f"{_row}ScalarForward", _x, gradient=False)
for _name in ("logical_and", "logical_or"):
    _row = f"{_name.removeprefix('logical_').title()}Forward"
    _pair(_name, _row, lambda rng, s: (_mask(rng, s), _mask(rng, s)), gradient=False)
_pair("logical_not", "NotForward", lambda rng, s: (_mask(rng, s),), gradient=False)
_pair("isfinite", "IsFiniteForward", _x, gradient=False)
_pair("isnan", "IsNanForward", _x, gradient=False)

# Reductions -----------------------------------------------------------------------------------------------
for _name in ("sum", "mean", "max", "min"):
    _pair(f"{_name} of rows", f"{_name.title()}Forward", _x)
_pair("sum of columns", "SumForward", _x)
_pair("argmax", "ArgMax", _x, gradient=False)
_pair("softmax", "SoftmaxForward", _x)
_pair("log_softmax", "LogSoftmaxForward", _x)

# Moves ----------------------------------------------------------------------------------------------------
_pair("transpose", "TransposeForward", _x)
_pair(
    "permute", "PermuteForward", lambda rng, s: (normal(rng, s.batch, s.time, s.heads, s.width // s.heads),)
)
_pair("slice", "SliceForward", _x)
_pair("repeat_interleave", "RepeatInterleaveForward", _x)
_pair("expand", "ExpandForward", lambda rng, s: (normal(rng, s.width), (s.tokens, s.width)))
_pair("tril", "TrilForward", lambda rng, s: (normal(rng, s.time, s.time),))
_pair("triu", "TriuForward", lambda rng, s: (normal(rng, s.time, s.time),))
_pair(
    "split and concat", "SplitForward ConcatForward", lambda rng, s: (normal(rng, s.batch, s.time, s.packed),)
)
_pair("gather", "GatherForward", lambda rng, s: (*_x(rng, s), _index(rng, s.width, s.batch, s.time, s.width)))

# Optimizers -----------------------------------------------------------------------------------------------
_pair("adamw", "AdamW", _flat(4), gradient=False)
_pair("sgd", "SGD", _flat(3), gradient=False)
_pair("global norm", "GlobalNorm", _flat(1), gradient=False)
_pair("all finite", "AllFinite", _flat(1), gradient=False)
_pair("scale in place", "ScaleInPlace", _flat(1), gradient=False)
_pair("copy", "Copy", _flat(2), gradient=False)
_pair("accumulate", "AccumulateGrad", _flat(2), gradient=False)


def unmeasured(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rows of the table, given as (name, profile), of training and fused that nothing measures."""
    measured = {row.removesuffix("Forward") for pair in PAIRS.values() for row in pair.rows}
    found = []
    for name, profile in rows:
        stem = name.partition("Backward")[0].removesuffix("Forward")
        if profile in ("training", "fused") and stem not in measured and name not in EXCUSED:
            found.append(name)
    return found
