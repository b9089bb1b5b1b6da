"""Every case again with integers and bools in place of its floats: values, dtypes, and who refuses what.

Where PyTorch lacks a kernel (all of uint16, uint32, uint64, and some of bool) the values are those that it computes in
int64, or in float64 where it computes no integers, in the dtype that ours have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from agreement import array
from cases import CASES, Case
from tensors import as_tuple, dtype_of
from tolerances import SINGLE

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.optable import OPS
from infinitrain.dtype import INTEGER
from infinitrain.errors import InfiniTrainError

DTYPES = ("bool", *(dtype.name for dtype in INTEGER))
NO_BOOLS = {
    **dict.fromkeys(
        ("reciprocal", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "erf", "pow"),
        "a bool is no number: cast it",
    ),
    **dict.fromkeys(("isfinite", "isnan"), "always true, always false"),
    **dict.fromkeys(("max", "min", "topk", "argmax", "argmin"), "any and all are comparisons of a sum"),
    "div": "two bools have no quotient",
    "scatter_add": "bools have no sum of their own dtype",
}
FLOATS_ONLY = {
    "relu": "an activation",
    **dict.fromkeys(("matmul", "outer", "linear"), "no library of fast products has integers"),
    **dict.fromkeys(("linear_cross_entropy", "rope"), "PyTorch's is composed, and promotes by accident"),
    "embedding": "a table is a parameter",
    "dropout": "an activation",
    **dict.fromkeys(("softmax", "log_softmax"), "PyTorch takes integers only where there are none"),
}
ODD_NUMBERS = {
    "setitem-number": "2.5 is not put into integers",
    "setitem-mask": "-1.0 is not put into integers",
    "masked_fill-same_shape": "-2.5 is not put into integers",
    "masked_fill-mask_broadcast": "7 is no bool",
    "where-number_second": "-3 is no unsigned number",
}
"""What we refuse and PyTorch computes, with the reason: ops for bools, ops for all integers, single cases."""
TIES = {
    "topk": "PyTorch promises no order of equal elements; the values are compared, the places in core's tests"
}


@pytest.mark.parametrize("case", [c for c in CASES if c.has_floats() and c.op != "cast"], ids=str)
def test_integers(case: Case) -> None:
    rng = np.random.default_rng(crc32(str(case).encode()))
    made = [make(rng) for make in case.inputs]
    for dtype in DTYPES:
        values = [_whole(x, dtype) if x.dtype.kind == "f" else x for x in made]
        ours = _run(lambda *x: case.ours(getattr(ops, case.op), *x), [it.from_numpy(x) for x in values])
        theirs = _run(case.theirs, [torch.tensor(x) for x in values])
        if ours is None:
            listed = case.op in FLOATS_ONLY or str(case) in ODD_NUMBERS
            listed = listed or (case.op in OPS and OPS[case.op].dtypes != "all")  # a row, as it is declared
            listed = listed or (dtype == "bool" and case.op in NO_BOOLS)
            assert theirs is None or listed, f"{case}, {dtype}: we refuse what PyTorch computes"
            continue
        assert case.op not in FLOATS_ONLY, f"{case}, {dtype}: computed, and listed as refused"
        same_dtypes = theirs is not None
        for wide in ("int64", "float64"):
            if theirs is None:
                theirs = _run(
                    case.theirs, [torch.tensor(_as(x, y, wide)) for x, y in zip(values, made, strict=True)]
                )
        assert theirs is not None, f"{case}, {dtype}: nothing to compare with"
        compared = 1 if case.op in TIES else len(theirs)
        for a, b in zip(ours[:compared], theirs[:compared], strict=True):
            if same_dtypes:
                assert dtype_of(a) == dtype_of(b), f"{case}, {dtype}"
            _assert_same(a, b, f"{case}, {dtype}")


def _whole(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return floats of a case as whole numbers, a few times as large, without a sign where the dtype has none."""
    whole = np.asarray(np.nan_to_num(np.rint(3 * x))).clip(-100, 100)
    if dtype == "bool":
        return np.asarray(whole != 0)
    return np.asarray((np.abs(whole) if dtype.startswith("u") else whole).astype(dtype))


def _as(x: np.ndarray, original: np.ndarray, wide: str) -> np.ndarray:
    return x.astype(wide) if original.dtype.kind == "f" else x


def _run(f: Callable[..., Any], inputs: list[Any]) -> tuple[Any, ...] | None:
    """Return the results, or None for a dtype that is refused."""
    try:
        return as_tuple(f(*inputs))
    except (InfiniTrainError, NotImplementedError, RuntimeError, ValueError, TypeError):
        return None


def _assert_same(ours: it.Tensor, theirs: torch.Tensor, what: str) -> None:
    a, b = array(ours), array(theirs)
    if ours.dtype.is_floating:
        np.testing.assert_allclose(a, b, rtol=SINGLE, atol=1e-30, err_msg=what)
    else:  # integers wrap around alike
        np.testing.assert_array_equal(a, b.astype(a.dtype), err_msg=what)
