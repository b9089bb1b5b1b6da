"""Numba as the kernels use it: options, threads, code kept on disk, a message while it compiles.

A kernel has three layers: a plain function under the op's name, which hands arrays over; a `parallel` one that splits
the work into ``nt`` parts (one part runs without a thread); and `serial` ones that work on a part. Loops index rows
that were taken as views before, have no branches inside, and write exp as a polynomial, or LLVM would not vectorise
them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from .. import threads

HAS_TBB = threads.has_tbb()

import numba  # noqa: E402 - after the library that its threads come from

from ..code_cache import code_cache  # noqa: E402
from ..compiling import compilation as compilation  # noqa: E402 - tells the user

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
def _version(module: str) -> str:
    """Return a digest of what a module's code depends on: its file and those of this folder that it imports."""
    digest, todo, seen = sha256(str(HAS_TBB).encode()), [module], set[str]()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
            digest.update(text.encode())
            todo += re.findall(r"^from \.(\w+) import", text, re.MULTILINE)
    return digest.hexdigest()


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def compile(fn: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**_OPTIONS, **options)(fn)
        dispatcher._cache = code_cache(fn, _version(fn.__module__.rpartition(".")[2]))
        return dispatcher

    return compile


prange = numba.prange
serial = _compiler()
inline = numba.njit(inline="always", **_OPTIONS)
# Without tbb prange is range, and nothing is split.
parallel = _compiler(parallel=_ONLY_PRANGE) if HAS_TBB else serial


def parts(work: int, grain: int) -> int:
    """Return into how many parts to split work of some size, of which ``grain`` is worth a thread's while."""
    return threads.count if work >= 2 * grain else 1


def run(body: Any, split: Any, n: int, nt: int, *args: Any) -> None:
    """Do n rows in one part by ``body(start, stop, *args)``, or in nt by ``split(nt, *args)``.

    Asked here, not in compiled code, a body is not compiled into ``split`` twice: half the time that it takes.
    """
    if nt == 1:
        body(0, n, *args)
    else:
        split(nt, *args)
