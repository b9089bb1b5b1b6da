"""Rows of the op table that no function of infinitrain.ops is named after: optimizers, sums in place, parallel losses.

They record nothing, so that PyTorch's side is detached; what they change in place is a copy, and a result.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import infinitrain as it
from infinitrain import ops

from .case import Case, Maker, normal, positive, whole

_ADAM = {"lr": 0.03, "beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.2, "step": 3}
_SGD = {"lr": 0.03, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.2}


def _wide(x: Any) -> Any:
    """Return a copy without a graph, in float32 if x is of half precision: the dtype of an optimizer's state."""
    x = x.detach().clone()
    return x.float() if x.dtype.itemsize == 2 else x


def _copies(*tensors: Any) -> list[Any]:
    return [x.detach().clone() for x in tensors]


def _our_adam(f: Any, p: Any, q: Any, g: Any, h: Any, m: Any, n: Any, v: Any, w: Any) -> Any:
    params, state = _copies(p, q), [_wide(x) for x in (m, n, v, w)]
    f(params, [g, h], state[:2], state[2:], **_ADAM)
    return (*params, *state)


def _adam(p: Any, q: Any, g: Any, h: Any, m: Any, n: Any, v: Any, w: Any) -> Any:
    params, grads, state = [_wide(p), _wide(q)], [_wide(g), _wide(h)], [_wide(x) for x in (m, n, v, w)]
    settings = {k: _ADAM[k] for k in ("lr", "eps", "weight_decay")}
    optimizer = torch.optim.AdamW(params, betas=(_ADAM["beta1"], _ADAM["beta2"]), **settings)
    for i, (x, grad) in enumerate(zip(params, grads, strict=True)):
        x.grad = grad
        step = torch.tensor(float(_ADAM["step"] - 1))
        optimizer.state[x] = {"step": step, "exp_avg": state[i], "exp_avg_sq": state[i + 2]}
    optimizer.step()
    return (*[x.to(p.dtype) for x in params], *state)


def _our_sgd(f: Any, p: Any, g: Any, b: Any, nesterov: bool, first: bool) -> Any:
    (p,), b = _copies(p), _wide(b)
    f([p], [g], [b], **_SGD, nesterov=nesterov, first=first)
    return p, b


def _sgd(p: Any, g: Any, b: Any, nesterov: bool, first: bool) -> Any:
    x, state = _wide(p), _wide(b)
    x.grad = _wide(g)
    settings = {**_SGD, "dampening": 0.0 if nesterov else _SGD["dampening"]}
    optimizer = torch.optim.SGD([x], nesterov=nesterov, **settings)
    if not first:
        optimizer.state[x] = {"momentum_buffer": state}
    optimizer.step()
    return x.to(p.dtype), optimizer.state[x]["momentum_buffer"]


def _in_place(f: Any, x: Any, *args: Any, at: int = 0) -> Any:
    """Return a copy of x that the row changed, x being its parameter number ``at``."""
    (x,) = _copies(x)
    f(*args[:at], x, *args[at:])
    return x


def _vocab_parallel(f: Any, logits: Any, target: Any, cut: int, classes: int) -> Any:
    """Return the losses of a vocabulary on two ranks, from what each computes of its own."""
    parts = ops.split(logits.detach(), [cut, logits.shape[-1] - cut], -1)
    found = [f(part, target, first, classes) for part, first in zip(parts, (0, cut), strict=True)]
    (peak, total, picked, _), (peak2, total2, picked2, _) = found
    top = ops.maximum(peak, peak2)
    lse = top + ops.log(total * ops.exp(peak - top) + total2 * ops.exp(peak2 - top))
    return lse - (picked + picked2)


def _losses(logits: torch.Tensor, target: torch.Tensor, classes: int) -> torch.Tensor:
    return F.cross_entropy(_wide(logits)[..., :classes], target, reduction="none")


def _vocab_gradient(f: Any, grad: Any, logits: Any, target: Any, known: int, smoothing: float) -> Any:
    n = logits.shape[-1]
    valid = ops.lt(it.arange(n), known)
    kept = ops.where(valid, logits.detach(), -1e30 if logits.dtype.itemsize > 2 else -6e4)
    nowhere = ops.equals(target, -1)
    return f(grad.detach(), ops.softmax(kept), nowhere, target, valid, n, known, smoothing)


def _loss_gradient(
    grad: torch.Tensor, logits: torch.Tensor, target: torch.Tensor, known: int, s: float
) -> Any:
    x = logits.detach().clone().requires_grad_()
    losses = F.cross_entropy(x[..., :known], target, reduction="none", label_smoothing=s)
    return torch.autograd.grad(losses, x, grad.detach())[0]


def _gemm(about: str, a: Maker, b: Maker, beta: float, *transposed: bool) -> Case:
    def theirs(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a, b = (x.mT if swap else x for x, swap in zip((a, b), transposed, strict=True))
        return torch.baddbmm(c, a, b, alpha=0.7, beta=beta).detach()

    return Case(
        *("Gemm", about, lambda f, a, b, c: _in_place(f, c, a, b, 0.7, beta, *transposed, at=2), theirs),
        (a, b, normal(2, 3, 5)),
    )


CASES = [
    Case(
        *("AdamW", "two parameters", _our_adam, _adam),
        tuple(make(*shape) for make in (normal, normal, normal, positive) for shape in ((3, 5), (7,))),
    ),
    *[
        Case(
            *("SGD", about, lambda f, *x, n=nesterov, first=first: _our_sgd(f, *x, n, first)),
            lambda *x, n=nesterov, first=first: _sgd(*x, n, first),
            (normal(3, 5), normal(3, 5), normal(3, 5)),
        )
        for about, nesterov, first in (("momentum", False, False), ("first step", False, True))
    ],
    Case(
        *("GlobalNorm", "", lambda f, *x: f([y.detach() for y in x])),
        lambda *x: torch.nn.utils.get_total_norm([_wide(y) for y in x]),
        (normal(3, 5), normal(400, scale=30)),
    ),
    Case(
        *("AllFinite", "", lambda f, *x: f([y.detach() for y in x])),
        lambda *x: torch.stack([y.isfinite().all() for y in x]).all(),
        (normal(3, 5), normal(4)),
    ),
    Case(
        *("ScaleInPlace", "", lambda f, x: _in_place(lambda y: f([y], 0.3), x)),
        lambda x: x.detach() * 0.3,
        (normal(3, 5),),
    ),
    Case("Fill", "", lambda f, x: _in_place(f, x, 2.3), lambda x: torch.full_like(x, 2.3), (normal(3, 5),)),
    Case("Copy", "", _in_place, lambda x, y: y.detach(), (normal(3, 5), normal(3, 5))),
    Case(
        *("AccumulateGrad", "", lambda f, x, y: _in_place(f, x, y.detach(), -0.7, at=2)),
        lambda x, y: x.detach().add(y.detach(), alpha=-0.7),
        (normal(3, 5), normal(3, 5)),
    ),
    _gemm("plain", normal(2, 3, 4), normal(2, 4, 5), 0.4, False, False),
    _gemm("first transposed", normal(2, 4, 3), normal(2, 4, 5), 1.0, True, False),
    _gemm("both transposed", normal(2, 4, 3), normal(2, 5, 4), 0.0, True, True),
    Case(
        *("VocabParallelCrossEntropyForward", "", lambda f, x, y: _vocab_parallel(f, x, y, 7, 11)),
        lambda x, y: _losses(x, y, 11),
        (normal(9, 13, scale=3), whole(0, 11, 9)),
    ),
    Case(
        *("VocabParallelCrossEntropyBackward", "", lambda f, g, x, y: _vocab_gradient(f, g, x, y, 11, 0.2)),
        lambda g, x, y: _loss_gradient(g, x, y, 11, 0.2),
        (normal(9), normal(9, 13), whole(0, 11, 9)),
    ),
]
