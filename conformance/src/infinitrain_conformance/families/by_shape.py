"""Builders of ops that take any shape, or any whose last axis is the row: each makes one case of a given shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from ..cases import Built, Data
from ..oracles import activation as activations
from ..oracles import clamp as bounds
from ..oracles import indexing as selections
from ..oracles import reduction as sums
from ..oracles import shape as moves
from . import (
    activation,
    base,
    clamp,
    compare,
    dropout,
    elementwise,
    indexing,
    linear,
    linear_loss,
    loss,
    moe,
    norm,
    pointwise,
    reduction,
    scalar,
)
from .shape import assigned, joined, moved

Shape = tuple[int, ...]
Build = Callable[..., Built]
"""Of data and a shape."""


@dataclass(frozen=True)
class ByShape:
    """A builder for an op. ``label`` tells two of one op apart; ``rank`` is the least."""

    op: str
    build: Build
    label: str = ""
    rank: int = 1


TABLE: Final[list[ByShape]] = []


def by_shape(op: str, build: Build, label: str = "", rank: int = 1) -> None:
    TABLE.append(ByShape(op, build, label, rank))


# One element at a time ----------------------------------------------------------------------------------

forward: Callable[..., Any]
backward: Callable[..., Any]
build: Build
for form in ("tanh", "none"):
    by_shape("GeluForward", lambda d, s, f=form: activation.gelu(d, s, f), form)
    by_shape("GeluBackward", lambda d, s, f=form: activation.gelu_backward(d, s, f), form)
for name, forward, backward in (
    ("Relu", activations.relu, activations.relu_backward),
    ("Silu", activations.silu, activations.silu_backward),
    ("Erf", activations.erf, activations.erf_backward),
):
    by_shape(f"{name}Forward", lambda d, s, o=forward: activation.of_one(d, o, s))
    by_shape(f"{name}Backward", lambda d, s, o=backward: activation.of_input(d, o, s))
for name, domain, value, size, slope, saved in pointwise.UNARY:
    one = partial(pointwise.unary, name=name, domain=domain, value=value, size=size)
    by_shape(f"{name}Forward", lambda d, s, b=one: b(d, shape=s))
    if name != "Neg":
        two = partial(
            pointwise.unary_backward, name=name, domain=domain, value=value, slope=slope, saved=saved
        )
        by_shape(f"{name}Backward", lambda d, s, b=two: b(d, shape=s))
for label, other in (("", lambda s: s), ("by_row", lambda s: s[-1:])):
    by_shape("AddForward", lambda d, s, o=other: elementwise.add(d, s, o(s)), label)
    for name in pointwise.BINARY:
        by_shape(f"{name}Forward", lambda d, s, n=name, o=other: pointwise.binary(d, n, s, o(s)), label)
    for name in pointwise.SLOPES:
        by_shape(
            f"{name}Backward", lambda d, s, n=name, o=other: pointwise.binary_backward(d, n, s, o(s)), label
        )
by_shape("AddScalarForward", lambda d, s: scalar.add(d, 0.5, s))
by_shape("MulScalarForward", lambda d, s: scalar.mul(d, -0.75, s))
by_shape("DivScalarForward", lambda d, s: scalar.div(d, 3, False, s))
by_shape("DivScalarForward", lambda d, s: scalar.div(d, -0.7, True, s), "dividend")
by_shape("DivScalarBackward", lambda d, s: scalar.div_backward(d, 1.5, s))
for label, exponent in (("", 3.0), ("third", 1.0 / 3.0)):
    by_shape("PowForward", lambda d, s, e=exponent: scalar.power(d, e, False, 0.1, 2.9, s), label)
    by_shape("PowBackward", lambda d, s, e=exponent: scalar.power_backward(d, e, False, 0.1, 2.9, s), label)
by_shape("PowTensorForward", lambda d, s: scalar.powers(d, s, s, False))
by_shape("PowTensorBackward", lambda d, s: scalar.powers_backward(d, s, s, False))
by_shape("ClampForward", lambda d, s: clamp.clamp(d, s, -0.75, 1.3, 1.0))
by_shape("ClampBackward", lambda d, s: clamp.clamp_backward(d, s, -0.75, 1.5))
for name, forward, backward in (
    ("Maximum", bounds.larger, bounds.larger_backward),
    ("Minimum", bounds.smaller, bounds.smaller_backward),
):
    by_shape(f"{name}Forward", lambda d, s, o=forward: clamp.pair(d, o, s, s))
    by_shape(f"{name}Backward", lambda d, s, o=backward: clamp.pair_backward(d, o, s, s))
by_shape("IsFiniteForward", lambda d, s: clamp.sprinkled(d, bounds.is_finite, s))
by_shape("IsNanForward", lambda d, s: clamp.sprinkled(d, bounds.is_nan, s))
for name, compared in compare.COMPARE.items():
    by_shape(f"{name}Forward", lambda d, s, c=compared: compare.tensors(d, c, s, s))
    by_shape(f"{name}ScalarForward", lambda d, s, c=compared: compare.scalar(d, c, 0.5, s))
for name, logic in compare.LOGIC.items():
    by_shape(f"{name}Forward", lambda d, s, c=logic: compare.tensors(d, c, s, s))
by_shape("NotForward", compare.negation)
by_shape("DropoutForward", lambda d, s: dropout.forward(d, s, 0.25))
by_shape("DropoutBackward", lambda d, s: dropout.backward(d, s, 0.25))

# Bytes -------------------------------------------------------------------------------------------------

for to in ("float32", "bfloat16", "float16", "int64", "bool"):
    by_shape("Cast", lambda d, s, t=to: base.cast(d, t, s), f"to_{to}")
by_shape("Fill", lambda d, s: base.fill(d, s, 6.75))
by_shape("NoOpForward", lambda d, s: base.view(d, s, (math.prod(s),)))
by_shape("NoOpBackward", lambda d, s: base.view_backward(d, s, (math.prod(s),)))
by_shape("Copy", base.copy)
by_shape("AccumulateGrad", lambda d, s: base.accumulate(d, s, -0.5, 10.0))


def _cut(s: Shape) -> tuple[Shape, Shape, Shape, Shape]:
    """Return starts, ends and steps that leave out the first of each axis and the last, where there are more; and the
    shape of what is taken.
    """
    starts, ends = tuple(int(n > 2) for n in s), tuple(n - (n > 2) for n in s)
    return starts, ends, (1,) * len(s), tuple(e - b for b, e in zip(starts, ends, strict=True))


def _assigned(d: Data, s: Shape) -> Built:
    starts, _, steps, _ = _cut(s)
    return assigned(d, s, tuple(n - at for n, at in zip(s, starts, strict=True)), starts, s, steps)


by_shape("SliceForward", lambda d, s: moved(d, s, moves.slice_, *_cut(s)[:3]))
by_shape("SliceBackward", lambda d, s: moved(d, _cut(s)[3], moves.slice_backward, s, *_cut(s)[:3]))
by_shape("SliceAssign", _assigned)
by_shape("TransposeForward", lambda d, s: moved(d, s, moves.transpose, len(s) - 2, len(s) - 1), rank=2)
by_shape("PermuteForward", lambda d, s: moved(d, s, moves.permute, tuple(range(len(s)))[::-1]))
by_shape("RepeatInterleaveForward", lambda d, s: moved(d, s, moves.repeat, 3, 0))
by_shape("RepeatInterleaveBackward", lambda d, s: moved(d, (3 * s[0], *s[1:]), moves.repeat_backward, 3, 0))
by_shape("ExpandForward", lambda d, s: moved(d, (*s[:-1], 1), moves.expand, s))
by_shape("ExpandBackward", lambda d, s: moved(d, s, moves.expand_backward, (*s[:-1], 1)))
by_shape("ExpandForward", lambda d, s: moved(d, s[-1:], moves.expand, s), "over_rows")
by_shape("ExpandBackward", lambda d, s: moved(d, s, moves.expand_backward, s[-1:]), "over_rows")
by_shape("TrilForward", lambda d, s: moved(d, s, moves.tril, 0), rank=2)
by_shape("TriuForward", lambda d, s: moved(d, s, moves.triu, 1), rank=2)
by_shape("SplitForward", lambda d, s: moved(d, s, moves.split, (s[-1] // 3, s[-1] - s[-1] // 3), len(s) - 1))
by_shape("ConcatForward", lambda d, s: joined(d, (s, (*s[:-1], 5)), len(s) - 1))

# By indices ---------------------------------------------------------------------------------------------


def _gathered(d: Data, s: Shape) -> Built:
    """Each element once, in another order in each row."""
    return Built((d.normal(*s, mean=1.0), np.argsort(d.rng.random(s), -1), len(s) - 1), selections.gather)


def _selected(d: Data, s: Shape) -> Built:
    return Built((d.normal(*s, mean=1.0), d.rng.permutation(s[-1]), len(s) - 1), selections.index_select)


by_shape("EmbeddingForward", lambda d, s: indexing.forward(d, s[:-1], 53 if len(s) > 2 else 3, s[-1]))
by_shape("EmbeddingBackward", lambda d, s: indexing.backward(d, s[:-1], 53, s[-1]))
by_shape("GatherForward", _gathered)
by_shape("GatherBackward", lambda d, s: indexing.gather_backward(d, s, s, len(s) - 1))
by_shape("IndexSelectForward", _selected)
by_shape("IndexSelectBackward", lambda d, s: indexing.select_backward(d, s, (s[-1],), len(s) - 1))
by_shape("MaskForward", lambda d, s: indexing.mask(d, s, s, 2.5))
by_shape("MaskBackward", lambda d, s: indexing.mask_backward(d, s, s))
by_shape("WhereForward", lambda d, s: indexing.where(d, s, s, s))
by_shape("WhereBackward", lambda d, s: indexing.where_backward(d, s, s, s))
by_shape("TopKForward", lambda d, s: moe.best(d, s, -(-s[-1] // 3), len(s) - 1, True))
by_shape("OneHot", lambda d, s: moe.one_hot(d, s[:-1], s[-1]))

# By rows ------------------------------------------------------------------------------------------------


def _axes(s: Shape, which: str) -> Shape:
    every = tuple(range(len(s)))
    return every[-1:] if which == "" else every[:-1] if which == "over_rows" else every


def reduced(d: Data, s: Shape, oracle: Any, which: str) -> Built:
    x = reduction.weighed(d, s) if which == "to_one" else d.normal(*s, mean=0.3)
    return Built((x, _axes(s, which), False), oracle)


def norm_gradient(d: Data, s: Shape, which: str) -> Built:
    return reduction.norm_backward(d, s, _axes(s, which), False)


def extreme(d: Data, s: Shape, oracle: Any, sign: float, which: str) -> Built:
    """The extreme of everything is the last element, those of rows and columns are anywhere."""
    x = d.normal(*s, mean=-3.0)
    if which == "to_one":
        x.reshape(-1)[-1] = sign * 9.0
    return Built((x, _axes(s, which), False), oracle)


for which in ("", "over_rows", "to_one"):
    for name, oracle, back in (
        ("Sum", sums.sum_, sums.sum_backward),
        ("Mean", sums.mean, sums.mean_backward),
    ):
        by_shape(f"{name}Forward", lambda d, s, o=oracle, w=which: reduced(d, s, o, w), which)
        by_shape(
            f"{name}Backward",
            lambda d, s, o=back, w=which: reduction.spread(d, o, s, _axes(s, w), False),
            which,
        )
    for name, oracle, sign in (("Max", sums.max_, 1.0), ("Min", sums.min_, -1.0)):
        by_shape(f"{name}Forward", lambda d, s, o=oracle, g=sign, w=which: extreme(d, s, o, g, w), which)
        by_shape(
            f"{name}Backward",
            lambda d, s, o=oracle, w=which: reduction.extreme_backward(d, o, s, _axes(s, w), False),
            which,
        )
    by_shape("NormForward", lambda d, s, w=which: reduced(d, s, sums.norm, w), which)
    by_shape("NormBackward", lambda d, s, w=which: norm_gradient(d, s, w), which)
by_shape("ArgMax", lambda d, s: reduction.place(d, sums.argmax, s, len(s) - 1, False))
by_shape("ArgMin", lambda d, s: reduction.place(d, sums.argmin, s, len(s) - 1, False))
by_shape("CumSumForward", lambda d, s: reduction.reduce(d, sums.cumsum, s, len(s) - 1))
by_shape("CumSumBackward", lambda d, s: reduction.reduce(d, sums.cumsum_backward, s, len(s) - 1))
for name, build in (
    ("SoftmaxForward", loss.softmax),
    ("SoftmaxBackward", loss.softmax_backward),
    ("LogSoftmaxForward", loss.log_softmax),
    ("LogSoftmaxBackward", loss.log_softmax_backward),
):
    by_shape(name, lambda d, s, b=build: b(d, s, len(s) - 1))


def _eps(s: Shape) -> float:
    """Return what a norm adds to the variance: that of one element is nothing but it."""
    return norm.EPS if s[-1] > 1 else 0.1


for name, forward, backward in (
    ("LayerNorm", norm.layer, norm.layer_backward),
    ("RmsNorm", norm.rms, norm.rms_backward),
    ("AddLayerNorm", norm.after_sum, norm.after_sum_backward),
    ("AddRmsNorm", partial(norm.after_sum, centred=False), partial(norm.after_sum_backward, centred=False)),
):
    by_shape(f"{name}Forward", lambda d, s, b=forward: b(d, s, eps=_eps(s)))
    by_shape(f"{name}Backward", lambda d, s, b=backward: b(d, s, tied=s[-1] > 1, eps=_eps(s)))
by_shape("SwigluForward", lambda d, s: activation.swiglu(d, (*s[:-1], 2 * s[-1])))
by_shape("SwigluBackward", lambda d, s: activation.swiglu_backward(d, (*s[:-1], 2 * s[-1])))


def _some(s: Shape) -> float:
    """Return the part of the targets that is ignored: none of a few, of which it could be all."""
    return 0.2 if math.prod(s[:-1]) > 9 else 0.0


for op, losses in (
    ("CrossEntropyForward", loss.forward),
    ("CrossEntropyBackward", loss.backward),
    ("CrossEntropyBackwardInPlace", partial(loss.backward, in_place=True)),
):
    by_shape(op, lambda d, s, b=losses: b(d, s[:-1], s[-1]))
    by_shape(op, lambda d, s, b=losses: b(d, s[:-1], s[-1], ignored=_some(s), smoothing=0.1), "smoothed")
by_shape(
    "VocabParallelCrossEntropyForward", lambda d, s: linear_loss.part(d, s[:-1], s[-1], s[-1] // 3, s[-1])
)
by_shape(
    "VocabParallelCrossEntropyBackward",
    lambda d, s: linear_loss.part_backward(d, s[:-1], s[-1], s[-1] // 3, s[-1], 0.1),
)


def linear_loss_forward(d: Data, s: Shape) -> Built:
    return linear_loss.forward(d, s[:-1], 67, max(5, s[-1]), _some(s), 0.1, "mean")


def linear_loss_backward(d: Data, s: Shape) -> Built:
    return linear_loss.backward(d, s[:-1], 67, max(5, s[-1]), _some(s), 0.1, "mean")


by_shape("LinearCrossEntropyForward", linear_loss_forward)
by_shape("LinearCrossEntropyBackward", linear_loss_backward)
by_shape("LinearForward", lambda d, s: linear.forward(d, s[:-1], s[-1], 67))
by_shape("LinearBackwardInput", lambda d, s: linear.dx(d, s[:-1], s[-1], 67))
by_shape("LinearBackwardWeight", lambda d, s: linear.dweight(d, s[:-1], s[-1], 67))
by_shape("LinearBackwardBias", lambda d, s: linear.dbias(d, s[:-1], s[-1]))
by_shape("LinearBackward", lambda d, s: linear.backward(d, s[:-1], s[-1], 67))
by_shape("LinearGeluForward", lambda d, s: activation.linear_gelu(d, s, 67, "tanh"))
for op, product in (
    ("MatmulForward", linear.product),
    ("MatmulBackwardInput", linear.product_da),
    ("MatmulBackwardOther", linear.product_db),
):
    by_shape(op, lambda d, s, b=product: b(d, s, (s[-1], 67)), rank=2)
by_shape("Gemm", lambda d, s: linear.gemm(d, s, (s[-1], 67), 1.5, 0.5, (False, False)), rank=2)
