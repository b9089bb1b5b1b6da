"""Settings that are no numbers, or out of range, are refused by an error that names owner, setting and value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, optim

NO_NUMBER = ["x", None, [1.0], (0.5, 0.5), 1j, np.ones(2)]


def parameter() -> Any:
    return nn.Parameter(it.ones(3))


@pytest.mark.parametrize("setting", ["lr", "eps", "weight_decay"])
@pytest.mark.parametrize("wrong", [*NO_NUMBER, math.nan, math.inf, -1.0])
def test_adamw(setting: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^AdamW: {setting} is .*got"):
        optim.AdamW([parameter()], **{setting: wrong})


@pytest.mark.parametrize(
    "wrong", ["x", None, 0.9, (0.9,), (0.9, 1.0), (math.nan, 0.9), (0.9, "x"), (-0.1, 0.9)]
)
def test_betas(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^AdamW: (a beta|betas) (is|are) .*got"):
        optim.AdamW([parameter()], betas=wrong)


@pytest.mark.parametrize("setting", ["lr", "momentum", "dampening", "weight_decay"])
@pytest.mark.parametrize("wrong", [*NO_NUMBER, math.nan, math.inf, -1.0])
def test_sgd(setting: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^SGD: {setting} is .*got"):
        optim.SGD([parameter()], **{"lr": 0.1, setting: wrong})


@pytest.mark.parametrize("setting", ["init_scale", "growth_factor", "backoff_factor", "growth_interval"])
@pytest.mark.parametrize("wrong", [*NO_NUMBER, math.nan, -1.0])
def test_scaler(setting: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^GradScaler: {setting} is .*got"):
        optim.GradScaler(**{setting: wrong})


@pytest.mark.parametrize("wrong", [*NO_NUMBER, math.nan, -1.0, 0.0])
def test_clip(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^clip_grad_norm: max_norm is .*got"):
        optim.clip_grad_norm([parameter()], wrong)


@pytest.mark.parametrize("wrong", [None, 1.0, object()])
def test_no_parameters(wrong: Any) -> None:
    for call in (optim.clip_grad_norm, optim.AdamW, lambda p: optim.SGD(p, lr=0.1)):
        with pytest.raises(TypeError, match="params is an iterable of Parameters, got"):
            call(wrong)


def test_tensors_are_no_parameters() -> None:
    x = it.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"params are Parameters, .* got Tensor"):
        optim.clip_grad_norm([x])
