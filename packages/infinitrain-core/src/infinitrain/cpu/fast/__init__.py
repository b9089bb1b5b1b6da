"""The fast kernels of the CPU, compiled by Numba for float32: `pip install infinitrain-core[fast]`.

`KERNELS` says which file has which op. Nothing here imports Numba: the files are imported at first dispatch, and
compiled code is kept on disk, so that only the first run on a machine waits (`infinitrain warmup` does it ahead).
Without Numba, with INFINITRAIN_NUMBA=0, or where `SUPPORTS` declines a call, the NumPy kernels beside this folder run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from math import inf, prod
from typing import Any

from ...backend.kernels import register_kernel
from ...backend.optable import broadcast_shapes
from ...device import DeviceType
from ...dtype import HALF, bfloat16, float16, float32
from .. import threads

KERNELS: dict[str, str] = {
    "attention": "AttentionForward AttentionBackward",
    "linear": "LinearForward LinearBackwardInput LinearBackwardWeight LinearBackwardBias LinearGeluForward",
    "linear_backward": "LinearBackward",
    "loss": "CrossEntropyForward CrossEntropyBackward CrossEntropyBackwardInPlace",
    "linear_loss": "LinearCrossEntropyForward LinearCrossEntropyBackward",
    "embedding": "EmbeddingForward EmbeddingBackward",
    "matmul": "MatmulForward MatmulBackwardInput MatmulBackwardOther Gemm",
    "optimizer": "AdamW SGD GlobalNorm AllFinite ScaleInPlace",
    "norm": "LayerNormForward LayerNormBackward AddLayerNormForward AddLayerNormBackward "
    "RmsNormForward RmsNormBackward AddRmsNormForward AddRmsNormBackward",
    "activation": "GeluForward GeluBackward SiluForward SiluBackward ReluForward ReluBackward "
    "SigmoidForward SigmoidBackward TanhBackward",
    "gated": "SwigluForward SwigluBackward",
    "elementwise": "AddForward MulForward MulBackward AccumulateGrad",
    "dropout": "DropoutForward DropoutBackward",
    "casts": "Cast",
    "rope": "RopeForward RopeBackward",
    "softmax": "SoftmaxForward SoftmaxBackward LogSoftmaxForward LogSoftmaxBackward",
}
"""The ops of each file."""

DTYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "LinearForward", "LinearBackwardInput", "LinearBackwardWeight", "LinearBackwardBias", "LinearBackward",
            "MatmulForward", "MatmulBackwardInput", "MatmulBackwardOther", "Gemm",
        ),
        ("float32", "float64"),
    ),
    "Cast": ("float32", "bfloat16", "float16"),
}  # fmt: skip
"""The dtypes of kernels that are not for float32 alone."""
LARGE = 1 << 21
"""Multiplications and additions of a product of matrices that is worth threads: about 40 us on one."""


def _products(a: Any, b: Any) -> int:
    return prod(broadcast_shapes(a.shape[:-2], b.shape[:-2])) * prod(a.shape[-2:]) * b.shape[-1]


def _enough(tensors: Any, factor: float = 1.0) -> bool:
    return sum(t.numel for t in tensors) >= 1 << 15  # below, one call of NumPy is faster


def _combines(a: Any, b: Any) -> bool:
    """Tell whether one pass over a and b on threads beats NumPy's: equal shapes, or a trailing part of one."""
    whole, row = (b, a) if a.numel < b.numel else (a, b)
    if whole.numel == row.numel:
        return bool(whole.numel >= 1 << 18 and whole.shape == row.shape)  # NumPy is as fast on one thread
    return bool(whole.numel >= 1 << 14 and row.numel >= 64 and whole.shape[-row.ndim :] == row.shape)


def _casts(x: Any, dtype: Any) -> bool:
    if dtype is float32:
        enough = {float16: 1 << 11, bfloat16: 1 << 20}  # of bfloat16, NumPy's is as fast on one thread
        return bool(x.numel >= enough.get(x.dtype, inf))
    return bool(x.dtype is float32 and dtype in HALF and x.numel >= 1 << 12)


def _not_smoothed(*args: Any) -> bool:
    return bool(args[-2] == 0)  # label_smoothing, before reduction


SUPPORTS: dict[str, Callable[..., bool]] = {
    **dict.fromkeys(f"{KERNELS['loss']} {KERNELS['linear_loss']}".split(), _not_smoothed),
    **dict.fromkeys(("GlobalNorm", "AllFinite", "ScaleInPlace"), _enough),
    "EmbeddingForward": lambda index, weight: index.numel * weight.shape[1] >= 1 << 16,
    "MatmulForward": lambda a, b: _products(a, b) >= LARGE,
    "MatmulBackwardInput": lambda b, grad, shape: grad.numel * b.shape[-2] >= LARGE,
    "MatmulBackwardOther": lambda a, grad, shape: grad.numel * a.shape[-1] >= LARGE,
    "Gemm": lambda a, b, c, alpha, beta, ta, tb: (
        a.dtype is c.dtype and c.numel * a.shape[-2 if ta else -1] >= LARGE
    ),
    # Else a product with one row, which NumPy has BLAS's matrix times vector for, would be ten times slower.
    "LinearForward": lambda x, weight, bias: x.numel > weight.shape[1] or threads.has_small_kernels(),
    **dict.fromkeys(("AddForward", "MulForward"), _combines),
    "MulBackward": lambda grad, a, b: _combines(a, b),
    "AccumulateGrad": lambda grad, rate, tensor: tensor.numel >= 1 << 18,  # as _combines
    "Cast": _casts,
    "ReluForward": lambda x: x.numel >= 1 << 11,  # below, one call of NumPy is faster
    **dict.fromkeys(("SoftmaxForward", "LogSoftmaxForward"), lambda x, axis: axis == x.ndim - 1),
    **dict.fromkeys(("SoftmaxBackward", "LogSoftmaxBackward"), lambda grad, y, axis: axis == y.ndim - 1),
    "LinearGeluForward": lambda x, weight, bias, approximate: approximate == "tanh",
}
"""Limits of kernels beyond dtypes: by the op's arguments, of which shapes, dtypes and attributes count."""


_problem = ""
"""Why Numba, which is installed, does not import; known once it was tried."""


def unavailable() -> str:
    """Return why there are no fast kernels and what to do about it; "" when there are, or Numba was not tried yet."""
    return _problem or _missing()


@cache
def _missing() -> str:
    if os.environ.get("INFINITRAIN_NUMBA", "1") == "0":
        return "INFINITRAIN_NUMBA=0 turns the fast kernels off; unset it"
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return "NUMBA_DISABLE_JIT turns Numba off; unset it"
    if find_spec("numba") is None:
        return 'the fast kernels need Numba: pip install "infinitrain-core[fast]"'
    if threads.gemm_addresses() is None:
        return "the fast kernels need the OpenBLAS of NumPy's own wheels: pip install numpy"
    return ""


@cache
def load() -> bool:
    """Import Numba, before the first fast kernel; tell whether the fast kernels run."""
    global _problem
    if unavailable():
        return False
    try:
        import_module(f"{__name__}.jit")
    except Exception as error:  # ImportError: a NumPy that is too new for it, and whatever else is broken
        _problem = (
            f"the fast kernels need Numba, which does not import here ({error}): pip install --upgrade numba"
        )
        warnings.warn(_problem, stacklevel=2)
        threads.set_num_threads(threads.get_num_threads())  # BLAS takes them back
        return False
    return True


def load_all() -> None:
    """Import every file of kernels."""
    for module in KERNELS:
        import_module(f"{__name__}.{module}")


def register() -> None:
    """Register the fast kernels, ahead of NumPy's; inside the CPU's ``register_kernels``."""
    if os.environ.get("INFINITRAIN_NUMBA", "1") == "0" or find_spec("numba") is None:
        return
    for module, names in KERNELS.items():
        for name in names.split():
            limit = partial(_supported, SUPPORTS.get(name))
            path = f"{__name__}.{module}:{name}"
            register_kernel(DeviceType.CPU, name, path, dtypes=DTYPES.get(name, ("float32",)), supports=limit)


def _supported(limit: Callable[..., bool] | None, *args: Any) -> bool:
    return load() and (limit is None or limit(*args))
