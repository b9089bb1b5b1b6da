"""Products of matrices on threads against float64 NumPy written apart: stacks, broadcasts, half types."""

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import find_kernel
from infinitrain.cpu import blas
from infinitrain.device import DeviceType

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

from infinitrain.cpu.fast import matmul as fast_matmul  # after the skip: it imports Numba

CASES = [
    ((257, 129), (129, 131)),
    ((1, 300), (300, 9001)),  # one row
    ((9001, 300), (300, 1)),  # one column
    ((48, 65, 64), (48, 64, 33)),  # a long stack
    ((2, 129, 300), (2, 300, 67)),  # a short one
    ((3, 5, 70, 33), (3, 5, 33, 71)),
    ((3, 5, 70, 33), (33, 200)),  # one matrix for a whole stack
    ((5, 70, 33), (3, 5, 33, 71)),  # broadcast in front
    ((3, 1, 70, 80), (1, 40, 80, 9)),  # and inside, on both sides
    ((70, 300), (2, 300, 200)),
]


@pytest.fixture(params=[1, 2, 3])
def nt(request):
    """A number of threads, set for the time of the test."""
    before = it.get_num_threads()
    it.set_num_threads(request.param)
    yield request.param
    it.set_num_threads(before)


def random(shape, seed, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got, want, depth, dtype="float32"):
    unit = {"float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=4 * unit * max(1, depth**0.75))


def summed(full, shape):
    """Sum to a shape that was broadcast."""
    full = full.sum(tuple(range(full.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and full.shape[i] != 1)
    return full.sum(axes, keepdims=True)


def is_fast(name, *args):
    return isinstance(find_kernel(OPS[name], DeviceType.CPU, {"float32"}, args).fn, str)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("left", "right"), CASES)
def test_matmul(nt, left, right, dtype):
    a, b = random(left, 1, dtype), random(right, 2, dtype)
    A, B = a.astype(np.float64), b.astype(np.float64)
    want = np.matmul(A, B)
    g = random(want.shape, 3, dtype)
    ta, tb, tg = map(it.tensor, (a, b, g))
    assert is_fast("MatmulForward", ta, tb)
    close(ops.MatmulForward(ta, tb), want, left[-1], dtype)
    da = summed(np.matmul(g.astype(np.float64), B.swapaxes(-1, -2)), left)
    db = summed(np.matmul(A.swapaxes(-1, -2), g.astype(np.float64)), right)
    held = it.full(left, float("nan"), dtype=ta.dtype)
    close(ops.MatmulBackwardInput(tb, tg, left, out=held), da, g.size * left[-1] / da.size, dtype)
    held = it.full(right, float("nan"), dtype=ta.dtype)
    close(ops.MatmulBackwardOther(ta, tg, right, out=held), db, g.size * left[-1] / db.size, dtype)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (0.5, 1.0), (-2.0, 0.25), (0.0, 3.0)])
@pytest.mark.parametrize("stack", [(), (5,)])
def test_gemm(nt, transpose_a, transpose_b, alpha, beta, stack):
    m, n, k = 131, 129, 150
    a = random((*stack, k, m) if transpose_a else (*stack, m, k), 4)
    b = random((n, k) if transpose_b else (k, n), 5)
    before = random((*stack, m, n), 6)
    left = a.swapaxes(-1, -2) if transpose_a else a
    product = np.matmul(left.astype(np.float64), (b.T if transpose_b else b).astype(np.float64))
    c = it.tensor(before if beta else np.full_like(before, np.nan))
    ops.Gemm(it.tensor(a), it.tensor(b), c, alpha, beta, transpose_a, transpose_b)
    close(c, alpha * product + (beta * before if beta else 0), k)


def test_nan_and_infinities(nt):
    """NaN and infinities reach the rows and columns that they belong to, and no others."""
    a, b = random((200, 160), 7), random((160, 150), 8)
    a[3, 5], a[150, 7], b[9, 140] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = np.matmul(a.astype(np.float64), b.astype(np.float64))
    got = ops.MatmulForward(it.tensor(a), it.tensor(b)).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.where(np.isinf(got), got, 0), np.where(np.isinf(want), want, 0))
    c = it.zeros(200, 150)
    ops.Gemm(it.tensor(a), it.tensor(b), c, 0.0, 1.0, False, False)
    assert np.isnan(c.numpy()[3]).all()


def test_equal_threads_give_equal_bits(nt):
    a, b = it.tensor(random((5, 3, 65, 64), 9)), it.tensor(random((3, 64, 150), 10))
    first, again = (ops.MatmulForward(a, b).numpy() for _ in range(2))
    assert first.tobytes() == again.tobytes()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4), (0, 2, 4)])
def test_empty(shape):
    a, b = np.ones(shape, np.float32), np.ones((shape[-1], 5), np.float32)
    np.testing.assert_array_equal(fast_matmul.product(a, b, None), np.matmul(a, b))
    held = np.full((*shape[:-1], 5), 2.0, np.float32)
    fast_matmul.product(a, b, held, 1.0, 3.0)
    np.testing.assert_array_equal(held, 6 + np.matmul(a, b))


def test_small_products_are_left_to_numpy():
    a = it.ones(16, 64)
    b = it.ones(64, 64)
    assert not is_fast("MatmulForward", a, b)
    assert not is_fast("MatmulBackwardInput", b, a, (16, 64))
    assert not is_fast("Gemm", a, b, a, 1.0, 0.0, False, False)


@pytest.mark.parametrize("cut", [slice(None), slice(10, 120)])
@pytest.mark.parametrize("flip", [False, True])
def test_blas_takes_any_layout(nt, cut, flip):
    """Transposed, strided and broadcast operands, as the array layer has them."""
    packed = random((3, 130, 4, 96), 11)
    q = packed.transpose(0, 2, 1, 3)[..., cut, :32]
    k = packed.transpose(0, 2, 1, 3)[..., cut, 32:64]
    if flip:
        q = q[..., ::-1]  # no layout of BLAS: it is copied
    want = np.matmul(q.astype(np.float64), k.swapaxes(-1, -2).astype(np.float64))
    np.testing.assert_allclose(fast_matmul.product(q, k.swapaxes(-1, -2), None), want, rtol=0, atol=1e-4)
    v = np.broadcast_to(packed[:1, :, :1, :32].transpose(0, 2, 1, 3)[..., cut, :], q.shape)
    want = np.matmul(q.swapaxes(-1, -2).astype(np.float64), v.astype(np.float64))
    np.testing.assert_allclose(fast_matmul.product(q.swapaxes(-1, -2), v, None), want, rtol=0, atol=1e-4)


@pytest.fixture
def products(monkeypatch):
    """The shapes that the threaded product was called with."""
    found = []
    plain = fast_matmul.product

    def spy(a, b, *rest):
        found.append((a.dtype.name, a.shape, b.shape))
        return plain(a, b, *rest)

    monkeypatch.setattr(fast_matmul, "product", spy)
    return found


@pytest.mark.parametrize("dtype", [it.bfloat16, it.float16])
def test_half_types_multiply_on_threads(nt, products, dtype):
    """BLAS itself has one thread: what NumPy's kernels leave to it is split here."""
    x, w = (it.tensor(random(s, 12)).to(dtype) for s in ((2, 65, 150), (300, 150)))
    got = ops.LinearForward(x, w, None)
    want = x.float().numpy().astype(np.float64) @ w.float().numpy().astype(np.float64).T
    np.testing.assert_allclose(got.float().numpy(), want, rtol=0.01, atol=0.05)
    ops.LinearBackwardInput(w, got)
    ops.LinearBackwardWeight(x, got)
    ops.MatmulForward(x, it.tensor(random((150, 300), 13)).to(dtype))
    assert {name for name, *_ in products} == {"float32"}
    assert len(products) >= 4


def test_vectors_and_other_dtypes_are_numpys(products):
    a = np.ones((160, 160))
    assert blas.matmul(a.astype(np.int64), a.astype(np.int64))[0, 0] == 160
    assert blas.matmul(np.ones(4), np.ones(4)) == 4
    assert blas.matmul(a.astype(np.float32), a).dtype == np.float64
    assert not products
