"""Optimizer steps, the gradient norm, and the search for infinities and NaN, over lists of tensors."""

from __future__ import annotations

from ..backend.optable import Results, Scalar, Tensors, op
from ..dtype import bool_, float32, float64
from ..errors import ShapeError


@op(profile="training", results="", writes="params ms vs")
def AdamW(
    params: Tensors,
    grads: Tensors,
    ms: Tensors,
    vs: Tensors,
    lr: Scalar,
    beta1: Scalar,
    beta2: Scalar,
    eps: Scalar,
    weight_decay: Scalar,
    step: Scalar,
) -> Results:
    """m = b1 m + (1-b1) g; v = b2 v + (1-b2) g²; p = p (1 - lr wd) - lr (m/(1-b1ᵗ)) / (sqrt(v/(1-b2ᵗ)) + eps) with
    t = step, from 1.
    """
    _same_shapes(params, grads=grads, ms=ms, vs=vs)
    return []


@op(profile="training", results="", writes="params momenta")
def SGD(
    params: Tensors,
    grads: Tensors,
    momenta: Tensors,
    lr: Scalar,
    momentum: Scalar,
    dampening: Scalar,
    weight_decay: Scalar,
    nesterov: bool,
    first: bool,
) -> Results:
    """g += wd p; b = g if first else mu b + (1-dampening) g; p -= lr (g + mu b if nesterov else b); without momenta
    p -= lr g.
    """
    _same_shapes(params, grads=grads, **({"momenta": momenta} if momenta else {}))
    return []


@op(profile="training", results="norm", host_sync=True)
def GlobalNorm(tensors: Tensors) -> Results:
    """The root of the sum of squares of all elements of all tensors, 0-d: float64 where a tensor is, else float32.
    Neither large nor small elements lose their squares: the norm of 1e30 is 1e30.
    """
    return [((), float64 if any(t.dtype is float64 for t in tensors) else float32)]


@op(profile="training", results="finite", host_sync=True)
def AllFinite(tensors: Tensors) -> Results:
    """True (bool, 0-d) when no element of any tensor is infinite or NaN."""
    return [((), bool_)]


@op(profile="training", results="", writes="tensors")
def ScaleInPlace(tensors: Tensors, factor: Scalar) -> Results:
    """Multiply every element of every tensor by factor."""
    return []


def _same_shapes(params: tuple, **lists: tuple) -> None:
    for name, tensors in lists.items():
        if len(tensors) != len(params):
            raise ShapeError(f"{name} has {len(tensors)} tensors, params {len(params)}")
        for i, (p, t) in enumerate(zip(params, tensors, strict=True)):
            if p.shape != t.shape:
                raise ShapeError(f"{name}[{i}] has shape {t.shape}, params[{i}] {p.shape}")
