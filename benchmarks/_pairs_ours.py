"""The program that times infinitrain's ops."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from _bare import take_kernels_away
from _pairs_timing import Timing

import infinitrain as it
from infinitrain import ops

EPS = 1e-5


def _rope(x: it.Tensor, heads: int) -> it.Tensor:
    if x.shape not in _tables:
        _tables[x.shape] = ops.rope_table(x.shape[-1] // heads, x.shape[1])
    cos, sin = _tables[x.shape]
    return ops.rope(x, cos, sin, heads, interleaved=False)


_tables: dict[tuple[int, ...], Any] = {}


def _adamw(p: it.Tensor, g: it.Tensor, m: it.Tensor, v: it.Tensor) -> it.Tensor:
    ops.AdamW([p], [g], [m], [v], 3e-4, 0.9, 0.95, 1e-8, 0.1, 2)
    return p


def _sgd(p: it.Tensor, g: it.Tensor, m: it.Tensor) -> it.Tensor:
    ops.SGD([p], [g], [m], 3e-4, 0.9, 0.0, 0.1, False, False)
    return p


def _scale(x: it.Tensor) -> it.Tensor:
    ops.ScaleInPlace([x], 0.999)
    return x


def _copy(a: it.Tensor, b: it.Tensor) -> it.Tensor:
    ops.Copy(a, b)
    return a


def _accumulate(a: it.Tensor, b: it.Tensor) -> it.Tensor:
    ops.AccumulateGrad(a, 1e-6, b)
    return b


class Program(Timing):
    """``bare`` puts functions that do nothing in place of the kernels: what is left is the price of Python."""

    functions = {  # noqa: RUF012
        **dict.fromkeys(
            ("linear to qkv", "linear to width", "linear to hidden", "linear from hidden", "linear to vocabulary"),
            ops.linear,
        ),
        **{
            name: getattr(ops, name)
            for name in (
                "linear_gelu", "attention", "swiglu", "embedding", "cross_entropy", "linear_cross_entropy",
                "gelu", "relu", "silu", "erf", "neg", "exp", "sin", "cos", "tanh", "sigmoid", "reciprocal", "log",
                "sqrt", "rsqrt", "add", "sub", "mul", "maximum", "minimum", "div", "where", "equals", "not_equals",
                "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "isfinite", "isnan", "softmax",
                "log_softmax", "expand", "tril", "triu", "argmax",
            )
        },
        **{
            f"{compare.__name__} a number": lambda x, compare=compare: compare(x, 0.3)
            for compare in (ops.equals, ops.not_equals, ops.lt, ops.le, ops.gt, ops.ge)
        },
        **{
            f"{reduce.__name__} of rows": lambda x, reduce=reduce: reduce(x, -1)
            for reduce in (ops.sum, ops.mean, ops.max, ops.min)
        },
        "sum of columns": lambda x: ops.sum(x, (0, 1)),
        "matmul of heads": ops.matmul,
        "rope": _rope,
        "layer_norm": lambda x, w, b: ops.layer_norm(x, w, b, EPS),
        "rms_norm": lambda x, w: ops.rms_norm(x, w, EPS),
        "add_layer_norm": lambda x, r, w, b: ops.add_layer_norm(x, r, w, b, EPS)[1],
        "add_rms_norm": lambda x, r, w: ops.add_rms_norm(x, r, w, EPS)[1],
        "add a row": ops.add,
        "add a number": lambda x: ops.add(x, 0.7),
        "mul by a number": lambda x: ops.mul(x, 0.7),
        "div by a number": lambda x: ops.div(x, 0.7),
        "number div": lambda x: ops.div(0.7, x),
        "pow": lambda x: ops.pow(x, 1.5),
        "clamp": lambda x: ops.clamp(x, -1.0, 1.0),
        "dropout": lambda x: ops.dropout(x, 0.1),
        "masked_fill": lambda x, mask: ops.masked_fill(x, mask, -2.0),
        "transpose": lambda x: ops.transpose(x, 1, 2),
        "permute": lambda x: ops.permute(x, (0, 2, 1, 3)),
        "slice": lambda x: x[:, 1:, 2:],
        "repeat_interleave": lambda x: ops.repeat_interleave(x, 2, 1),
        "split and concat": lambda x: ops.concat(ops.split(x, x.shape[-1] // 3, -1)[::-1], -1),
        "gather": lambda x, index: ops.gather(x, -1, index),
        "adamw": _adamw,
        "sgd": _sgd,
        "global norm": lambda x: ops.GlobalNorm([x]),
        "all finite": lambda x: ops.AllFinite([x]),
        "scale in place": _scale,
        "copy": _copy,
        "accumulate": _accumulate,
    }  # fmt: skip

    def __init__(self, threads: int, bare: bool = False) -> None:
        it.set_num_threads(threads)
        if bare:
            take_kernels_away()

    def tensor(self, array: np.ndarray, gradient: bool) -> it.Tensor:
        return it.from_numpy(array, requires_grad=gradient)

    def array(self, tensor: it.Tensor) -> np.ndarray:
        return tensor.numpy()

    def no_grad(self) -> AbstractContextManager[Any]:
        return it.no_grad()
