"""CPU kernels of logic on bools."""

from __future__ import annotations

from typing import Any

import numpy as np


def AndForward(a: Any, b: Any, *, out: Any) -> None:
    np.logical_and(a.array, b.array, out.array)


def OrForward(a: Any, b: Any, *, out: Any) -> None:
    np.logical_or(a.array, b.array, out.array)


def NotForward(x: Any, *, out: Any) -> None:
    np.logical_not(x.array, out.array)
