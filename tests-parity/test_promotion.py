"""The dtype of what two dtypes make together: torch.result_type's, or listed here with the reason."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from tensors import dtype_of

import infinitrain as it
from infinitrain import ops
from infinitrain.dtype import ALL, DType, promote

LACKING = ("uint16", "uint32", "uint64")
"""PyTorch promotes these with themselves and with floats only; with other integers ours follow NumPy's table."""

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (ops.add, torch.add),
    "sub": (ops.sub, torch.sub),
    "mul": (ops.mul, torch.mul),
    "div": (ops.div, torch.div),
    "pow": (ops.pow, torch.pow),
    "maximum": (ops.maximum, torch.maximum),
    "minimum": (ops.minimum, torch.minimum),
    "where": (
        lambda a, b: ops.where(ops.equals(a, a), a, b),
        lambda a, b: torch.where(torch.ones(2, dtype=torch.bool), a, b),
    ),
    "concat": (lambda a, b: ops.concat([a, b]), lambda a, b: torch.cat([a, b])),
    "stack": (lambda a, b: ops.stack([a, b]), lambda a, b: torch.stack([a, b])),
    "equals": (ops.equals, torch.eq),
    "lt": (ops.lt, torch.lt),
    "logical_and": (ops.logical_and, torch.logical_and),
}
REFUSED = {
    ("div", "bool", "bool"): "two bools have no quotient",
    ("pow", "*", "bool"): "an exponent is a number",
    ("pow", "bool", "*"): "a base is a number",
}
"""What we refuse and PyTorch computes, with the reason; ``*`` is any dtype."""

KINDS = {"b": 0, "u": 1, "i": 1, "f": 2}


def _torch_type(dtype: DType) -> torch.dtype:
    return getattr(torch, dtype.name)


@pytest.mark.parametrize("a", ALL, ids=str)
def test_promote(a: DType) -> None:
    for b in ALL:
        ours = promote(a, b)
        try:
            theirs = torch.promote_types(_torch_type(a), _torch_type(b))
        except RuntimeError:
            assert {a.name, b.name} & set(LACKING), f"{a}, {b}"
            continue
        assert ours.name == dtype_of(torch.empty(0, dtype=theirs)), f"{a}, {b}"


@pytest.mark.parametrize("op", PAIRS)
def test_dtypes_of_results(op: str) -> None:
    """All pairs of dtypes, unlike torch only where PyTorch has no kernel or ``REFUSED`` says why."""
    run, reference = PAIRS[op]
    compared = 0
    for a, b in product(ALL, ALL):
        x, y = (it.ones(2).astype(dtype) for dtype in (a, b))
        try:
            theirs = reference(*(torch.ones(2, dtype=_torch_type(dtype)) for dtype in (a, b)))
        except (RuntimeError, NotImplementedError):
            assert {a.name, b.name} & {*LACKING, "bool"}, f"{op} of {a}, {b}"
            continue
        if {(op, a.name, b.name), (op, "*", b.name), (op, a.name, "*")} & set(REFUSED):
            with pytest.raises(it.errors.DtypeError):
                run(x, y)
            continue
        assert dtype_of(run(x, y)) == dtype_of(theirs), f"{op} of {a}, {b}"
        compared += 1
    assert compared >= 80, "less than all pairs of the dtypes that PyTorch computes in"


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "equals", "lt"])
@pytest.mark.parametrize("number", [2, 2.5], ids=["int", "float"])
@pytest.mark.parametrize("first", [False, True], ids=["tensor first", "number first"])
def test_dtypes_with_a_number(op: str, number: float, first: bool) -> None:
    run, reference = PAIRS[op]
    for dtype in ALL:
        if dtype.name in LACKING or (first and op in ("equals", "lt")) or (op, dtype.name) == ("sub", "bool"):
            continue  # PyTorch has no kernel, or no such order of arguments; it refuses what is left
        x, y = it.ones(3).astype(dtype), torch.ones(3, dtype=_torch_type(dtype))
        pairs = ((number, x), (number, y)) if first else ((x, number), (y, number))
        assert dtype_of(run(*pairs[0])) == dtype_of(reference(*pairs[1])), f"{op} of {dtype}, {number}"


@pytest.mark.parametrize("op", ["add", "mul", "maximum"])
def test_a_tensor_without_axes_counts_as_any_other(op: str) -> None:
    """PyTorch lets a 0-d tensor decide between kinds only (bool, integer, float). Ours promotes by dtypes alone, as
    NumPy 2 and the array API standard do: a result's dtype does not depend on shapes.
    """
    run, reference = PAIRS[op]
    for a, b in product(ALL, ALL):
        if {a.name, b.name} & set(LACKING):
            continue
        ours = run(it.ones(3).astype(a), it.ones(()).astype(b))
        assert ours.dtype is promote(a, b)
        theirs = dtype_of(
            reference(torch.ones(3, dtype=_torch_type(a)), torch.ones((), dtype=_torch_type(b)))
        )
        assert theirs == (promote(a, b) if KINDS[b.kind] > KINDS[a.kind] else a).name, f"{a}, {b}"
