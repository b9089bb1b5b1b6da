"""AdamW, and the usual choice of what decays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, ClassVar

from .. import ops
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .optimizer import Optimizer


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019); without decay it is Adam (Kingma and
    Ba, 2015).

    m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g²;  p = p (1 - lr wd) - lr (m / (1 - b1ᵗ)) / (sqrt(v / (1 -
    b2ᵗ)) + eps)

    t counts the steps of each parameter. ``weight_decay`` holds for every parameter of a group;
    ``decay_groups`` leaves out biases and norms.
    """

    slots: ClassVar[tuple[str, ...]] = ("m", "v")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        flat: bool = True,
        master_weights: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults, flat=flat, master_weights=master_weights)

    def check(self, settings: Mapping[str, Any]) -> None:
        require("AdamW", "lr", settings["lr"])
        betas = settings["betas"]
        if not isinstance(betas, list | tuple) or len(betas) != 2:
            raise TypeError(f"AdamW: betas are two numbers, got {betas!r:.60}")
        for beta in betas:
            require("AdamW", "a beta", beta, lambda b: 0 <= b < 1, "in 0 .. 1, without 1")
        require("AdamW", "eps", settings["eps"], lambda e: e > 0, "above 0")
        require("AdamW", "weight_decay", settings["weight_decay"])

    def update(
        self,
        group: dict[str, Any],
        step: int,
        params: list[Tensor],
        grads: list[Tensor],
        state: dict[str, list[Tensor]],
    ) -> None:
        beta1, beta2 = group["betas"]
        ops.AdamW(
            params, grads, state["m"], state["v"],
            group["lr"], beta1, beta2, group["eps"], group["weight_decay"], step,
        )  # fmt: skip


def decay_groups(named: Iterable[tuple[str, Parameter]], weight_decay: float) -> list[dict[str, Any]]:
    """Return groups in which only parameters of two or more dimensions decay: no biases, no norms."""
    entries = list(named)
    if not weight_decay:
        return [{"params": entries}]
    matrices = [(name, p) for name, p in entries if p.ndim >= 2]
    vectors = [(name, p) for name, p in entries if p.ndim < 2]
    groups = [(matrices, weight_decay), (vectors, 0.0)]
    return [{"params": chosen, "weight_decay": decay} for chosen, decay in groups if chosen]


def require(
    owner: str,
    what: str,
    value: Any,
    holds: Callable[[float], bool] = lambda number: number >= 0,
    condition: str = "at least 0",
) -> None:
    """Raise ValueError unless ``value`` is finite and ``holds``, TypeError when it is no number."""
    number = ops.real(f"{owner}: {what}", value)
    if not (isfinite(number) and holds(number)):
        raise ValueError(f"{owner}: {what} is {condition}, got {value}")
