"""Gradients by central differences, of which no oracle knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def slope(
    f: Callable[[np.ndarray], Any], x: np.ndarray, grad: np.ndarray | float = 1.0, step: float = 1e-6
) -> np.ndarray:
    """Return the gradient of sum(f(x) * grad); f may return a number."""
    found = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = np.sum((f(up) - f(down)) * grad) / (2 * step)
    return found
