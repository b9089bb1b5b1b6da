"""Arithmetic of a tensor and a number, and powers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import HALF_AND_SINGLE, Built, Data, OpCase, case
from ..oracles import Want, sum_to

CASES: list[OpCase] = []
Array = np.ndarray
Shape = tuple[int, ...]
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = ("bool", *UNSIGNED, "int8", "int16", "int32", "int64")


def add(d: Data, value: Any, shape: Shape = (5, 33)) -> Built:
    return Built((d.normal(*shape, mean=0.5), value), lambda x, v: {"y": Want(x + v, np.abs(x) + abs(v))})


def minus_zero(d: Data) -> Built:
    """It changes nothing, 0 of either sign included."""
    return Built((np.array([0.0, -0.0, 1.5, -2.0] * 33), -0.0), lambda x, v: {"y": Want(x + v, np.abs(x))})


def mul(d: Data, value: Any, shape: Shape = (5, 33)) -> Built:
    return Built((d.normal(*shape, mean=0.5), value), lambda x, v: {"y": Want(x * v, np.abs(x * v))})


def wraps(d: Data, op: Callable[[int, int], int], value: int) -> Built:
    """Unsigned values near the end of the range; as they are, not through float64."""
    bits = 8 * d.dtype.itemsize
    x = np.array([2**bits - 1 - i for i in range(7)], dtype=d.dtype.numpy)

    def oracle(x: Array, value: int) -> dict[str, Want]:
        y = np.array([op(int(v), value) % 2**bits for v in x], np.float64)
        return {"y": Want(y, np.zeros_like(y))}

    return Built((x, value), oracle)


case(CASES, "AddScalarForward", "whole", add, 3)
case(CASES, "AddScalarForward", "fraction", add, 0.5, dtypes=("float32", "bfloat16", "float16", *INTEGERS))
case(CASES, "AddScalarForward", "wraps", wraps, int.__add__, 5, dtypes=UNSIGNED)
case(CASES, "AddScalarForward", "minus_zero", minus_zero, clause="4.7", dtypes=HALF_AND_SINGLE)
case(CASES, "AddScalarForward", "empty", add, 1.5, (0, 3), dtypes=("float32",), clause="4.4")
case(CASES, "MulScalarForward", "whole", mul, 3)
case(CASES, "MulScalarForward", "fraction", mul, -0.75, dtypes=("float32", "bfloat16", "float16", *INTEGERS))
case(CASES, "MulScalarForward", "wraps", wraps, int.__mul__, 3, dtypes=UNSIGNED)
case(CASES, "MulScalarForward", "no_axes", mul, 1.5, (), dtypes=("float32",))


def div(d: Data, scalar: Any, dividend: bool, shape: Shape = (5, 33)) -> Built:
    x = d.normal(*shape, mean=0.5)
    if dividend:  # away from zero
        x = (
            d.round(np.where(x < 0, -1.0, 1.0) * (1.0 + np.abs(x)))
            if d.dtype.name != "bool"
            else np.ones_like(x)
        )

    def oracle(x: Array, scalar: Any, dividend: bool) -> dict[str, Want]:
        y = scalar / x if dividend else x / scalar
        return {"y": Want(y, np.abs(y))}

    return Built((x, scalar, dividend), oracle)


def div_backward(d: Data, scalar: float, shape: Shape) -> Built:
    x = d.round(d.rng.uniform(0.3, 4.0, shape) * d.rng.choice([-1.0, 1.0], shape))

    def oracle(grad: Array, x: Array, scalar: float) -> dict[str, Want]:
        return {"dx": Want(-(grad / x) * (scalar / x), np.abs(grad / x) * np.abs(scalar / x))}

    return Built((d.like(x), x, scalar), oracle)


case(CASES, "DivScalarForward", "divisor", div, 3, False)
case(CASES, "DivScalarForward", "fraction", div, -0.3, False)
case(
    CASES,
    "DivScalarForward",
    "dividend",
    div,
    2,
    True,
    dtypes=("float32", "bfloat16", "float16", "float64", *INTEGERS),
)
case(CASES, "DivScalarBackward", "random", div_backward, 1.5, (5, 33))
case(CASES, "DivScalarBackward", "negative", div_backward, -40.0, (7,))


def _power(base: Array, exponent: Array) -> Want:
    """The exponent is known to a unit of itself, which the logarithm of the base enlarges."""
    with np.errstate(divide="ignore"):  # 0 to a negative power is infinite
        value = np.power(base, exponent)
    enlarged = np.abs(exponent * np.log(np.where(base == 0, 1.0, np.abs(base))))
    return Want(value, np.abs(value) * (1.0 + enlarged))


def power(d: Data, scalar: Any, is_base: bool, low: float, high: float, shape: Shape = (5, 33)) -> Built:
    x = d.round(d.rng.uniform(max(low, 0.0) if d.dtype.kind == "u" else low, high, shape))

    def oracle(x: Array, scalar: Any, is_base: bool) -> dict[str, Want]:
        s = np.full(x.shape, float(scalar))
        return {"y": _power(s, x) if is_base else _power(x, s)}

    return Built((x, scalar, is_base), oracle)


def power_backward(
    d: Data, scalar: float, is_base: bool, low: float, high: float, shape: Shape = (5, 33)
) -> Built:
    x = d.round(d.rng.uniform(low, high, shape))

    def oracle(grad: Array, x: Array, s: float, is_base: bool) -> dict[str, Want]:
        if s == 0:
            slope = Want(np.zeros_like(x), np.zeros_like(x))
        elif is_base:
            p = _power(np.full(x.shape, s), x)
            slope = Want(p.value * np.log(s), p.magnitude * abs(np.log(s)))
        else:
            p = _power(x, np.full(x.shape, s - 1.0))
            slope = Want(s * p.value, abs(s) * p.magnitude)
        return {"dx": Want(grad * slope.value, np.abs(grad) * slope.magnitude)}

    return Built((d.like(x), x, scalar, is_base), oracle)


# Integer powers stay within int8: at most 2.9, cut to 2, to the third.
case(CASES, "PowForward", "cube", power, 3, False, -2.9, 2.9)
case(CASES, "PowBackward", "cube", power_backward, 3.0, False, -2.9, 2.9)  # first: zeros would show nothing
for label, scalar, low, high in (
    ("zero", 0.0, -3.0, 3.0), ("one", 1.0, -3.0, 3.0), ("square", 2.0, -3.0, 3.0), ("fourth", 4.0, -3.0, 3.0),
    ("root", 0.5, 0.01, 30.0), ("third", 1.0 / 3.0, 0.01, 30.0), ("inverse", -1.0, 0.2, 5.0),
    ("inverse_root", -1.5, 0.2, 5.0), ("large", 7.5, 0.5, 2.0),
):  # fmt: skip
    case(CASES, "PowForward", label, power, scalar, False, low, high)
    case(CASES, "PowBackward", label, power_backward, scalar, False, low, high)
case(CASES, "PowForward", "base", power, 2, True, 0.0, 5.0, dtypes=("float32", "bfloat16", *INTEGERS))
case(CASES, "PowForward", "fraction_base", power, 0.7, True, -5.0, 5.0)
case(CASES, "PowForward", "integers_to_a_fraction", power, 0.5, False, 0.0, 9.0, dtypes=("int32", "uint8"))
case(CASES, "PowBackward", "base", power_backward, 2.5, True, -3.0, 3.0)
case(CASES, "PowBackward", "zero_base", power_backward, 0.0, True, 0.5, 3.0)


def powers(d: Data, a: Shape, b: Shape, negative: bool) -> Built:
    base = d.round(d.rng.uniform(0.2, 2.9, a))
    exponent = d.round(d.rng.uniform(0.0, 3.9, b))
    if negative:  # of negative numbers there are whole powers only
        base, exponent = d.round(base * d.rng.choice([-1.0, 1.0], a)), np.trunc(exponent)
    return Built((base, exponent), lambda a, b: {"y": _power(*np.broadcast_arrays(a, b))})


def powers_backward(d: Data, a: Shape, b: Shape, edges: bool) -> Built:
    base, exponent = d.round(d.rng.uniform(0.2, 2.9, a)), d.round(d.rng.uniform(-2.0, 3.0, b))
    if edges:  # 0 to positive powers, anything to the power 0
        base.reshape(-1)[::5], exponent = 0.0, d.round(np.abs(exponent) + 0.25)
        exponent.reshape(-1)[::3] = 0.0
        base.reshape(-1)[::15] = 1.5
    grad = d.normal(*np.broadcast_shapes(a, b), mean=0.3, scale=0.5)

    def oracle(grad: Array, a: Array, b: Array) -> dict[str, Want]:
        x, y = np.broadcast_arrays(a, b)
        flat = (x == 0) & (y >= 0)  # 0 to any power from 0 on does not change with the power
        safe, unit = np.where(flat, 1.0, x), np.where(y == 0, 1.0, y)
        by_a, by_b = _power(x, unit - 1.0), _power(safe, y)
        da, size_a = grad * y * by_a.value, np.abs(grad * y) * by_a.magnitude
        with np.errstate(divide="ignore"):
            log = np.log(safe)
        db, size_b = grad * by_b.value * log, np.abs(grad) * by_b.magnitude * np.abs(log)
        terms = max(1, grad.size // max(1, min(a.size, b.size)))
        return {
            "da": Want(sum_to(np.where(y == 0, 0.0, da), a.shape), sum_to(size_a, a.shape), terms),
            "db": Want(sum_to(db, b.shape), sum_to(size_b, b.shape), terms),
        }

    return Built((grad, base, exponent), oracle)


for label, left, right in (("same", (5, 33), (5, 33)), ("row", (4, 8), (8,)), ("both", (4, 1, 6), (3, 1))):
    case(CASES, "PowTensorForward", label, powers, left, right, False)
    case(CASES, "PowTensorBackward", label, powers_backward, left, right, False)
case(CASES, "PowTensorBackward", "rows4096", powers_backward, (4096, 3), (3,), False)
case(
    CASES,
    "PowTensorForward",
    "negative",
    powers,
    (5, 33),
    (5, 33),
    True,
    dtypes=("float32", "float64", "int32", "int64"),
)
case(CASES, "PowTensorBackward", "edges", powers_backward, (5, 30), (5, 30), True)
