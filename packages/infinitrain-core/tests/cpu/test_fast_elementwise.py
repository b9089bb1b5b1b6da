"""Fast sums and products of tensors, dropout and casts: equal to NumPy's to the bit wherever both round once."""

import ml_dtypes
import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import find_kernel
from infinitrain.device import DeviceType
from infinitrain.dtype import bfloat16, float16, float32

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -1e-42], np.float32)


def numbers(seed, *shapes):
    rng = np.random.default_rng(seed)
    found = [(rng.standard_normal(s) * 10.0 ** rng.uniform(-3, 3, s)).astype(np.float32) for s in shapes]
    for a in found:
        n = min(a.size // 3, 8)
        a.reshape(-1)[rng.permutation(a.size)[:n]] = SPECIAL[:n]
    return found


def same(got, want):
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


PAIRS = [
    ((3, 67), (3, 67)),
    ((5, 4, 33), (4, 33)),
    ((65,), (7, 65)),
    ((1, 3, 70), (5, 3, 70)),
    ((1000,), (1000,)),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_and_products(fast, a, b):
    module = fast("elementwise")
    x, y = numbers(1, a, b)
    for name, fn in (("AddForward", np.add), ("MulForward", np.multiply)):
        want = fn(x, y)
        out = it.full(want.shape, float("nan"))
        getattr(module, name)(it.tensor(x), it.tensor(y), out=out)
        same(out.numpy(), want)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_gradients_of_a_product(fast, a, b):
    module = fast("elementwise")
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in (a, b))
    g = rng.standard_normal(np.broadcast_shapes(a, b)).astype(np.float32)
    out = it.full(a, float("nan")), it.full(b, float("nan"))
    module.MulBackward(it.tensor(g), it.tensor(x), it.tensor(y), out=out)
    for got, other in zip(out, (y, x), strict=True):
        product = g.astype(np.float64) * other
        extra = product.ndim - got.ndim
        axes = tuple(i for i in range(product.ndim) if i < extra or got.shape[i - extra] != product.shape[i])
        np.testing.assert_allclose(got.numpy(), product.sum(axes).reshape(got.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rate", [1.0, -0.37])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_accumulation(fast, rate):
    module = fast("elementwise")
    g, t = numbers(3, (67, 129), (67, 129))
    target = it.tensor(t)
    module.AccumulateGrad(it.tensor(g), rate, target)
    want = t.astype(np.float64) + np.float32(rate).astype(np.float64) * g
    got = target.numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    known = np.isfinite(want) & (np.abs(want) < 3e38)
    np.testing.assert_allclose(got[known], want[known], rtol=3e-7)


def test_what_is_left_to_numpy():
    """[contract 4.3]"""

    def fast_one(name, *args):
        return isinstance(find_kernel(OPS[name], DeviceType.CPU, {"float32"}, args).fn, str)

    large, row, column = it.ones(600, 600), it.ones(600), it.ones(600, 1)
    assert fast_one("AddForward", large, large)
    assert fast_one("AddForward", row, large)
    assert fast_one("MulBackward", large, large, row)
    for a, b in (
        (large, column),
        (column, row),
        (it.ones(1, 1), large),
        (row, row),
        (it.ones(1, 600, 1), large),
    ):
        assert not fast_one("AddForward", a, b)
        assert not fast_one("MulForward", b, a)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 7), (2, 3, 341), (1, 4099), (3, 1024), (0, 4)])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.999, 1 - 2.0**-40, 1.0])
@pytest.mark.parametrize(
    "words", [(0, 0, 0), (2**64 - 1, 2**64 - 1, 2**64 - 2), (12345678901234567890, 7, 2**40)]
)
def test_dropout_is_numpys_to_the_bit(fast, shape, p, words):
    from infinitrain.cpu import dropout as numpy_kernels

    module = fast("dropout")
    x = np.asarray(np.random.default_rng(4).standard_normal(shape), np.float32)
    if x.size > 8:
        x.reshape(-1)[:8] = SPECIAL
    got, want = it.full(shape, float("nan")), it.full(shape, float("nan"))
    module.DropoutForward(it.tensor(x), p, *words, out=got)
    numpy_kernels.DropoutForward(it.tensor(x), p, *words, out=want)
    assert got.numpy().tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize(("dtype", "numpy"), [(bfloat16, ml_dtypes.bfloat16), (float16, np.float16)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_casts_are_numpys_to_the_bit(fast, dtype, numpy):
    """All 65,536 numbers of half precision, those in the middle between two, and their neighbours."""
    module = fast("casts")
    half = np.arange(1 << 16, dtype=np.uint16).view(numpy)
    half = half[~np.isnan(half.astype(np.float32))]
    wide = half.astype(np.float32)
    out = it.full(wide.shape, float("nan"))
    module.Cast(it.tensor(half), float32, out=out)
    same(out.numpy(), wide)
    bits = wide.view(np.uint32)
    step = np.uint32(
        1 << (15 if dtype is bfloat16 else 12)
    )  # half of what the last place of a normal number is
    around = np.concatenate([bits + k for k in (np.uint32(0), step - 1, step, step + 1, np.uint32(1))])
    tiny = np.random.default_rng(5).uniform(-1.3e-4, 1.3e-4, 20_000).astype(np.float32)
    values = np.concatenate([around.view(np.float32), tiny, np.float32([65519.9, 65520, -65520, 3.4e38])])
    values = values[~np.isnan(values)]
    narrow = it.zeros(values.shape, dtype=dtype)
    module.Cast(it.tensor(values), dtype, out=narrow)
    want = values.astype(numpy)
    np.testing.assert_array_equal(narrow.numpy().view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("dtype", [bfloat16, float16])
def test_casts_keep_nan_and_its_sign(fast, dtype):
    module = fast("casts")
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    narrow, wide = it.zeros(6, dtype=dtype), it.zeros(6)
    module.Cast(it.tensor(bits.view(np.float32)), dtype, out=narrow)
    module.Cast(narrow, float32, out=wide)
    for got in (narrow.numpy().astype(np.float32), wide.numpy()):
        assert np.isnan(got).all()
        assert np.signbit(got).tolist() == [False, True] * 3
