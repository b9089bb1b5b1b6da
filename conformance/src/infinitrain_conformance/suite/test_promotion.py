"""L2: which dtype two dtypes make together, for every pair, and that the values survive it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from infinitrain_conformance.check import close, expect
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target

SHORT: Final = {
    "b": "bool", "u1": "uint8", "i1": "int8", "u2": "uint16", "i2": "int16", "u4": "uint32", "i4": "int32",
    "u8": "uint64", "i8": "int64", "bf": "bfloat16", "f2": "float16", "f4": "float32", "f8": "float64",
}  # fmt: skip
# Written out, not computed: a wider one of a kind wins, a float beats integers, signed with unsigned needs the next
# signed one, and where there is none, or for the two half floats, the smallest float that holds both.
TABLE: Final = """
      b  u1 i1 u2 i2 u4 i4 u8 i8 bf f2 f4 f8
  b   b  u1 i1 u2 i2 u4 i4 u8 i8 bf f2 f4 f8
  u1  u1 u1 i2 u2 i2 u4 i4 u8 i8 bf f2 f4 f8
  i1  i1 i2 i1 i4 i2 i8 i4 f8 i8 bf f2 f4 f8
  u2  u2 u2 i4 u2 i4 u4 i4 u8 i8 bf f2 f4 f8
  i2  i2 i2 i2 i4 i2 i8 i4 f8 i8 bf f2 f4 f8
  u4  u4 u4 i8 u4 i8 u4 i8 u8 i8 bf f2 f4 f8
  i4  i4 i4 i4 i4 i4 i8 i4 f8 i8 bf f2 f4 f8
  u8  u8 u8 f8 u8 f8 u8 f8 u8 f8 bf f2 f4 f8
  i8  i8 i8 i8 i8 i8 i8 i8 f8 i8 bf f2 f4 f8
  bf  bf bf bf bf bf bf bf bf bf bf f4 f4 f8
  f2  f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8
  f4  f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8
  f8  f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8
"""


def _expected() -> dict[tuple[str, str], str]:
    head, *lines = (line.split() for line in TABLE.strip().splitlines())
    return {
        (SHORT[row], SHORT[column]): SHORT[result]
        for row, *results in lines
        for column, result in zip(head, results, strict=True)
    }


EXPECTED: Final = _expected()
PAIRS: Final = tuple(itertools.product(SHORT.values(), SHORT.values()))


def _values(dtype: Any, largest: float, first: bool) -> np.ndarray:
    """Return values that any pair of dtypes can add and multiply; floats with a last place that the other half float
    would lose.
    """
    values = np.array([0.0, 1.0, 5.0, largest, 3.0] if first else [3.0, 5.0, 7.0, 2.0, 3.0])
    if dtype.kind == "b":
        values = values % 2
    elif dtype.kind == "i":
        values = values * ([-1, 1, 1, -1, 1] if first else [1, -1, 1, 1, 1])
    elif dtype.name in ("bfloat16", "float16"):
        values[1] += {"bfloat16": 2.0**-7, "float16": 2.0**-10}[dtype.name]
    return values.astype(dtype.numpy)


def _check(
    op: str, pair: tuple[str, str], result: str, fn: Callable[..., Any], target: Target, heading: str,
    largest: float = 11.0, condition: np.ndarray | None = None,
) -> None:  # fmt: skip
    __tracebackhide__ = True
    import infinitrain as it
    from infinitrain.dtype import as_dtype

    a, b = (_values(as_dtype(name), largest, i == 0) for i, name in enumerate(pair))
    host = [a, b] if condition is None else [condition, a, b]
    got = it.backend.OPS[op].call(*[it.from_numpy(x, target.device) for x in host])
    expect(
        heading, got.dtype.name == result, f"{pair[0]} with {pair[1]} gives {got.dtype}, expected {result}"
    )
    left, right = a.astype(np.float64), b.astype(np.float64)
    value = np.asarray(fn(left, right), np.float64)
    close(heading, op, {"y": got}, {"y": Want(value, np.abs(left) + np.abs(right) + np.abs(value))})


def _op(name: str) -> pytest.MarkDecorator:
    return pytest.mark.contract("4.1", level="L2", op=name)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("AddForward")
def test_add(a: str, b: str, target: Target, heading: str) -> None:
    either = a == b == "bool"
    _check("AddForward", (a, b), EXPECTED[a, b], np.maximum if either else np.add, target, heading)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("MulForward")
def test_mul(a: str, b: str, target: Target, heading: str) -> None:
    _check("MulForward", (a, b), EXPECTED[a, b], np.multiply, target, heading)


@pytest.mark.parametrize(("a", "b"), [pair for pair in PAIRS if pair != ("bool", "bool")])
@_op("DivForward")
def test_div(a: str, b: str, target: Target, heading: str) -> None:
    """Integers give float32, but where the pair makes float64."""
    from infinitrain.dtype import as_dtype

    result = EXPECTED[a, b] if as_dtype(EXPECTED[a, b]).is_floating else "float32"

    def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):  # a bool may be 0
            quotient: np.ndarray = x / y
            return quotient

    _check("DivForward", (a, b), result, divide, target, heading)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("WhereForward")
def test_where(a: str, b: str, target: Target, heading: str) -> None:
    condition = np.array([True, False, True, True, False])
    _check(
        "WhereForward", (a, b), EXPECTED[a, b], lambda x, y: np.where(condition, x, y), target, heading,
        condition=condition,
    )  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("EqualsForward")
def test_equals(a: str, b: str, target: Target, heading: str) -> None:
    _check("EqualsForward", (a, b), "bool", np.equal, target, heading)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("LtForward")
def test_lt(a: str, b: str, target: Target, heading: str) -> None:
    """-100 is less than any unsigned number: a comparison in unsigned integers says otherwise."""
    _check("LtForward", (a, b), "bool", np.less, target, heading, largest=100.0)


@pytest.mark.parametrize(("a", "b"), PAIRS)
@_op("GeForward")
def test_ge(a: str, b: str, target: Target, heading: str) -> None:
    _check("GeForward", (a, b), "bool", np.greater_equal, target, heading, largest=100.0)
