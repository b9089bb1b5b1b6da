"""Numba's threading layers beside NumPy's OpenBLAS: which survive threads and fork, and at what cost.

    python benchmarks/bench_numba_layers.py [--rounds 5] [--patience 300]

Needs numba (and the `tbb` package for that layer). Every cell is a process of its own, because a layer is
chosen once per process and a bad one aborts it. Core does not use Numba: this is the ground for choosing a
layer when it does.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from _quiet import Quiet

LAYERS: dict[str, dict[str, str]] = {
    "workqueue": {"NUMBA_THREADING_LAYER": "workqueue"},
    "omp": {"NUMBA_THREADING_LAYER": "omp"},
    "omp passive": {"NUMBA_THREADING_LAYER": "omp", "OMP_WAIT_POLICY": "passive"},
    # The wheel puts libtbb.so where the loader of an environment that is not activated does not look.
    "tbb": {"NUMBA_THREADING_LAYER": "tbb", "LD_LIBRARY_PATH": f"{sys.prefix}/lib"},
}
TIMEOUT = 60


def kernels() -> tuple[Callable, Callable]:
    """Return (a parallel kernel, the same on one thread): y += a * tanh(x), elementwise."""
    import math

    import numba
    from numba import float32, void

    def body(x, y, a):  # type: ignore[no-untyped-def]
        for i in numba.prange(x.size):
            y[i] += a * math.tanh(x[i])

    types = void(float32[::1], float32[::1], float32)
    return (
        numba.njit(types, parallel=True, nogil=True, cache=True)(body),
        numba.njit(types, nogil=True, cache=True)(body),
    )


def two_threads() -> str:
    """Two Python threads call parallel kernels at once, 300 times each."""
    import numpy as np

    kernel, _ = kernels()
    arrays = [(np.full(50_000, 0.5, np.float32), np.zeros(50_000, np.float32)) for _ in range(2)]
    kernel(*arrays[0], 0.0)
    start = threading.Barrier(2)

    def work(x: np.ndarray, y: np.ndarray) -> None:
        start.wait()
        for _ in range(300):
            kernel(x, y, 1.0)

    threads = [threading.Thread(target=work, args=pair) for pair in arrays]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    right = all(np.allclose(y, 300 * np.tanh(0.5), rtol=1e-3) for _, y in arrays)
    return "right results" if right else "WRONG RESULTS"


def fork(kind: str) -> str:
    """Fork after a parallel kernel ran; the child runs one too, then the parent again."""
    import numpy as np

    kernel, _ = kernels()
    x, y = np.full(50_000, 0.5, np.float32), np.zeros(50_000, np.float32)
    kernel(x, y, 1.0)
    if kind == "blas":
        np.ones((512, 512), np.float32) @ np.ones((512, 512), np.float32)
    child = os.fork()
    if child == 0:
        kernel(x, y, 1.0)
        os._exit(0 if np.allclose(y, 2 * np.tanh(0.5), rtol=1e-3) else 3)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            kernel(x, y, 1.0)
            return "child right" if code == 0 else f"child ended with {_ended(code)}"
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "child hangs"


def alternating(what: str) -> str:
    """ms for 20 rounds of four matmuls (512 x 256 x 1024) and two elementwise kernels of 512 x 1024."""
    import numpy as np

    parallel, single = kernels()
    kernel = single if what == "single" else parallel
    a, b = np.ones((512, 256), np.float32), np.ones((256, 1024), np.float32)
    c, y = np.empty((512, 1024), np.float32), np.zeros(512 * 1024, np.float32)
    kernel(c.reshape(-1), y, 1e-6)

    def once() -> tuple[float, float]:
        gemm = loop = 0.0
        for _ in range(20):
            t0 = time.perf_counter()
            for _ in range(4):
                np.matmul(a, b, out=c)
            t1 = time.perf_counter()
            for _ in range(2):
                kernel(c.reshape(-1), y, 1e-6)
            gemm, loop = gemm + t1 - t0, loop + time.perf_counter() - t1
        return gemm * 1e3, loop * 1e3

    once()
    times = [once() for _ in range(7)]
    return f"{median(g for g, _ in times)} {median(k for _, k in times)}"


TASKS: dict[str, Callable[[], str]] = {
    "two_threads": two_threads,
    "fork": lambda: fork("kernel"),
    "fork_blas": lambda: fork("blas"),
    "alternating": lambda: alternating("parallel"),
    "single": lambda: alternating("single"),
}


def _ended(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"status {code}"


def cell(task: str, layer: str, blas_threads: int = 2, **extra: str) -> str:
    """Return what ``task`` prints in a process of its own with ``layer``, or how it ended."""
    unset = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    env = {k: v for k, v in os.environ.items() if k not in unset}
    env |= LAYERS[layer] | {"OPENBLAS_NUM_THREADS": str(blas_threads)} | extra
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--task", task],
            env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"hangs (> {TIMEOUT} s)"
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return f"{_ended(done.returncode)}: {lines[-1] if lines else 'no message'}"
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds for repeats of what others disturbed"
    )
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if importlib.util.find_spec("numba") is None:
        print("numba is not installed: pip install numba tbb", file=sys.stderr)
        return 2
    if args.task:
        print(TASKS[args.task]())
        return 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache  # compiled once, not in each of a hundred processes
        report(args.rounds, Quiet(args.patience))
    return 0


def report(rounds: int, quiet: Quiet) -> None:
    import numba
    import numpy as np

    print(
        f"{os.cpu_count()} logical cores, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"numba {numba.__version__}, load {os.getloadavg()[0]:.1f} at the start"
    )
    for task, title in (
        ("two_threads", "two Python threads in parallel kernels at once"),
        ("fork", "fork after a parallel kernel"),
        ("fork_blas", "fork after a parallel kernel and a 2-thread matmul"),
    ):
        print(f"\n{title}")
        for layer in LAYERS:
            found = {cell(task, layer) for _ in range(3)}
            print(f"  {layer:12s} {' | '.join(sorted(found))}")

    print("\n80 matmuls and 40 parallel kernels in turn: ms, median (fastest) of the rounds")
    rows = [(layer, "alternating", blas) for layer in LAYERS for blas in (2, 1)]
    rows += [("workqueue", "single", 2)]
    got: dict[tuple, list[tuple[float, float]]] = {row: [] for row in rows}
    failed: dict[tuple, str] = {}
    for _ in range(rounds):
        for row in rows:
            text = quiet(partial(cell, row[1], row[0], row[2]))
            try:
                gemm, loop = (float(n) for n in text.split())
            except ValueError:
                failed[row] = text
            else:
                got[row].append((gemm, loop))
    for row in rows:
        layer, task, blas = row
        name = "kernel on one thread" if task == "single" else layer
        if row in failed:
            print(f"  {name:20s} BLAS x {blas}   {failed[row]}")
            continue
        columns = [g for g, _ in got[row]], [k for _, k in got[row]], [g + k for g, k in got[row]]
        cells = [f"{median(values):7.1f} ({min(values):6.1f})" for values in columns]
        print(f"  {name:20s} BLAS x {blas}   matmul {cells[0]}   kernel {cells[1]}   both {cells[2]}")
    print(f"\n{quiet}")


if __name__ == "__main__":
    sys.exit(main())
