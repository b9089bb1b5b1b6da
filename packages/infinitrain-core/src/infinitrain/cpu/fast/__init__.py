"""The fast kernels of the CPU, compiled by Numba for float32: `pip install infinitrain-core[fast]`.

`KERNELS` says which file has which op. Nothing here imports Numba: the files are imported at first dispatch, and
compiled code is kept on disk, so that only the first run on a machine waits (`infinitrain warmup` does it ahead).
Without Numba, with INFINITRAIN_NUMBA=0, or where `SUPPORTS` declines a call, the NumPy kernels beside this folder run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from ...backend.kernels import register_kernel
from ...device import DeviceType
from ..threads import gemm_addresses

KERNELS: dict[str, str] = {
    "linear": "LinearForward LinearBackwardInput LinearBackwardWeight LinearBackwardBias LinearGeluForward",
    "embedding": "EmbeddingForward EmbeddingBackward",
    "optimizer": "AdamW SGD GlobalNorm AllFinite ScaleInPlace",
}
"""The ops of each file."""

DTYPES: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("LinearForward", "LinearBackwardInput", "LinearBackwardWeight", "LinearBackwardBias"),
    ("float32", "float64"),
)
"""The dtypes of kernels that are not for float32 alone."""


def _enough(tensors: Any, factor: float = 1.0) -> bool:
    return sum(t.numel for t in tensors) >= 1 << 15  # below, one call of NumPy is faster


SUPPORTS: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(("GlobalNorm", "AllFinite", "ScaleInPlace"), _enough),
    "EmbeddingForward": lambda index, weight: index.numel * weight.shape[1] >= 1 << 16,
    "LinearGeluForward": lambda x, weight, bias, approximate: approximate == "tanh",
}
"""Limits of kernels beyond dtypes: by the op's arguments, of which shapes, dtypes and attributes count."""


def _wanted() -> bool:
    return os.environ.get("INFINITRAIN_NUMBA", "1") != "0" and find_spec("numba") is not None


@cache
def enabled() -> bool:
    """Tell whether Numba and a BLAS that it can call are there and INFINITRAIN_NUMBA is not 0."""
    return _wanted() and gemm_addresses() is not None


def register() -> None:
    """Register the fast kernels, ahead of NumPy's; inside the CPU's ``register_kernels``."""
    if not _wanted():
        return
    for module, names in KERNELS.items():
        for name in names.split():
            limit = partial(_supported, SUPPORTS.get(name))
            path = f"{__name__}.{module}:{name}"
            register_kernel(DeviceType.CPU, name, path, dtypes=DTYPES.get(name, ("float32",)), supports=limit)


def _supported(limit: Callable[..., bool] | None, *args: Any) -> bool:
    return enabled() and (limit is None or limit(*args))
