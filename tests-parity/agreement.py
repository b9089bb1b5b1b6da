"""The measure of agreement, norm(ours - theirs) / norm(theirs), and a record of the worst one met."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch

import infinitrain as it

torch.set_num_threads(1)  # most tensors are so small that threads wait for each other

_worst: dict[str, tuple[float, str]] = {}


def array(value: Any) -> np.ndarray:
    """Return a tensor of either framework, an array or a number as float64 (or as it is, unless floating)."""
    if isinstance(value, torch.Tensor):
        value = value.detach()
        value = (value.double() if value.is_floating_point() else value).numpy()
    elif isinstance(value, it.Tensor):
        value = value.numpy()
        value = value.astype(np.float64) if value.dtype.kind not in "biu" else value
    return np.asarray(value)


def ratio(ours: Any, theirs: Any) -> float:
    """Return norm(ours - theirs) / norm(theirs), in float64; 0 for equal zeros, and for NaN beside NaN.

    Shapes must be equal.
    """
    a, b = array(ours), array(theirs)
    assert a.shape == b.shape, f"shape {a.shape}, theirs {b.shape}"
    numbers = ~(np.isnan(a) & np.isnan(b))
    a, b = a[numbers], b[numbers]
    difference = float(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64)))
    size = float(np.linalg.norm(b.astype(np.float64)))
    return difference / size if size else (inf if difference else 0.0)


def assert_agree(group: str, what: str, ours: Any, theirs: Any, tolerance: float) -> None:
    """Fail unless the ratio is at most ``tolerance`` (NaN is not); remember the worst of the group."""
    measured = ratio(ours, theirs)
    note(group, what, measured)
    assert measured <= tolerance, (
        f"{group}, {what}: norm(ours - theirs)/norm(theirs) = {measured:.3g} > {tolerance:g}\n"
        f"ours   {array(ours).reshape(-1)[:6]}\ntheirs {array(theirs).reshape(-1)[:6]}"
    )


def note(group: str, what: str, measured: float) -> None:
    """Remember the worst of the group."""
    if not measured <= _worst.get(group, (-1.0, ""))[0]:
        _worst[group] = measured, what


def worst_by_group() -> dict[str, tuple[float, str]]:
    """Return group -> (worst ratio, of what), in order of first use."""
    return dict(_worst)
