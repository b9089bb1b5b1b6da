"""The op table and what users call: one file per family.

Functions are in lower case and differentiable. A row of the table is an attribute under its name, such as
``ops.LinearForward``: called, it runs the kernel and records nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import _methods
from ..autograd.grad_mode import is_grad_enabled, no_grad
from ..backend.optable import OPS
from . import optimizer as _optimizer  # noqa: F401 - rows only
from . import vocab_parallel as _vocab_parallel  # noqa: F401 - rows only
from .activation import erf, gelu, relu, silu
from .attention import attention
from .base import AccumulateGrad, Fill, cast, clone, real, to_device, view  # noqa: F401 - real for methods
from .clamp import clamp, maximum, minimum
from .compare import equals, ge, gt, le, logical_and, logical_not, logical_or, lt, not_equals
from .dropout import dropout
from .elementwise import add, div, element, mul, pow, sub  # noqa: F401 - element for methods
from .finite import isfinite, isnan
from .gated import linear_gelu, swiglu
from .indexing import embedding, gather, index_select, masked_fill, where
from .join import concat, split, stack
from .linear import linear, matmul, outer
from .linear_loss import linear_cross_entropy
from .loss import cross_entropy
from .norm import layer_norm
from .reduction import argmax, argmin, cumsum, max, mean, min, norm, sum
from .residual_norm import add_layer_norm, add_rms_norm
from .rms_norm import rms_norm
from .rope import rope, rope_table
from .scatter import one_hot, scatter, scatter_add
from .shape import (
    broadcast_to,
    expand,
    flatten,
    permute,
    repeat_interleave,
    squeeze,
    transpose,
    tril,
    triu,
    unsqueeze,
)
from .softmax import log_softmax, softmax
from .subscript import getitem, setitem
from .topk import topk
from .unary import abs, cos, exp, log, neg, reciprocal, rsqrt, sigmoid, sin, sqrt, tanh
from .variance import std, var

_methods.ops = sys.modules[__name__]

from ..creation import from_numpy  # noqa: E402 - creation needs Tensor and Fill, both complete only here
from . import attention_composite as _attention_composite  # noqa: E402, F401 - needs the rows above
from . import gated_composite as _gated_composite  # noqa: E402, F401
from . import linear_composite as _linear_composite  # noqa: E402, F401
from . import loss_composite as _loss_composite  # noqa: E402, F401 - needs the rows above
from . import norm_composite as _norm_composite  # noqa: E402, F401
from . import rope_composite as _rope_composite  # noqa: E402, F401

__all__ = [
    "OPS",
    "AccumulateGrad",
    "Fill",
    "abs",
    "add",
    "add_layer_norm",
    "add_rms_norm",
    "argmax",
    "argmin",
    "attention",
    "broadcast_to",
    "cast",
    "clamp",
    "clone",
    "concat",
    "cos",
    "cross_entropy",
    "cumsum",
    "div",
    "dropout",
    "embedding",
    "equals",
    "erf",
    "exp",
    "expand",
    "flatten",
    "from_numpy",
    "gather",
    "ge",
    "gelu",
    "getitem",
    "gt",
    "index_select",
    "is_grad_enabled",
    "isfinite",
    "isnan",
    "layer_norm",
    "le",
    "linear",
    "linear_cross_entropy",
    "linear_gelu",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "masked_fill",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mul",
    "neg",
    "no_grad",
    "norm",
    "not_equals",
    "one_hot",
    "outer",
    "permute",
    "pow",
    "reciprocal",
    "relu",
    "repeat_interleave",
    "rms_norm",
    "rope",
    "rope_table",
    "rsqrt",
    "scatter",
    "scatter_add",
    "setitem",
    "sigmoid",
    "silu",
    "sin",
    "softmax",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "std",
    "sub",
    "sum",
    "swiglu",
    "tanh",
    "to_device",
    "topk",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "var",
    "view",
    "where",
]


def __getattr__(name: str) -> Any:
    row = OPS.get(name)
    if row is None:
        raise AttributeError(f"infinitrain.ops has no function and the op table no row {name!r}")
    return row.call
