"""``infinitrain warmup``: compile the CPU's fast kernels now, instead of in the first run."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import Final

from .usage import UsageError

HELP: Final = "compile the CPU's fast kernels ahead, once for each machine and version"
DESCRIPTION: Final = """\
Compiles the CPU's fast kernels for this machine and keeps the code on disk, so that no training run waits for a
compiler. It takes about a minute, and again after an update of infinitrain-core or Numba; a run that finds
nothing compiles what it needs by itself. It trains small models for a few steps, in float32 and mixed precision."""
EPILOG: Final = """\
examples:
  infinitrain warmup
  NUMBA_CACHE_DIR=/scratch/kernels infinitrain warmup     keep the code elsewhere; training needs the same variable

The code is kept in __pycache__ beside the kernels' sources, or, where that cannot be written, in the user's cache
folder. Several processes may compile at once.

exit status: 0 all is there; 2 there are no fast kernels here, or no folder to keep them in
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It takes nothing."""


def run(args: argparse.Namespace) -> int:
    """Compile what is not there yet; return the exit status."""
    from ..cpu import fast

    start = time.perf_counter()
    if os.environ.get("INFINITRAIN_KERNELS", "explicit") != "explicit":
        raise UsageError("infinitrain warmup: INFINITRAIN_KERNELS hides the fast kernels; unset it")
    with warnings.catch_warnings(action="ignore"):  # what it says is told below
        loaded = fast.load()
    if not loaded:
        raise UsageError(f"infinitrain warmup: {fast.unavailable()}")
    from ..cpu.code_cache import failures, folders
    from ..cpu.compiling import compilation
    from . import workload

    fast.load_all()
    kept = folders()
    if not kept:
        raise UsageError(
            "infinitrain warmup: no folder can keep compiled code: neither __pycache__ beside "
            f"{os.path.dirname(fast.__file__)} nor the user's cache can be written; set NUMBA_CACHE_DIR to one that can"
        )
    progress = _Progress()
    before, compilation.listener = compilation.listener, progress.compiles
    try:
        for _ in workload.steps():
            pass
    finally:
        compilation.listener = before
        progress.clear()
    if failures:
        raise UsageError(f"infinitrain warmup: compiled code could not be kept: {failures[0]}")
    seconds = time.perf_counter() - start
    what = f"compiled {progress.done} functions" if progress.done else "all fast kernels were there already"
    print(f"{what} ({seconds:.1f} s); they are in {', '.join(kept)}")
    return 0


class _Progress:
    """One line on a terminal, written over; elsewhere a line for each function."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self.done = 0

    def compiles(self, name: str, begun: int) -> None:
        """Show that function number ``begun`` is being compiled."""
        from ..cpu import compiling

        if begun == self.done:
            return  # for further types, or the end of one
        self.done = begun
        seconds = time.perf_counter() - self._start
        text = f"compiling {begun}/{compiling.functions()} {name}, {seconds:.0f} s"
        if compiling.updates(sys.stdout):
            compiling.rewrite(sys.stdout, text)
        else:
            print(text, flush=True)

    def clear(self) -> None:
        """Take the line away."""
        from ..cpu import compiling

        if self.done and compiling.updates(sys.stdout):
            compiling.rewrite(sys.stdout, "")
