"""Infinities, NaN, zeros and dtypes that meet: where conventions differ, ours are PyTorch's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import infinitrain as it
from infinitrain import ops
from infinitrain.dtype import promote

VALUES = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 88, -88, 100, -100, 3e38], np.float32)
ROWS = np.array(
    [[np.inf, 1, 2], [-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [np.nan, 1, 2], [1e30, 1, 2], [5, 5, 5]],
    np.float32,
)
UNARY = (
    "neg",
    "abs",
    "reciprocal",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
)
DTYPES = ["bool_", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


def _same(ours: it.Tensor, theirs: torch.Tensor) -> None:
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-38, strict=True)


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    _same(getattr(ops, name)(it.from_numpy(VALUES)), getattr(torch, name)(torch.tensor(VALUES)))


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])
def test_powers(exponent: float) -> None:
    _same(ops.pow(it.from_numpy(VALUES), exponent), torch.pow(torch.tensor(VALUES), exponent))


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (None, 0.0), (-np.inf, np.inf), (1.0, None)])
def test_clamp(bounds: tuple[float | None, float | None]) -> None:
    ours, theirs = it.from_numpy(VALUES), torch.tensor(VALUES)
    ours.requires_grad = theirs.requires_grad = True
    y, z = ops.clamp(ours, *bounds), torch.clamp(theirs, *bounds)
    _same(y, z.detach())
    y.sum().backward()
    z.sum().backward()
    _same(ours.grad, theirs.grad)


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_gelu(form: str) -> None:
    values = VALUES[np.abs(VALUES) < 1e38]  # of 3e38 PyTorch's exact form makes infinity
    _same(ops.gelu(it.from_numpy(values), form), F.gelu(torch.tensor(values), approximate=form))


def test_silu() -> None:
    _same(ops.silu(it.from_numpy(VALUES)), F.silu(torch.tensor(VALUES)))


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_is_distributed_alike(p: float) -> None:
    """The masks differ; shares of zeros and means agree to 5 standard errors of their difference."""
    n = 200_000
    ours = ops.dropout(it.ones((100, n // 100)), p).numpy().astype(np.float64)
    theirs = F.dropout(torch.ones(n), p).numpy().astype(np.float64)
    error = 5 * np.sqrt(2 * p * (1 - p) / n)
    assert abs((ours == 0).mean() - (theirs == 0).mean()) < error
    assert abs(ours.mean() - theirs.mean()) < error / (1 - p)
    np.testing.assert_allclose(np.unique(ours), np.unique(theirs), rtol=1e-6)


@pytest.mark.parametrize("base", [0.0, 1.0, 2.0])
def test_powers_of_a_number(base: float) -> None:
    _same(ops.pow(base, it.from_numpy(VALUES)), torch.pow(base, torch.tensor(VALUES)))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic(name: str) -> None:
    a, b = (np.array(side, np.float32) for side in zip(*product(VALUES, VALUES), strict=True))
    _same(
        getattr(ops, name)(it.from_numpy(a), it.from_numpy(b)),
        getattr(torch, name)(*map(torch.tensor, (a, b))),
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "max", "min", "argmax"])
def test_rows(name: str) -> None:
    theirs = getattr(torch, {"max": "amax", "min": "amin"}.get(name, name))
    rows = ROWS[[0, 1, 3, 4]] if name == "argmax" else ROWS  # of equals, PyTorch promises none
    _same(getattr(ops, name)(it.from_numpy(rows), -1), theirs(torch.tensor(rows), -1))


@pytest.mark.parametrize("targets", [[1, 0], [0, 0], [-100, -100]])
def test_cross_entropy(targets: list[int]) -> None:
    logits, index = ROWS[[1, 4]], np.array(targets)
    _same(
        ops.cross_entropy(it.from_numpy(logits), it.from_numpy(index)),
        F.cross_entropy(torch.tensor(logits), torch.tensor(index)),
    )


@pytest.mark.parametrize(("a", "b"), list(product(DTYPES, DTYPES)))
def test_dtypes_that_meet(a: str, b: str) -> None:
    theirs = torch.promote_types(*(getattr(torch, name.removesuffix("_")) for name in (a, b)))
    assert str(promote(getattr(it, a), getattr(it, b))) == str(theirs).removeprefix("torch.")


@pytest.mark.parametrize(("a", "b"), list(product(DTYPES, DTYPES)))
def test_comparisons_of_dtypes_that_meet(a: str, b: str) -> None:
    left, right = np.array([0.0, 1, 5, 100, 3, -7]), np.array([1.0, 1, 7, 99, -3, -7])
    ours, theirs = [], []
    for values, name in ((left, a), (right, b)):
        dtype = name.removesuffix("_")
        whole = np.abs(values) if dtype in ("bool", "uint8") else values
        ours.append(it.from_numpy(whole).astype(dtype))
        theirs.append(torch.tensor(whole).to(getattr(torch, dtype)))
    for name in ("equals", "not_equals", "lt", "le", "gt", "ge", "logical_and", "logical_or"):
        compare = getattr(torch, {"equals": "eq", "not_equals": "ne"}.get(name, name))
        got, want = getattr(ops, name)(*ours), compare(*theirs)
        np.testing.assert_array_equal(got.numpy(), want.numpy(), err_msg=name, strict=True)


def test_gradients_of_powers() -> None:
    """Zeros, negative numbers and infinities to such powers."""
    values = np.array([0.0, -0.0, 1.0, 1.5, -2.0, np.inf, 0.5], np.float32)
    powers = np.array([0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -2.0], np.float32)
    a, b = (np.array(side, np.float32) for side in zip(*product(values, powers), strict=True))
    ours = [it.from_numpy(x, requires_grad=True) for x in (a, b)]
    theirs = [torch.tensor(x, requires_grad=True) for x in (a, b)]
    ops.pow(*ours).sum().backward()
    torch.pow(*theirs).sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        _same(x.grad, y.grad)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.0, 2.0, 3.0])
def test_gradients_of_powers_with_a_number(exponent: float) -> None:
    """Not of 0.5, where PyTorch divides by the root: of -0 that is -infinity, by IEEE's pow infinity."""
    ours, theirs = it.from_numpy(VALUES, requires_grad=True), torch.tensor(VALUES, requires_grad=True)
    ops.pow(ours, exponent).sum().backward()
    torch.pow(theirs, exponent).sum().backward()
    _same(ours.grad, theirs.grad)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("targets", [[1, 0], [0, -100], [-100, -100]])
def test_cross_entropy_of_large_logits(targets: list[int], smoothing: float) -> None:
    logits = np.array([[1e4, -1e4, 0, 3], [5, 5, 5, 5]], np.float32)
    ours, theirs = it.from_numpy(logits, requires_grad=True), torch.tensor(logits, requires_grad=True)
    index = np.array(targets)
    got = ops.cross_entropy(ours, it.from_numpy(index), label_smoothing=smoothing)
    want = F.cross_entropy(theirs, torch.tensor(index), label_smoothing=smoothing)
    _same(got.detach(), want.detach())
    got.backward()
    want.backward()
    if targets != [-100, -100]:  # where ours is 0 and theirs NaN
        _same(ours.grad, theirs.grad)
