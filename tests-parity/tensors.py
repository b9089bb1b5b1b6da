"""The same values as tensors of either framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import infinitrain as it


def pair(values: np.ndarray, dtype: str) -> tuple[it.Tensor, torch.Tensor]:
    """Return ``values``, rounded to ``dtype`` if they are floats, as two leaves; float leaves want gradients."""
    theirs = torch.tensor(values)
    if theirs.is_floating_point():
        theirs = theirs.to(getattr(torch, dtype)).requires_grad_()
    return ours(theirs), theirs


def ours(x: torch.Tensor) -> it.Tensor:
    """Return our leaf with the values and the dtype of ``x``."""
    if x.dtype == torch.bfloat16:
        made = it.from_numpy(x.detach().float().numpy()).astype("bfloat16")
    else:
        made = it.from_numpy(x.detach().numpy().copy())
    made.requires_grad = x.requires_grad
    return made


def theirs(x: it.Tensor) -> torch.Tensor:
    """Return PyTorch's leaf with the values and the dtype of ``x``."""
    if x.dtype is it.bfloat16:
        return torch.tensor(x.float().numpy()).bfloat16()
    return torch.tensor(x.numpy())


def exact(x: torch.Tensor) -> torch.Tensor:
    """Return a leaf with the values of ``x``, floats as float64."""
    return x.detach().double().requires_grad_() if x.is_floating_point() else x


def dtype_of(x: Any) -> str:
    """Return the name of either framework's dtype."""
    return str(x.dtype).removeprefix("torch.")


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return one result or several as a tuple."""
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def send_back(rng: np.random.Generator, *results: Any) -> None:
    """Run backward of one result computed by us, by PyTorch, and by PyTorch in float64, with the same gradient."""
    first = results[1]
    weights = torch.tensor(rng.normal(0.3, 1, first.shape)).to(first.dtype)
    for result in results:
        if isinstance(result, it.Tensor):
            result.backward(ours(weights).astype(result.dtype).detach(), retain_graph=True)
        else:
            result.backward(weights.to(result.dtype), retain_graph=True)
