"""The program that times PyTorch's eager ops."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from _pairs_timing import Timing
from torch import Tensor
from torch.optim.adamw import adamw
from torch.optim.sgd import sgd

EPS = 1e-5


def _attention(qkv: Tensor, heads: int) -> Tensor:
    b, t, packed = qkv.shape
    q, k, v = qkv.view(b, t, 3 * heads, packed // 3 // heads).transpose(1, 2).chunk(3, 1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(b, t, packed // 3)


def _rope(x: Tensor, heads: int) -> Tensor:
    b, t, width = x.shape
    table = _tables.get(x.shape)
    if table is None:
        half = width // heads // 2
        angles = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        twice = torch.cat((angles, angles), -1)[:, None]
        table = _tables[x.shape] = twice.cos().float(), twice.sin().float()
    x = x.view(b, t, heads, width // heads)
    first, second = x.chunk(2, -1)
    return (x * table[0] + torch.cat((-second, first), -1) * table[1]).view(b, t, width)


_tables: dict[torch.Size, Any] = {}


def _swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


def _adamw(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> Tensor:
    adamw(
        [p], [g], [m], [v], [], [torch.ones(())], fused=True, amsgrad=False, beta1=0.9, beta2=0.95, lr=3e-4,
        weight_decay=0.1, eps=1e-8, maximize=False,
    )  # fmt: skip
    return p


def _sgd(p: Tensor, g: Tensor, m: Tensor) -> Tensor:
    sgd(
        [p], [g], [m], fused=True, weight_decay=0.1, momentum=0.9, lr=3e-4, dampening=0.0, nesterov=False,
        maximize=False,
    )  # fmt: skip
    return p


def _scale(x: Tensor) -> Tensor:
    return x.mul_(0.999)


class Program(Timing):
    functions = {  # noqa: RUF012
        **dict.fromkeys(
            ("linear to qkv", "linear to width", "linear to hidden", "linear from hidden", "linear to vocabulary"),
            F.linear,
        ),
        **{name: getattr(F, name) for name in ("embedding", "cross_entropy", "relu", "silu")},
        **{
            name: getattr(torch, name)
            for name in (
                "erf", "neg", "exp", "sin", "cos", "tanh", "sigmoid", "reciprocal", "log", "sqrt", "rsqrt", "add",
                "sub", "mul", "maximum", "minimum", "div", "where", "lt", "le", "gt", "ge", "logical_and",
                "logical_or", "logical_not", "isfinite", "isnan", "tril", "triu",
            )
        },
        "equals": torch.eq,
        "not_equals": torch.ne,
        **{
            f"{name} a number": lambda x, compare=compare: compare(x, 0.3)
            for name, compare in {
                "equals": torch.eq, "not_equals": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt,
                "ge": torch.ge,
            }.items()
        },
        "sum of rows": lambda x: x.sum(-1),
        "mean of rows": lambda x: x.mean(-1),
        "max of rows": lambda x: x.amax(-1),
        "min of rows": lambda x: x.amin(-1),
        "sum of columns": lambda x: x.sum((0, 1)),
        "argmax": lambda x: x.argmax(-1),
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "linear_gelu": lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
        "gelu": lambda x: F.gelu(x, approximate="tanh"),
        "matmul of heads": torch.bmm,
        "attention": _attention,
        "rope": _rope,
        "swiglu": _swiglu,
        "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b, EPS),
        "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, EPS),
        "add_layer_norm": lambda x, r, w, b: F.layer_norm(x + r, w.shape, w, b, EPS),
        "add_rms_norm": lambda x, r, w: F.rms_norm(x + r, w.shape, w, EPS),
        "linear_cross_entropy": lambda x, w, t: F.cross_entropy(F.linear(x, w), t),
        "add a row": torch.add,
        "add a number": lambda x: x + 0.7,
        "mul by a number": lambda x: x * 0.7,
        "div by a number": lambda x: x / 0.7,
        "number div": lambda x: 0.7 / x,
        "pow": lambda x: x**1.5,
        "clamp": lambda x: x.clamp(-1.0, 1.0),
        "dropout": lambda x: F.dropout(x, 0.1),
        "masked_fill": lambda x, mask: x.masked_fill(mask, -2.0),
        # Views there are copies here: both are to have memory of their own.
        "transpose": lambda x: x.transpose(1, 2).contiguous(),
        "permute": lambda x: x.permute(0, 2, 1, 3).contiguous(),
        "slice": lambda x: x[:, 1:, 2:].contiguous(),
        "expand": lambda x, shape: x.expand(shape).contiguous(),
        "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
        "split and concat": lambda x: torch.cat(x.split(x.shape[-1] // 3, -1)[::-1], -1),
        "gather": lambda x, index: x.gather(-1, index),
        "adamw": _adamw,
        "sgd": _sgd,
        "global norm": lambda x: torch.nn.utils.get_total_norm([x]),
        "all finite": lambda x: torch.isfinite(x).all(),
        "scale in place": _scale,
        "copy": lambda a, b: a.copy_(b),
        "accumulate": lambda a, b: b.add_(a, alpha=1e-6),
    }  # fmt: skip

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)

    def tensor(self, array: np.ndarray, gradient: bool) -> Tensor:
        return torch.from_numpy(array).clone().requires_grad_(gradient)

    def array(self, tensor: Tensor) -> np.ndarray:
        return tensor.detach().numpy()

    def no_grad(self) -> AbstractContextManager[Any]:
        return torch.no_grad()
