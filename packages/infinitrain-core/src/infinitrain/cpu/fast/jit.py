"""Numba as the kernels use it: options, threads, a message while it compiles, and NumPy's own BLAS under a name.

A kernel has three layers: a plain function under the op's name, which hands arrays over; a `parallel` one that splits
the work into ``nt`` parts (one part runs without a thread); and `serial` ones that work on a part. Loops index rows
that were taken as views before, have no branches inside, and write exp as a polynomial, or LLVM would not vectorise
them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from .. import threads

LAYERS = ("tbb", "safe", "threadsafe", "forksafe")


def _load_tbb() -> bool:
    """Load the tbb wheel's library, which the loader does not find in an environment that is not activated."""
    if os.environ.get("NUMBA_THREADING_LAYER", "tbb") not in LAYERS:
        return True  # the user's choice
    for folder in (Path(sys.prefix, "lib"), Path(sys.base_prefix, "lib"), Path(sys.prefix, "Library", "bin")):
        for name in ("libtbb.so.12", "libtbb.12.dylib", "tbb12.dll"):
            try:
                ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
            return True
    try:
        ctypes.CDLL("libtbb.so.12", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


HAS_TBB = _load_tbb()

import numba  # noqa: E402 - after the library that its threads come from
from numba.core import caching, event  # noqa: E402

if "NUMBA_THREADING_LAYER" not in os.environ:
    # The layer that survives threads and fork beside BLAS (docs/experiments.md).
    setattr(numba.config, "THREADING_LAYER", "tbb")  # noqa: B010 - a name that Numba sets by itself

# Sums may be reordered and products fused with sums; NaN, infinities and the sign of zero keep their meaning.
_MATH = {"reassoc", "contract", "arcp"}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": _MATH}
# Only loops over prange are parallel: Numba would also split array expressions.
_ONLY_PRANGE = {
    "prange": True, "comprehension": False, "reduction": False, "inplace_binop": False, "setitem": False,
    "numpy": False, "stencil": False, "fusion": False,
}  # fmt: skip


@cache
def _sources() -> str:
    """Return a digest of this folder: Numba itself does not notice that a function of another file changed."""
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Cache(caching.FunctionCache):
    """Compiled code on disk, good for this very version of the folder."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _sources())


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def compile(fn: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**_OPTIONS, **options)(fn)
        dispatcher._cache = _Cache(fn)
        return dispatcher

    return compile


prange = numba.prange
serial = _compiler()
inline = numba.njit(inline="always", **_OPTIONS)
# Without tbb prange is range, and nothing is split.
parallel = _compiler(parallel=_ONLY_PRANGE) if HAS_TBB else serial


def parts(work: int, grain: int) -> int:
    """Return into how many parts to split work of some size, of which ``grain`` is worth a thread's while."""
    return threads.count if HAS_TBB and work >= 2 * grain else 1


class _Announcer(event.Listener):
    """Says once, on standard error, that the first run on a machine waits for a compiler."""

    said = False

    def on_start(self, event: Any) -> None:
        if not _Announcer.said:
            _Announcer.said = True
            if os.environ.get("INFINITRAIN_QUIET_COMPILE") != "1":
                print(
                    "infinitrain: compiling CPU kernels for this machine, once; about a minute "
                    "(`infinitrain warmup` does it ahead)",
                    file=sys.stderr,
                    flush=True,
                )

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcer())
