"""The fast kernels: when they are used, what is compiled, and that they agree with float64 whatever the threads."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import find_kernel
from infinitrain.cpu import fast, threads
from infinitrain.device import DeviceType

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")


def test_every_kernel_listed_is_there_and_first():
    """[contract 4.3]"""
    for module, names in fast.KERNELS.items():
        for name in names.split():
            kernels = it.backend.registration.require_record(DeviceType.CPU).kernels[name]["explicit"]
            assert kernels[0].fn == f"infinitrain.cpu.fast.{module}:{name}"
            assert callable(kernels[0].resolve())


@pytest.mark.parametrize(
    "shape",  # the last three in blocks, where BLAS has small kernels
    [(1, 1, 1), (3, 5, 7), (257, 129, 1031), (1031, 67, 130), (33, 300, 768), (130, 128, 384), (1, 96, 2500)],
)
@pytest.mark.parametrize("bias", [False, True])
def test_linear(nt, shape, bias):
    m, k, n = shape
    rng = np.random.default_rng(m + n)
    x, w, g = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (m, n)))
    b = rng.standard_normal(n).astype(np.float32) if bias else None
    tx, tw, tg = map(it.tensor, (x, w, g))
    tb = None if b is None else it.tensor(b)
    X, W, G = (a.astype(np.float64) for a in (x, w, g))

    def close(got, want, depth):
        np.testing.assert_allclose(
            got.numpy(), want, rtol=0, atol=4e-6 * np.sqrt(depth) * max(1, depth**0.25)
        )

    close(ops.LinearForward(tx, tw, tb), X @ W.T + (0 if b is None else b), k)
    close(ops.LinearBackwardInput(tw, tg), G @ W, n)
    before = rng.standard_normal((n, k)).astype(np.float32)
    held = it.tensor(before)
    close(ops.LinearBackwardWeight(tx, tg, out=held, accumulate=True), before + G.T @ X, m)
    held.fill_(float("nan"))
    close(ops.LinearBackwardWeight(tx, tg, out=held), G.T @ X, m)
    close(ops.LinearBackwardBias(tg), G.sum(0), m)


def test_equal_threads_give_equal_bits(nt):
    rng = np.random.default_rng(5)
    x, w = (it.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((300, 200), (500, 200)))
    first, again = (ops.LinearForward(x, w, None).numpy() for _ in range(2))
    assert first.tobytes() == again.tobytes()


def run(code: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=False,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


POOLS = """
import numpy, threadpoolctl, infinitrain as it
a = it.ones(300, 300)
(a @ a).numpy()
it.ops.linear(a, a).numpy()
print(it.get_num_threads(), [p["num_threads"] for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"])
"""


def test_two_pools_never_compete():
    """BLAS has one thread where our own kernels split the work: it runs inside their threads."""
    assert run(POOLS, INFINITRAIN_NUM_THREADS="2").strip() == "2 [1]"
    assert run(POOLS, INFINITRAIN_NUM_THREADS="2", INFINITRAIN_NUMBA="0").strip() == "2 [2]"
    assert run(POOLS, INFINITRAIN_NUM_THREADS="1").strip() == "1 [1]"


def test_the_layer_is_tbb():
    """The only one of Numba's that survives threads and fork beside BLAS (docs/experiments.md)."""
    code = "import infinitrain as it; a = it.ones(600, 600); it.ops.linear(a, a)\n"
    assert (
        run(code + "import numba; print(numba.threading_layer())", INFINITRAIN_NUM_THREADS="2").strip()
        == "tbb"
    )


def test_without_numba_numpy_does_it():
    code = """
    import sys, infinitrain as it
    a = it.ones(8, 8)
    print(it.ops.linear(a, a).sum().item(), "numba" in sys.modules)
    """
    assert run(code, INFINITRAIN_NUMBA="0").split() == ["512.0", "False"]
    assert run(code).split() == ["512.0", "True"]
    assert (
        run("import sys, infinitrain; print('numba' in sys.modules)").strip() == "False"
    )  # until it is needed


def test_what_a_kernel_does_not_support_goes_to_numpy():
    """[contract 4.3]"""
    x = it.ones(2, 3)
    row = OPS["LinearGeluForward"]
    fn = {
        approximate: find_kernel(row, DeviceType.CPU, {"float32"}, (x, x, None, approximate)).fn
        for approximate in ("tanh", "none")
    }
    assert isinstance(fn["tanh"], str)
    assert not isinstance(fn["none"], str)


def test_bad_numbers_of_threads():
    for n in (0, -1, 2.0, True, 1025):
        with pytest.raises(ValueError, match=r"set_num_threads: n is an int in 1 \.\. 1024"):
            it.set_num_threads(n)
    assert threads.count >= 1


def test_rows_whose_distance_means_nothing():
    """NumPy keeps odd strides on axes of size 1."""
    row = np.ones((512, 1), np.float32).T
    assert row.strides == (4, 4)
    rng = np.random.default_rng(1)
    w = rng.standard_normal((64, 512)).astype(np.float32)
    got = ops.linear(it.from_dlpack(row), it.tensor(w)).numpy()
    np.testing.assert_allclose(got[0], w.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)
    got = ops.linear(it.tensor(w), it.from_dlpack(row)).numpy()
    np.testing.assert_allclose(got[:, 0], w.astype(np.float64).sum(1), rtol=1e-4, atol=1e-4)


def test_the_array_layer_alone_has_all_of_blas():
    assert run(POOLS, INFINITRAIN_NUM_THREADS="2", INFINITRAIN_KERNELS="array").strip() == "2 [2]"


def test_numba_that_compiles_nothing_is_not_used():
    code = "import infinitrain as it; a = it.ones(8, 8); print(it.ops.linear(a, a).sum().item())"
    assert run(code, NUMBA_DISABLE_JIT="1").strip() == "512.0"


def test_numpys_integers_are_numbers_of_threads():
    before = it.get_num_threads()
    it.set_num_threads(np.int64(2))
    assert it.get_num_threads() == 2
    it.set_num_threads(before)
