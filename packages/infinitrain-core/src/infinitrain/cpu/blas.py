"""Products of matrices for NumPy's kernels: large ones on the fast kernels' threads, if those are there."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fast

_DTYPES = np.dtype(np.float32), np.dtype(np.float64)


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """Return a b as np.matmul does, which has one core where the fast kernels are on."""
    large = min(a.ndim, b.ndim) >= 2 and a.size * b.shape[-1] >= fast.LARGE
    if not large or a.dtype != b.dtype or a.dtype not in _DTYPES or not fast.load():
        return np.matmul(a, b, out)
    from .fast.matmul import product

    return product(a, b, out)
