"""Whose threads work: Numba's or BLAS's, never both; without Numba, a working Numba, or tbb, BLAS's."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")
pytestmark = pytest.mark.multiproc

TOLD = """
import threadpoolctl
blas = [p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
print(it.get_num_threads(), threads.count, *blas, it.ops.LinearBackwardBias(x).tolist() == [300.0] * 400)
"""


def run(code: str, cache: Path | None = None, **environ: str) -> tuple[str, str]:
    """Return what a program prints with two threads, on both streams."""
    env = os.environ | {"INFINITRAIN_NUM_THREADS": "2"} | environ
    if cache is not None:
        env["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=False, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_without_tbb_blas_has_the_threads(tmp_path: Path) -> None:
    code = """
    import ctypes, infinitrain as it
    from infinitrain.cpu import fast, threads

    load = ctypes.CDLL

    def no_tbb(name, *args, **kwargs):
        if "tbb" in str(name):
            raise OSError("no such file")
        return load(name, *args, **kwargs)

    ctypes.CDLL = no_tbb
    x = it.ones(300, 400)
    assert fast.load()
    """
    out, _ = run(textwrap.dedent(code) + TOLD, tmp_path)
    assert out == "2 1 2 True"


def test_a_numba_that_does_not_import_is_told_and_done_without(tmp_path: Path) -> None:
    """Such as one that is too old for the NumPy that is installed."""
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text('raise ImportError("Numba needs NumPy 2.4 or less")\n')
    code = f"""
    import sys
    sys.path.insert(0, {str(tmp_path)!r})
    import infinitrain as it
    from infinitrain.cpu import threads
    from infinitrain.backend import get_device_guard_impl
    x = it.ones(300, 400)
    it.ops.linear(x, x)
    print(get_device_guard_impl(it.DeviceType.CPU).describe(it.CPU))
    """
    out, error = run(textwrap.dedent(code) + TOLD)
    described, told = out.splitlines()
    assert described.endswith(
        "2 threads, NumPy kernels (the fast kernels need Numba, which does not import here "
        "(Numba needs NumPy 2.4 or less): pip install --upgrade numba)"
    )
    assert told == "2 1 2 True"
    assert error.count("UserWarning: the fast kernels need Numba, which does not import here") == 1


def test_without_numba_the_description_says_how_to_get_it() -> None:
    code = """
    import sys
    sys.modules["numba"] = None
    import infinitrain as it
    from infinitrain.cpu import threads
    from infinitrain.backend import get_device_guard_impl
    x = it.ones(300, 400)
    print(get_device_guard_impl(it.DeviceType.CPU).describe(it.CPU))
    """
    out, error = run(textwrap.dedent(code) + TOLD)
    described, told = out.splitlines()
    assert described.endswith(
        'NumPy kernels (the fast kernels need Numba: pip install "infinitrain-core[fast]")'
    )
    assert (told, error) == ("2 1 2 True", "")


BLAS_AT_WORK = """
import os, sys, time
import numpy as np

def others():
    return set(os.listdir("/proc/self/task")) - {str(os.getpid())}

def ticks(threads):
    found = 0
    for thread in threads:
        with open(f"/proc/self/task/{thread}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        found += int(fields[11]) + int(fields[12])
    return found

a = np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32)
if "first" in sys.argv:
    for _ in range(20):
        a @ a
blas = others()  # OpenBLAS starts its threads when it is loaded
import infinitrain as it
x = it.tensor(a)
it.ops.linear(x, x)
time.sleep(0.3)  # a thread of BLAS that has had work spins on for a while
before, start = ticks(blas), time.process_time()
for _ in range(60):
    it.ops.linear(x, x)
    x @ x
    (x * 2).sum()
print(len(blas), ticks(blas) - before, round((time.process_time() - start) * os.sysconf("SC_CLK_TCK")))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts the ticks of threads in /proc")
@pytest.mark.parametrize("matmul", ["later", "first"])
@pytest.mark.parametrize("numba", ["1", "0"])
def test_threads_of_blas_rest_where_numba_has_the_work(matmul: str, numba: str) -> None:
    """Also where a program used NumPy's matmul before: its pool exists, and sleeps."""
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    env |= {"INFINITRAIN_NUM_THREADS": "2", "INFINITRAIN_NUMBA": numba}
    done = subprocess.run(
        [sys.executable, "-c", BLAS_AT_WORK, matmul], check=False, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pool, worked, total = map(int, done.stdout.split())
    if not pool:
        pytest.skip("BLAS has one thread here, on one core")
    assert total > 5, "this would not notice"
    assert worked <= 1 if numba == "1" else worked > total // 10
