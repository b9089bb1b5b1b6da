"""Check of a backward against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd.grad_mode import no_grad
from .creation import from_numpy
from .dtype import float64
from .errors import AutogradError, DtypeError
from .tensor import Tensor


class GradcheckError(AutogradError):
    """A gradient disagrees: ``argument`` and ``position`` say where, ``got`` and ``expected`` how much."""


def gradcheck(
    fn: Callable[..., Any],
    *args: Any,
    eps: float = 1e-5,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    seed: int = 0,
) -> None:
    """Compare the gradients of ``fn`` at float64 tensors with central differences. Raises GradcheckError.

    fn takes ``args`` and returns a tensor or a tuple of tensors. Every argument that is a tensor and requires
    grad is checked, element by element; the others are passed on. With a random upstream gradient u, drawn
    from ``seed``, d(u·fn)/dx is estimated by (u·fn(x + eps) - u·fn(x - eps)) / (2 eps); its error is about
    eps² times fn's third derivative, so choose inputs away from kinks and poles. A gradient g passes within
    atol + rtol |g|.
    """
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise AutogradError("gradcheck: no argument requires grad")
    for i in checked:
        if args[i].dtype is not float64:
            raise DtypeError(f"gradcheck: argument {i} is {args[i].dtype}; differences need float64")

    leaves = [_leaf(a.numpy(), a) if i in checked else a for i, a in enumerate(args)]  # args' own grads stay
    results = _tensors(fn(*leaves))
    chosen = [k for k, r in enumerate(results) if r.requires_grad]
    if not chosen:
        raise AutogradError("gradcheck: no result depends on the arguments that require grad")
    rng = np.random.default_rng(seed)
    upstream = [rng.standard_normal(results[k].shape) for k in chosen]
    for k, u in zip(chosen, upstream, strict=True):
        results[k].backward(from_numpy(u, results[k].device), retain_graph=True)

    def evaluate(index: int, changed: np.ndarray) -> float:
        with no_grad():
            found = _tensors(fn(*[_leaf(changed, a) if i == index else a for i, a in enumerate(args)]))
        return sum(float(np.sum(u * found[k].numpy())) for k, u in zip(chosen, upstream, strict=True))

    for i in checked:
        value = args[i].numpy()
        grad = leaves[i].grad
        gradient = np.zeros(value.shape) if grad is None else grad.numpy()
        for position in np.ndindex(value.shape):
            up, down = value.copy(), value.copy()
            up[position] += eps
            down[position] -= eps
            expected = (evaluate(i, up) - evaluate(i, down)) / (2 * eps)
            _compare(i, position, value, float(gradient[position]), expected, atol, rtol)


def _compare(
    argument: int,
    position: tuple[int, ...],
    value: np.ndarray,
    got: float,
    expected: float,
    atol: float,
    rtol: float,
) -> None:
    allowed = atol + rtol * abs(got)
    if not abs(got - expected) <= allowed:  # so that NaN fails
        raise GradcheckError(
            f"gradcheck: argument {argument} of shape {list(value.shape)} at {list(position)}, where it is "
            f"{value[position]:.6g}: backward gives {got:.9g}, central differences {expected:.9g}, "
            f"at most {allowed:.2g} apart allowed",
            argument=argument,
            position=position,
            got=got,
            expected=expected,
        )


def _leaf(value: np.ndarray, like: Tensor) -> Tensor:
    return from_numpy(value, like.device, requires_grad=True)


def _tensors(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)
