"""Infinities, NaN, zeros, subnormals, the largest numbers: where conventions differ, ours are PyTorch's.

In every floating dtype, for every function of one tensor, every function of two, and every reduction: results and
gradients. Halves agree with PyTorch's own or with its float32, rounded: its half kernels are not all exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from agreement import array
from tensors import dtype_of, ours
from tolerances import HALVES, ulps

import infinitrain as it
from infinitrain import ops

FLOATS = ["float32", "float64", "bfloat16", "float16"]
RELATIVE = {"float32": 2e-6, "float64": 1e-13}
VALUES = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 88, -88, 100, -100, 3e38], np.float32)
ROWS = np.array(
    [[np.inf, 1, 2], [-np.inf, 1, 2], [-np.inf, -np.inf, -np.inf], [np.nan, 1, 2], [1e30, 1, 2], [5, 5, 5]],
    np.float32,
)
_NAMES = {
    "Not": "logical_not",
    "And": "logical_and",
    "Or": "logical_or",
    "PowTensor": "pow",
    "NotEquals": "not_equals",
    "LogSoftmax": "log_softmax",
}


def _norm(x: torch.Tensor, axis: int) -> torch.Tensor:
    """Return the norm, whose squares PyTorch lets leave the range; in float64 they do not, for narrower dtypes."""
    return torch.linalg.vector_norm(x.double(), dim=axis).to(x.dtype)


_THEIRS: dict[str, Callable[..., Any]] = {
    "silu": F.silu,
    "equals": torch.eq,
    "not_equals": torch.ne,
    "max": torch.amax,
    "min": torch.amin,
    "norm": _norm,
}
LEFT_OUT: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "norm": (
        lambda x: ((x.double().abs() > 1e150) | (x.double().abs() < 1e-150)) & (x != 0) & x.isfinite(),
        "PyTorch squares them: infinity, or 0; ours is right, see core's tests",
    ),
    "sigmoid": (lambda x: x == -100, "below -88 PyTorch's float32 gives 0, ours the subnormal that it is"),
    "cumsum": (lambda x: x.abs() > 1e38, "PyTorch adds float32 in float64, which these do not overflow"),
}
NO_GRADIENT: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "abs": (torch.isnan, "the gradient at NaN is NaN; PyTorch's is 0"),
    "rsqrt": (lambda x: (x == 0) & x.signbit(), "at -0.0 ours is -inf, as at 0.0; PyTorch's inf"),
    "div": (
        lambda a, b: b.abs() < torch.finfo(b.dtype).tiny,
        "1 / b, which both gradients share, is infinite",
    ),
    "norm": (
        lambda x: (x.abs() == torch.finfo(x.dtype).max) | ((x != 0) & (x.abs() < torch.finfo(x.dtype).tiny)),
        "a norm beyond the range is infinite, a subnormal one rounded; ours divides by what the norm is",
    ),
    "max": (torch.isnan, "NaN takes the whole gradient; PyTorch makes all of the row NaN"),
    "min": (torch.isnan, "as max"),
}
"""Function -> which values are left out of its test, or of its gradients' test, with the reason."""


def _of(*params: str) -> list[str]:
    """Return the functions whose rows have these parameters and no others."""
    rows = [name.removesuffix("Forward") for name, row in ops.OPS.items() if row.param_names == params]
    return [_NAMES.get(name, name.lower()) for name in rows]


UNARY = _of("x")
BINARY = [name for name in _of("a", "b") if name != "matmul"]
REDUCTIONS = [*_of("x", "axes", "keepdims"), *_of("x", "axis", "keepdims"), *_of("x", "axis")]


def special(dtype: str) -> torch.Tensor:
    """Return special values of ``dtype``: subnormals, the least and the largest numbers of its own among them."""
    info = torch.finfo(getattr(torch, dtype))
    values = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 88, -88, 100, -100, 0.5, -2.5, 3]
    values += [info.tiny, -info.tiny, info.tiny * info.eps * 4, info.max, -info.max]
    return torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))


def _theirs(name: str) -> Callable[..., Any]:
    return _THEIRS.get(name) or getattr(torch, name)


def _wide_unit(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return what library functions may err by, at least two of the smallest numbers."""
    return RELATIVE[dtype] * np.abs(x) + 2 * float(np.finfo(dtype).smallest_subnormal)


def _agree(a: Any, b: Any, rounded: Any, what: str, least: float = 0.0) -> None:
    """Fail unless NaN and infinities are in the same places, and numbers a rounding, or ``least``, apart."""
    assert dtype_of(a) == dtype_of(b), what
    dtype, x, y, z = dtype_of(a), array(a), array(b), array(rounded)
    if dtype not in FLOATS:
        np.testing.assert_array_equal(x, y, err_msg=what)
        return
    with np.errstate(invalid="ignore"):
        near = np.isnan(x) & (np.isnan(y) | np.isnan(z))
        for other in (y, z):
            unit = ulps(other, dtype) if dtype in HALVES else _wide_unit(other, dtype)
            near |= (x == other) | (np.abs(x - other) <= unit + least)
    assert near.all(), f"{what}: ours {x[~near][:6]}, theirs {y[~near][:6]}"


def _run(name: str, inputs: list[torch.Tensor], *args: Any) -> list[Any]:
    """Return what PyTorch's function gives, and the gradients of its sum, None where there is none."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = _theirs(name)(*inputs, *args)
    if y.requires_grad:
        y.backward(torch.ones_like(y))
    return [y, *[x.grad for x in inputs]]


def _compare(name: str, inputs: list[torch.Tensor], *args: Any) -> None:
    """Compare a function of ``inputs``, and the gradients of its sum where there are some."""
    inputs = _without(inputs, LEFT_OUT.get(name))
    for chosen, gradients in ((inputs, False), (_without(inputs, NO_GRADIENT.get(name)), True)):
        mine = [ours(x.clone().requires_grad_()) for x in chosen]
        y = getattr(ops, name)(*mine, *args)
        theirs, dtype = _run(name, chosen, *args), chosen[0].dtype
        wide = _run(name, [x if x.itemsize > 2 else x.float() for x in chosen], *args)
        rounded = [x.to(b.dtype) if b is not None else None for x, b in zip(wide, theirs, strict=True)]
        if not gradients:
            # The CPU's softmax takes probabilities below the normal numbers for 0.
            least = float(np.finfo(np.float32).smallest_normal) if name == "softmax" else 0.0
            _agree(y, theirs[0], rounded[0], f"{name} of {dtype}", least)
        elif y.requires_grad:
            y.backward(it.ones(y.shape).astype(y.dtype))
            least = (
                torch.finfo(dtype).eps * 4 if args else 0.0
            )  # a gradient of a reduction is a sum that may be 0
            for i, (a, *both) in enumerate(zip(mine, theirs[1:], rounded[1:], strict=True)):
                _agree(a.grad, *both, f"{name} of {dtype}, gradient of input {i}", least)


def _without(inputs: list[torch.Tensor], left_out: Any) -> list[torch.Tensor]:
    """Return the elements, or rows, of which none is left out."""
    if left_out is None:
        return inputs
    out = left_out[0](*inputs)
    kept = ~(out.any(-1) if out.ndim > 1 else out)
    return [x[kept] for x in inputs]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str, dtype: str) -> None:
    _compare(name, [special(dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str, dtype: str) -> None:
    values = special(dtype)
    _compare(name, [x.reshape(-1) for x in torch.meshgrid(values, values, indexing="ij")])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str) -> None:
    """Rows of three special values each, in every combination."""
    values = special(dtype)
    rows = torch.cartesian_prod(values, values, values)
    if name.startswith("arg"):  # of equals, PyTorch promises none
        rows = rows[(rows.diff(dim=1) != 0).all(1) & (rows[:, 0] != rows[:, 2])]
    _compare(name, [rows], -1)


def _same(ours: it.Tensor, theirs: torch.Tensor) -> None:
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-6, atol=1e-38, strict=True)


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


@pytest.mark.parametrize("targets", [[1, 0], [0, 0], [-100, -100]])
def test_cross_entropy(targets: list[int]) -> None:
    logits, index = ROWS[[1, 4]], np.array(targets)
    _same(
        ops.cross_entropy(it.from_numpy(logits), it.from_numpy(index)),
        F.cross_entropy(torch.tensor(logits), torch.tensor(index)),
    )


INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
_ORDER = ["maximum", "minimum", "equals", "not_equals", "lt", "le", "gt", "ge", "logical_and", "logical_or"]
_WHOLE = {
    "one": ["neg", "abs", "reciprocal", "exp", "sqrt", "sin", "sigmoid", "logical_not", "isfinite"],
    "two": ["add", "sub", "mul", "div", *_ORDER],
    "a number": ["add", "sub", "mul", "div", *_ORDER[2:8]],
    "rows": ["sum", "max", "min", "argmax", "argmin", "cumsum"],
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [f"{form}: {name}" for form, names in _WHOLE.items() for name in names])
def test_integers(name: str, dtype: str) -> None:
    """The least and the largest integers: sums wrap around, orders hold, functions are those of the float32."""
    form, op = name.split(": ")
    info = torch.iinfo(getattr(torch, dtype))
    values = [
        info.min,
        info.min + 1,
        info.max,
        info.max - 1,
        0,
        1,
        2,
        7,
        100,
        *([-1, -2, -7] if info.min else []),
    ]
    x = torch.tensor(values, dtype=getattr(torch, dtype))
    inputs: list[Any] = [x]
    if form == "two":
        inputs = [part.reshape(-1) for part in torch.meshgrid(x, x, indexing="ij")]
    elif form == "rows":
        rows = torch.cartesian_prod(x, x, x)
        inputs = [
            rows[(rows.diff(dim=1) != 0).all(1) & (rows[:, 0] != rows[:, 2])]
        ]  # of equals, none is promised
    numbers = (3, 2.5) if form == "a number" else (None,)
    for number in numbers:
        for first in (False, True) if number and op in ("add", "sub", "mul", "div") else (False,):
            extra = [] if number is None else [number]
            args = [*extra, *inputs] if first else [*inputs, *extra]
            axis = [-1] if form == "rows" else []
            theirs = _theirs(op)(*args, *axis)
            mine = getattr(ops, op)(*[ours(a) if isinstance(a, torch.Tensor) else a for a in args], *axis)
            _agree(mine, theirs, theirs, f"{op} of {dtype}, {number}", 0.0)
