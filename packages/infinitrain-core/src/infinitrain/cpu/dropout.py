"""CPU kernels of dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..masks import dropout_mask
from .select import keep


def DropoutForward(x: Any, p: float, key: int, step: int, first_sample: int, *, out: Any) -> None:
    mask = dropout_mask(x.shape, p, key, step, first_sample)
    np.multiply(x.array, 1.0 / (1.0 - p) if p < 1 else 0.0, out=out.array)
    keep(out.array, mask, out.array)


def DropoutBackward(grad: Any, p: float, key: int, step: int, first_sample: int, *, out: Any) -> None:
    DropoutForward(grad, p, key, step, first_sample, out=out)
