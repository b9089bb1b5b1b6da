"""How many threads the CPU's kernels use, and that two pools of threads never fight for the cores.

With the fast kernels (`infinitrain.cpu.fast`) all parallel work is theirs: they split rows, columns or heads over
Numba's threads and call BLAS on one thread each, so that BLAS's own pool, whose threads spin while they wait, never
works. Without them, or without tbb, from which their threads come, the threads are BLAS's.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Any

from ..errors import InfiniTrainError

_LAYERS = ("tbb", "safe", "threadsafe", "forksafe")
"""Values of NUMBA_THREADING_LAYER that mean tbb."""
_VARIABLES = ("INFINITRAIN_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
MAX_THREADS = 1024
_AVX512 = ("SkylakeX", "Cooperlake", "Sapphirerapids")

count = 1
"""Parts that kernels of our own split large work into."""
_chosen: int | None = None


def get_num_threads() -> int:
    """Return how many threads one op on the CPU may use."""
    return _chosen or default_num_threads()


def set_num_threads(n: int) -> None:
    """Let ops on the CPU use ``n`` threads (1 to 1,024). Results' last bits may depend on it.

    The default is INFINITRAIN_NUM_THREADS, or OPENBLAS_NUM_THREADS, or OMP_NUM_THREADS, or the number of cores that
    this process may use. NumPy's own BLAS follows: one thread where the fast kernels split the work, else ``n``.
    """
    if hasattr(n, "__index__") and not isinstance(n, bool):
        n = n.__index__()  # NumPy's integers too
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MAX_THREADS:
        raise ValueError(f"set_num_threads: n is an int in 1 .. {MAX_THREADS}, got {n!r}")
    from . import fast

    global count, _chosen
    _chosen = n
    hidden = os.environ.get("INFINITRAIN_KERNELS", "explicit") != "explicit"  # the array layer alone
    count, blas = (1, n) if hidden or fast.unavailable() or not has_tbb() else (n, 1)
    for library in _blas():
        library.set_num_threads(blas)


def start() -> None:
    """Set the default number of threads, unless one was chosen: at the CPU's first use."""
    if _chosen is None:
        set_num_threads(default_num_threads())


def default_num_threads() -> int:
    """Return the number of threads that the environment asks for, else that of the cores this process may use."""
    for name in _VARIABLES:
        text = os.environ.get(name, "")
        if text.isdecimal() and 1 <= int(text) <= MAX_THREADS:
            return int(text)
        if text and name == _VARIABLES[0]:  # the others' may be lists
            raise InfiniTrainError(f"{name}={text!r}: a number of threads, 1 .. {MAX_THREADS}")
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


@cache
def has_tbb() -> bool:
    """Load the tbb wheel's library, which the loader does not find in an environment that is not activated."""
    if os.environ.get("NUMBA_THREADING_LAYER", "tbb") not in _LAYERS:
        return True  # the user's choice
    from importlib import metadata  # not light

    names: tuple[str, ...] = ("libtbb.so.12", "libtbb.12.dylib", "tbb12.dll")
    with suppress(metadata.PackageNotFoundError):
        files = metadata.files("tbb") or ()
        names = (*[str(file.locate()) for file in files if file.name in names], *names)
    for path in names:
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return True
    return False


@cache
def _blas() -> list[Any]:
    """Return threadpoolctl's controllers of the BLAS libraries loaded, NumPy's among them."""
    from threadpoolctl import ThreadpoolController

    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


@cache
def has_small_kernels() -> bool:
    """Tell whether BLAS has kernels for small products, which need no packing: OpenBLAS with AVX-512."""
    return any(getattr(library, "architecture", None) in _AVX512 for library in _blas())


@cache
def gemm_addresses() -> tuple[int, int] | None:
    """Return where cblas_sgemm and cblas_dgemm with 64-bit sizes are in NumPy's OpenBLAS; None with any other BLAS."""
    for library in _blas():
        handle = ctypes.CDLL(library.filepath)
        for name in ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_"):
            found: list[Any] = [getattr(handle, name.format(kind), None) for kind in "sd"]
            if None not in found:
                single, double = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in found)
                return single, double
    return None
