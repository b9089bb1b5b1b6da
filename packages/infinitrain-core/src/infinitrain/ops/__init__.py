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
from .activation import gelu
from .attention import attention
from .base import AccumulateGrad, Fill, cast, clone, to_device, view
from .compare import equals, ge, gt, le, logical_and, logical_not, logical_or, lt, not_equals
from .elementwise import add, div, mul, pow, sub
from .indexing import embedding, gather, getitem, masked_fill, where
from .linear import linear, matmul, outer
from .loss import cross_entropy
from .norm import layer_norm
from .reduction import argmax, max, mean, min, sum
from .shape import (
    broadcast_to,
    concat,
    expand,
    flatten,
    permute,
    repeat_interleave,
    split,
    squeeze,
    stack,
    transpose,
    tril,
    triu,
    unsqueeze,
)
from .softmax import log_softmax, softmax
from .unary import abs, cos, exp, log, neg, reciprocal, rsqrt, sigmoid, sin, sqrt, tanh

_methods.ops = sys.modules[__name__]

from ..creation import from_numpy  # noqa: E402 - creation needs Tensor and Fill, both complete only here
from . import attention_composite as _attention_composite  # noqa: E402, F401 - needs the rows above

__all__ = [
    "OPS",
    "AccumulateGrad",
    "Fill",
    "abs",
    "add",
    "argmax",
    "attention",
    "broadcast_to",
    "cast",
    "clone",
    "concat",
    "cos",
    "cross_entropy",
    "div",
    "embedding",
    "equals",
    "exp",
    "expand",
    "flatten",
    "from_numpy",
    "gather",
    "ge",
    "gelu",
    "getitem",
    "gt",
    "is_grad_enabled",
    "layer_norm",
    "le",
    "linear",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "masked_fill",
    "matmul",
    "max",
    "mean",
    "min",
    "mul",
    "neg",
    "no_grad",
    "not_equals",
    "outer",
    "permute",
    "pow",
    "reciprocal",
    "repeat_interleave",
    "rsqrt",
    "sigmoid",
    "sin",
    "softmax",
    "split",
    "sqrt",
    "squeeze",
    "stack",
    "sub",
    "sum",
    "tanh",
    "to_device",
    "transpose",
    "tril",
    "triu",
    "unsqueeze",
    "view",
    "where",
]


def __getattr__(name: str) -> Any:
    row = OPS.get(name)
    if row is None:
        raise AttributeError(f"infinitrain.ops has no function and the op table no row {name!r}")
    return row.call
