"""Reductions against NumPy in float64, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck
from infinitrain.kernels.namespace import EXTRAS

REDUCTIONS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
CASES = [
    ((2, 3, 4), None),
    ((2, 3, 4), 1),
    ((2, 3, 4), -1),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), (2, -3)),
    ((2, 3, 4), (0, 1, 2)),
    ((2, 1, 4), 1),
    ((2, 3), ()),
    ((), None),
    ((1,), 0),
    ((0, 3), 1),
]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_forward_and_gradient(name, shape, axis, keepdims, rng):
    if name in ("max", "min") and shape == (0, 3) and axis is None:
        pytest.skip("no element to choose")
    x = (
        rng.permutation(int(np.prod(shape))).reshape(shape) / 7.0
    )  # no ties, and none closer than a difference
    t = it.from_numpy(x, requires_grad=True)
    y = getattr(t, name)(axis, keepdims)
    want = REDUCTIONS[name](x, axis=axis, keepdims=keepdims)
    assert y.shape == want.shape
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-14)
    gradcheck(lambda v: getattr(ops, name)(v, axis, keepdims), t)


def test_sum_and_mean_of_nothing():
    assert it.zeros(0, 3).sum().item() == 0.0
    assert it.zeros(0, 3).sum(0).tolist() == [0.0] * 3
    assert np.isnan(it.zeros(0, 3).mean().item())
    assert it.zeros(2, 0, 3).mean(0).shape == (0, 3)


@pytest.mark.parametrize("name", ["max", "min"])
def test_ties_share_the_gradient_equally(name):
    x = np.array([[2.0, 5.0, 5.0], [5.0, 1.0, 1.0]])
    t = it.from_numpy(x if name == "max" else -x, requires_grad=True)
    getattr(t, name)(1).backward(it.tensor([1.0, 10.0], "float64"))
    assert t.grad.tolist() == [[0.0, 0.5, 0.5], [10.0, 0.0, 0.0]]
    t.zero_grad()
    getattr(t, name)().backward()
    np.testing.assert_allclose(t.grad.numpy(), (x == 5.0) / 3.0)


def test_nan_is_the_extreme_and_takes_the_gradient():
    x = it.tensor([1.0, float("nan"), 3.0], requires_grad=True)
    y = x.max()
    assert np.isnan(y.item())
    y.backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_integers(dtype):
    x = it.tensor([[1, 0, 1], [1, 1, 1]]).astype(dtype)
    assert x.sum(1).tolist() == [2, 3]
    assert x.sum().dtype is it.dtype.int64
    assert x.mean().dtype is it.dtype.float32
    np.testing.assert_allclose(x.mean(1).numpy(), [2 / 3, 1.0], rtol=1e-6)
    assert it.full((300,), 255, dtype="uint8").sum().item() == 300 * 255
    if dtype != "bool":
        assert x.max(0).dtype.name == x.min(0).dtype.name == dtype
        assert x.min(1).tolist() == [0, 1]


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_half_precision_sums_in_float32(half):
    x = it.ones(3000, dtype=half)
    x.requires_grad = True
    total = x.sum()
    assert total.item() == 3000.0 if half == "float16" else abs(total.item() - 3000.0) <= 8
    assert x.mean().item() == 1.0
    assert total.dtype.name == half
    x.mean().backward()
    np.testing.assert_allclose(x.grad.numpy().astype(np.float64), 1 / 3000, rtol=0.01)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3, 4), 1), ((2, 3, 4), -1), ((5,), 0), ((2, 3), None), ((), None)]
)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin(name, shape, axis, keepdims, rng):
    x = rng.integers(0, 3, shape)
    for dtype in ("int64", "float32", "bfloat16"):
        y = getattr(it.from_numpy(np.asarray(x)).astype(dtype), name)(axis, keepdims)
        want = getattr(np, name)(x, axis=axis, keepdims=keepdims)  # the first of equal ones, as documented
        assert y.dtype is it.dtype.int64
        assert y.shape == want.shape
        assert y.numpy().tolist() == want.tolist()


def test_nan_is_the_extreme_of_argmax_and_argmin():
    x = it.tensor([[1.0, float("nan"), 9.0, float("nan")], [3.0, 4.0, -1.0, 4.0]])
    assert x.argmax().tolist() == [1, 1]
    assert x.argmin().tolist() == [1, 2]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_norm(shape, axis, keepdims, rng):
    x = np.asarray(rng.normal(0.5, 2.0, shape))
    t = it.from_numpy(x, requires_grad=True)
    y = t.norm(axis, keepdims)
    want = np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))
    assert y.shape == want.shape
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-14)
    gradcheck(lambda v: ops.norm(v, axis, keepdims), t)


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e30, "float32"), (1e-30, "float32"), (1e30, "bfloat16"), (6e3, "float16"), (1e300, "float64")],
)
def test_norm_where_squares_leave_the_range(scale, dtype):
    x = it.tensor([3.0 * scale, -4.0 * scale], dtype=dtype, requires_grad=True)
    y = x.norm()
    np.testing.assert_allclose(y.numpy().astype(float), 5.0 * scale, rtol=0.01 if "16" in dtype else 1e-6)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy().astype(float), [0.6, -0.8], rtol=0.01)


def test_norm_of_nothing_and_its_gradient():
    x = it.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    y = x.norm(1)
    assert y.tolist() == [0.0, 5.0]
    y.backward(it.tensor([1.0, 10.0]))
    np.testing.assert_allclose(x.grad.numpy(), [[0.0, 0.0], [6.0, 8.0]], rtol=1e-6)
    assert it.zeros(0, 3).norm().item() == 0.0
    assert it.zeros(0, 3).norm(0).tolist() == [0.0] * 3
    assert it.tensor([1.0, -float("inf")]).norm().item() == float("inf")
    assert np.isnan(it.tensor([float("nan"), float("inf")]).norm().item())


@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), 0), ((2, 3, 4), 1), ((2, 7), -1), ((1, 3), 0), ((0, 3), 0), ((2, 0), 0)]
)
def test_cumsum(shape, axis, rng):
    x = rng.normal(0.5, 2.0, shape)
    t = it.from_numpy(x, requires_grad=True)
    np.testing.assert_allclose(t.cumsum(axis).numpy(), np.cumsum(x, axis), rtol=1e-12, atol=1e-12)
    gradcheck(lambda v: ops.cumsum(v, axis), t)


def test_cumsum_of_other_dtypes():
    for dtype in ("bool", "uint8", "int32", "int64"):
        y = it.tensor([[1, 0, 1], [1, 1, 1]]).astype(dtype).cumsum()
        assert y.dtype is it.dtype.int64
        assert y.tolist() == [[1, 1, 2], [1, 2, 3]]
    assert it.full((3,), 200, dtype="uint8").cumsum().tolist() == [200, 400, 600]
    half = it.ones(3000, dtype="bfloat16").cumsum()
    assert half.dtype.name == "bfloat16"
    assert abs(half[-1].item() - 3000.0) <= 8, "a sum in bfloat16 would stay at 256"


def test_cumulative_sum_without_the_library(rng):
    """The default for libraries older than the function."""
    for shape, axis in (((1, 4), 0), ((3, 13), 1), ((8, 2, 3), 0), ((2, 0), 1)):
        x = rng.normal(size=shape)
        got = EXTRAS["cumulative_sum"](np, x, axis=axis)
        np.testing.assert_allclose(got, np.cumsum(x, axis), rtol=1e-12, atol=1e-12)


def test_errors():
    x = it.ones(2, 3)
    with pytest.raises(ShapeError, match="sum: axis 2 is out of range for a tensor with 2 dimensions"):
        x.sum(2)
    with pytest.raises(ShapeError, match=r"mean: axis \(1, -1\) names one axis twice"):
        x.mean((1, -1))
    with pytest.raises(DtypeError, match=r"max: axis is an int, got 1\.0"):
        x.max(1.0)
    with pytest.raises(ShapeError, match=r"MaxForward\(x: float32\[0, 3\].*axis 0 has no elements"):
        it.zeros(0, 3).max()
    with pytest.raises(ShapeError, match=r"ArgMax.*axis 1 has no elements"):
        it.zeros(2, 0).argmax()
    with pytest.raises(ShapeError, match=r"ArgMin.*axis 1 has no elements"):
        it.zeros(2, 0).argmin()
    with pytest.raises(ShapeError, match="cumsum: axis 2 is out of range"):
        x.cumsum(2)
    with pytest.raises(ShapeError, match="norm: axis 2 is out of range"):
        x.norm((0, 2))
    with pytest.raises(DtypeError, match="NormForward: x has dtype int64"):
        it.tensor([1]).norm()
    with pytest.raises(DtypeError, match="MaxForward: x has dtype bool"):
        it.tensor([True]).max()
    with pytest.raises(ShapeError, match=r"SumForward.*axis -1 is not in 0\.\.1"):
        ops.SumForward(x, (-1,), False)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda x: x.mean(dim=0),
            r"^Tensor\.mean: no argument 'dim'; it is called axis; arguments: axis, keepdims$",
        ),
        (
            lambda x: x.sum(axis=0, keepdim=True),
            r"^Tensor\.sum: no argument 'keepdim'; it is called keepdims;",
        ),
        (lambda x: x.flatten(start_dim=1), r"^Tensor\.flatten: no argument 'start_dim'; it is called start;"),
        (
            lambda x: x.transpose(dim0=0, axis1=1),
            r"^Tensor\.transpose: no argument 'dim0'; it is called axis0;",
        ),
        (lambda x: x.softmax(axes=0), r"^Tensor\.softmax: no argument 'axes'; arguments: axis$"),
        (lambda x: x.pow(power=2), r"Tensor\.pow\(\) got an unexpected keyword argument 'power'"),
    ],
)
def test_keywords_of_other_libraries_are_told_by_our_names(call, told):
    with pytest.raises(TypeError, match=told):
        call(it.ones(2, 3))
    assert it.ones(2, 3).mean(axis=0, keepdims=True).shape == (1, 3)


@pytest.mark.parametrize("correction", [0, 1, 0.5])
@pytest.mark.parametrize(("axis", "keepdims"), [(None, False), (1, True), ((0, -1), False)])
def test_variance_around_the_mean(axis, keepdims, correction):
    """The mean is far from 0: a difference of mean squares would be off by more than the variance in float32."""
    rng = np.random.default_rng(5)
    values = (3000 + rng.standard_normal((4, 7, 3)) * np.arange(1, 4)).astype(np.float32)
    wide = values.astype(np.float64)
    n = wide.size if axis is None else np.prod([wide.shape[a] for a in np.atleast_1d(axis)])
    want = ((wide - wide.mean(axis, keepdims=True)) ** 2).sum(axis, keepdims=keepdims) / (n - correction)
    x = it.from_numpy(values)
    np.testing.assert_allclose(x.var(axis, keepdims, correction=correction).numpy(), want, rtol=1e-4)
    np.testing.assert_allclose(
        ops.std(x, axis, keepdims, correction=correction).numpy(), want**0.5, rtol=1e-4
    )
    small = it.from_numpy(rng.standard_normal((4, 7, 3)))
    small.requires_grad = True
    gradcheck(lambda x: ops.var(x, axis, keepdims, correction=correction), small)
    gradcheck(lambda x: ops.std(x, axis, keepdims, correction=correction), small)


def test_variance_of_other_dtypes():
    half = it.from_numpy(np.linspace(1, 9, 64).astype(np.float16))
    assert half.var().dtype is it.float16
    assert half.var().item() == np.float16(half.numpy().astype(np.float64).var())
    assert ops.std(it.tensor([1, 3])).dtype is it.float32
    assert ops.std(it.tensor([1, 3])).item() == 1.0
    assert np.isnan(it.tensor([2.0]).var(correction=1).item())
    with pytest.raises(TypeError, match=r"Tensor\.var: no argument 'dim'; it is called axis"):
        half.var(dim=0)
