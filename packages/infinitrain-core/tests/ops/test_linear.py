"""Products of matrices against float64 NumPy; the defects of the C++ InfiniTrain that are not repeated."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.optable import OPS
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

SHAPES = [
    ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 6, 3, 4), (4, 5)), ((3, 4), (2, 6, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((1, 3, 4), (5, 4, 1)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((4,), (4,)),
    ((2, 0, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 3, 4), (4, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_matmul_batches_and_broadcasts(a, b, rng):
    x, y = rng.normal(0.5, 1, a), rng.normal(-0.2, 1, b)
    left, right = it.from_numpy(x, requires_grad=True), it.from_numpy(y, requires_grad=True)
    np.testing.assert_allclose((left @ right).numpy(), np.matmul(x, y), rtol=1e-12, atol=1e-12)
    gradcheck(ops.matmul, left, right)


@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (2, 1, 3), (0,)])
@pytest.mark.parametrize("bias", [False, True])
def test_linear_of_any_leading_axes(lead, bias, rng):
    """A vector, batches, and a sum over no rows at all."""
    x, w, b = rng.normal(0.3, 1, (*lead, 5)), rng.normal(size=(7, 5)), rng.normal(size=7)
    made = [it.from_numpy(v, requires_grad=True) for v in ((x, w, b) if bias else (x, w))]
    want = np.einsum("...i,oi->...o", x, w) + (b if bias else 0)
    np.testing.assert_allclose(ops.linear(*made).numpy(), want, rtol=1e-12, atol=1e-13)
    gradcheck(ops.linear, *made)


def test_linear_over_no_inputs(rng):
    b = rng.normal(size=3)
    y = ops.linear(it.zeros(2, 0), it.zeros(3, 0), it.from_numpy(b.astype(np.float32)))
    np.testing.assert_array_equal(y.numpy(), np.tile(b.astype(np.float32), (2, 1)))


@pytest.mark.parametrize("rows", [1, 2, 33, 1025])
def test_bias_gradient_sums_every_row(rows, rng):
    """With gradients that differ from row to row and column to column."""
    grad = rng.normal(0.4, 1, (rows, 11)) * np.linspace(0.2, 2, 11)
    got = OPS["LinearBackwardBias"].call(it.from_numpy(grad))
    np.testing.assert_allclose(got.numpy(), grad.sum(0), rtol=1e-12)
    single = OPS["LinearBackwardBias"].call(it.from_numpy(grad.astype(np.float32)))
    np.testing.assert_allclose(single.numpy(), grad.sum(0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_gradients_have_the_dtype_of_their_parameter(dtype, rng):
    made = [it.from_numpy(rng.normal(size=s)).astype(dtype).detach() for s in ((4, 3), (5, 3), (5,))]
    for tensor in made:
        tensor.requires_grad = True
    ops.linear(*made).sum().backward()
    assert [tensor.grad.dtype.name for tensor in made] == [dtype] * 3


def test_float32_destinations_of_half_gradients_are_not_rounded(rng):
    """A bfloat16 weight whose gradients are summed in float32: what is added was never bfloat16 [contract 4.4]."""
    x, grad = rng.normal(1, 0.1, (64, 3)), rng.normal(1, 0.1, (64, 5))
    half = [it.from_numpy(v).astype("bfloat16") for v in (x, grad)]
    out = it.full((5, 3), 1000.0, dtype="float32")
    OPS["LinearBackwardWeight"].call(*half, out=out, accumulate=True)
    exact = half[1].numpy().astype(np.float64).T @ half[0].numpy().astype(np.float64)
    np.testing.assert_allclose(out.numpy() - 1000.0, exact, rtol=1e-5)


def test_exp_backward_uses_its_result():
    x = it.tensor([0.0, 1.0, -2.0], dtype="float64", requires_grad=True)
    x.exp().backward(it.tensor([1.0, 2.0, 3.0], dtype="float64"))
    np.testing.assert_allclose(x.grad.numpy(), [1.0, 2 * math.e, 3 * math.exp(-2)], rtol=1e-14)


def test_mixed_dtypes_of_linear_are_refused():
    x, w, b = it.ones(2, 3, dtype="bfloat16"), it.ones(4, 3), it.ones(4)
    with pytest.raises(
        DtypeError, match=r"LinearForward\(.*x is bfloat16 and weight float32; cast one, or use auto"
    ):
        ops.linear(x, w)
    with pytest.raises(DtypeError, match="x is bfloat16 and bias float32; cast one, or use autocast"):
        ops.linear(x, w.astype("bfloat16"), b)
    with pytest.raises(DtypeError, match="a is float32 and b float64; cast one, or use autocast"):
        ops.matmul(w, it.ones(3, 2, dtype="float64"))


def test_shapes_that_do_not_multiply():
    with pytest.raises(ShapeError, match=r"x \(2, 3\) needs a last axis equal to weight's \(4, 5\) second"):
        ops.linear(it.ones(2, 3), it.ones(4, 5))
    with pytest.raises(ShapeError, match=r"bias has shape \(3,\), expected \(4,\)"):
        ops.linear(it.ones(2, 3), it.ones(4, 3), it.ones(3))
    with pytest.raises(ShapeError, match=r"a \(2, 3\) and b \(4, 5\) do not multiply"):
        it.ones(2, 3) @ it.ones(4, 5)
    with pytest.raises(ShapeError, match="do not broadcast: 2 against 3"):
        it.ones(2, 3, 4) @ it.ones(3, 4, 5)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gemm(transpose_a, transpose_b, dtype, batch, rng):
    a, b, c = (rng.integers(-4, 5, s).astype(float) for s in ((*batch, 3, 4), (4, 5), (*batch, 3, 5)))
    given = [np.swapaxes(a, -1, -2) if transpose_a else a, b.T if transpose_b else b, c]
    tensors = [it.from_numpy(np.ascontiguousarray(v)).astype(dtype) for v in given]
    before = tensors[2].version
    OPS["Gemm"].call(*tensors, 2.0, -0.5, transpose_a, transpose_b)
    np.testing.assert_array_equal(tensors[2].numpy().astype(float), 2 * (a @ b) - 0.5 * c)
    assert tensors[2].version > before


def test_gemm_without_beta_does_not_read():
    c = it.full((2, 2), float("nan"))
    OPS["Gemm"].call(it.ones(2, 3), it.ones(3, 2), c, 1.0, 0.0, False, False)
    assert c.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_gemm_errors():
    def gemm(a, b, c, *flags, dtype="float32"):
        OPS["Gemm"].call(it.ones(*a), it.ones(*b), it.ones(*c, dtype=dtype), 1.0, 0.0, *flags)

    with pytest.raises(ShapeError, match="transpose_a=True, transpose_b=False: 2 against 3"):
        gemm((2, 3), (3, 2), (2, 2), True, False)
    with pytest.raises(ShapeError, match=r"c has shape \(2, 3\), expected \(2, 2\)"):
        gemm((2, 3), (3, 2), (2, 3), False, False)
    with pytest.raises(ShapeError, match="are no matrices"):
        gemm((3,), (3, 2), (2,), False, False)
    with pytest.raises(DtypeError, match="c has dtype float64, expected float32"):
        gemm((2, 3), (3, 2), (2, 2), False, False, dtype="float64")
