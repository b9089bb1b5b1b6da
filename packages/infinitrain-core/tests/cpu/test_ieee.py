"""Overflow and NaN are values: no kernel warns [contract 4.7]."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.dispatch import clear_plans
from infinitrain.dtype import as_dtype

INF = math.inf


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda: it.tensor([1e9]).astype("float16"), [INF]),
        (lambda: it.tensor([11.0, 12.0]).astype("float16").exp(), [59872.0, INF]),
        (lambda: it.tensor([3e38, 3e38]).sum(), INF),
        (lambda: it.tensor([3e38, 3e38]).mean(), INF),
        (lambda: it.tensor([0.0]).log(), [-INF]),
        (lambda: it.tensor([1.0]) / it.tensor([0.0]), [INF]),
        (lambda: ops.gelu(it.tensor([3e38])), [pytest.approx(3e38)]),
    ],
)
def test_values_without_warnings(make, want):
    assert make().tolist() == want


def test_the_norm_of_float64_is_float64():
    x = it.tensor([3e200, 4e200], dtype="float64")
    norm = ops.OPS["GlobalNorm"].call((x,))
    assert norm.dtype is it.float64
    assert norm.item() == pytest.approx(5e200, rel=1e-14)


@pytest.mark.parametrize("layer", ["explicit", "array"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_cpu_keeps_subnormal_numbers(dtype, layer, monkeypatch):
    """A device may flush them to zero [contract 4.7]; the CPU is what others are compared with, and does not."""
    monkeypatch.setenv("INFINITRAIN_KERNELS", layer)
    clear_plans()
    tiny = np.array([3.0], as_dtype(dtype).numpy) * ml_dtypes.finfo(as_dtype(dtype).numpy).smallest_subnormal
    x, one = it.from_numpy(tiny), it.ones(1, dtype=dtype)
    for y in (
        x + it.zeros(1, dtype=dtype),
        x * one,
        x * 1.0,
        ops.neg(ops.neg(x)),
        ops.linear(x, one.view(1, 1)),
        x.sum(),
        x.abs(),
    ):
        assert y.numpy().reshape(1) == tiny
    assert (x.astype("float64") == it.tensor([float(tiny[0])], dtype="float64")).item()
    assert (it.from_numpy(tiny.astype(np.float64)).astype(dtype) == x).item()
    if dtype == "float32":
        assert it.tensor([-100.0]).exp().item() == pytest.approx(math.exp(-100), rel=0.02)
    clear_plans()


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_rounding_keeps_nan(half):
    """Also NaNs with nothing but mantissa bits that rounding cuts off, and results of kernels."""
    bits = np.arange(0x7F800001, 0x7FFFFFFF, 65521, np.uint32)
    x = it.from_numpy(np.concatenate([bits, bits | 0x80000000]).view(np.float32))
    assert np.isnan(x.astype(half).numpy().astype(np.float32)).all()
    wide = np.array([0x7FF0000000000001, 0xFFF0000000000001], np.uint64).view(np.float64)
    assert np.isnan(it.from_numpy(wide).astype(half).numpy().astype(np.float32)).all()
    made = it.tensor([INF], dtype=half) - it.tensor([INF], dtype=half)
    assert math.isnan(made.item())


def test_an_infinite_gradient_of_the_loss_is_infinite():
    """As a scaled loss in float16 sends one: infinity minus infinity at the target would be NaN."""
    logits = it.tensor([[1.0, 2.0], [0.5, 0.25]], requires_grad=True)
    ops.cross_entropy(logits, it.tensor([0, 1])).backward(it.tensor(INF))
    assert logits.grad.tolist() == [[-INF, INF], [INF, -INF]]


def test_powers_of_zero():
    a = it.tensor([0.0, 0.0, 0.0, -0.0], requires_grad=True)
    b = it.tensor([-1.0, 0.0, 2.0, -2.0], requires_grad=True)
    (a**b).backward(it.tensor([1.0, 1.0, 1.0, 2.0]))
    assert b.grad.tolist() == [-INF, 0.0, 0.0, -INF]
