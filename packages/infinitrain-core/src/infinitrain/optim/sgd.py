"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import ops
from ..tensor import Tensor
from .adamw import require
from .optimizer import Optimizer


class SGD(Optimizer):
    """p -= lr d, where g += wd p; without momentum d = g; with momentum mu

    b = g in a parameter's first step, later mu b + (1 - dampening) g;  d = g + mu b with ``nesterov``, else b
    (Sutskever et al., 2013, in the form that PyTorch uses).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        flat: bool = True,
        master_weights: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults, flat=flat, master_weights=master_weights)

    def check(self, settings: Mapping[str, Any]) -> None:
        for name in ("lr", "dampening", "weight_decay"):
            require("SGD", name, settings[name])
        momentum = settings["momentum"]
        require("SGD", "momentum", momentum, lambda m: 0 <= m < 1, "in 0 .. 1, without 1")
        if settings["nesterov"] and not (momentum and not settings["dampening"]):
            raise ValueError("SGD: nesterov needs momentum above 0 and no dampening")

    def active_slots(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum",) if group["momentum"] else ()

    def update(
        self,
        group: dict[str, Any],
        step: int,
        params: list[Tensor],
        grads: list[Tensor],
        state: dict[str, list[Tensor]],
    ) -> None:
        momenta = state.get("momentum", ())
        settings = [group[name] for name in ("lr", "momentum", "dampening", "weight_decay", "nesterov")]
        ops.SGD(params, grads, momenta, *settings, step == 1)
