"""Optimizer steps, and what is asked of all gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .want import Array, Want, plain


def adamw(p: Array, g: Array, m: Array, v: Array, h: dict[str, Any]) -> tuple[Want, Want, Want]:
    """Return the new p, m, v."""
    b1, b2, t = h["beta1"], h["beta2"], h["step"]
    new_m, new_v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    size_m, size_v = b1 * np.abs(m) + (1 - b1) * np.abs(g), new_v
    root = np.sqrt(new_v / (1 - b2**t)) + h["eps"]
    new_p = p * (1 - h["lr"] * h["weight_decay"]) - h["lr"] * (new_m / (1 - b1**t)) / root
    # 1 - beta^t is known to a unit of 1, which a small t magnifies.
    unsure = 1.0 + 1.0 / (1 - b1**t) + 1.0 / (1 - b2**t) if t < 1000 else 3.0
    size_p = np.abs(p) + h["lr"] * (size_m / (1 - b1**t)) / root * unsure
    return Want(new_p, size_p), Want(new_m, size_m), Want(new_v, size_v)


def sgd(p: Array, g: Array, b: Array | None, h: dict[str, Any]) -> tuple[Want, Want | None]:
    """Return the new p and momentum."""
    decay = h["weight_decay"] * p if h["weight_decay"] else np.zeros_like(p)  # no decay, whatever p is
    step, size = g + decay, np.abs(g) + np.abs(decay)
    new_b: Want | None = None
    if b is not None:
        if not h["first"]:
            damp = 1 - h["dampening"]
            b_value, b_size = h["momentum"] * b + damp * step, h["momentum"] * np.abs(b) + damp * size
        else:
            b_value, b_size = step, size
        new_b = Want(b_value, b_size)
        if h["nesterov"]:
            step, size = step + h["momentum"] * b_value, size + h["momentum"] * b_size
        else:
            step, size = b_value, b_size
    return Want(p - h["lr"] * step, np.abs(p) + h["lr"] * size), new_b


def global_norm(tensors: tuple[Array, ...]) -> dict[str, Want]:
    """Return the norm of everything, from elements divided by the largest: their squares stay in range."""
    elements = np.concatenate([t.reshape(-1) for t in tensors])
    top = np.abs(elements).max(initial=0.0)
    norm = np.asarray(top * np.sqrt(((elements / top) ** 2).sum()) if 0 < top < np.inf else top)
    return {"norm": Want(norm, norm, elements.size)}


def all_finite(tensors: tuple[Array, ...]) -> dict[str, Want]:
    """Return 1 when no element is infinite or NaN, else 0."""
    return {"finite": plain(np.asarray(float(all((np.abs(t) < np.inf).all() for t in tensors))))}
