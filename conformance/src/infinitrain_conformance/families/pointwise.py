"""Unary and binary arithmetic with gradients, summed back over what was broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import HALF_AND_SINGLE, As, Built, Data, OpCase, case
from ..oracles import Want, sum_to
from .elementwise import zeros

CASES: list[OpCase] = []
Array = np.ndarray
Unary = Callable[[Array], Array]

# Name, domain, value, error of the value in units (1 + what the argument's size adds), derivative by x, is y saved?
UNARY: tuple[tuple[str, tuple[float, float], Unary, Unary, Unary, bool], ...] = (
    ("Neg", (-9, 9), lambda x: -x, np.abs, lambda x: -np.ones_like(x), False),
    ("Abs", (-9, 9), np.abs, np.abs, np.sign, False),
    ("Reciprocal", (0.2, 9), lambda x: 1 / x, lambda x: 1 / x, lambda x: -1 / x**2, False),
    ("Exp", (-9, 9), np.exp, lambda x: np.exp(x) * (1 + np.abs(x)), np.exp, True),
    ("Log", (0.01, 50), np.log, lambda x: 1 + np.abs(np.log(x)), lambda x: 1 / x, False),
    ("Sqrt", (0.01, 50), np.sqrt, np.sqrt, lambda x: 0.5 / np.sqrt(x), True),
    (
        "Rsqrt",
        (0.01, 50),
        lambda x: 1 / np.sqrt(x),
        lambda x: 1 / np.sqrt(x),
        lambda x: -0.5 / (x * np.sqrt(x)),
        False,
    ),
    ("Sin", (-20, 20), np.sin, np.ones_like, np.cos, False),
    ("Cos", (-20, 20), np.cos, np.ones_like, lambda x: -np.sin(x), False),
    ("Tanh", (-6, 6), np.tanh, lambda x: np.minimum(np.abs(x), 1), lambda x: 1 - np.tanh(x) ** 2, True),
    (
        "Sigmoid",
        (-9, 9),
        lambda x: 1 / (1 + np.exp(-x)),
        lambda x: (1 + np.abs(x)) / (1 + np.exp(-x)),
        lambda x: 1 / (2 + 2 * np.cosh(x)),
        True,
    ),
)
# The derivative of each op with a saved result, by that result: what the kernel is given.
BY_RESULT: dict[str, Unary] = {
    "Exp": lambda y: y,
    "Sqrt": lambda y: 0.5 / y,
    "Tanh": lambda y: 1 - y * y,
    "Sigmoid": lambda y: y * (1 - y),
}
# Their derivatives are differences from 1, or cross zero where the argument's rounding shows.
FROM_ONE = ("Tanh", "Sigmoid", "Sin", "Cos")


Shape = tuple[int, ...]
BLOCK: Shape = (3, 5, 41)


def unary(
    d: Data, name: str, domain: tuple[float, float], value: Unary, size: Unary, shape: Shape = BLOCK
) -> Built:
    x = d.round(d.rng.uniform(*domain, shape))
    wrap = d.wrap if name == "Neg" else lambda y: y  # the others give floats
    return Built((x,), lambda x: {"y": Want(wrap(value(x)), size(x))})


def unary_backward(
    d: Data,
    name: str,
    domain: tuple[float, float],
    value: Unary,
    slope: Unary,
    saved: bool,
    shape: Shape = BLOCK,
) -> Built:
    x = d.round(d.rng.uniform(*domain, shape))
    given = d.round(value(x)) if saved else x
    by = BY_RESULT[name] if saved else slope

    def oracle(grad: Array, given: Array) -> dict[str, Want]:
        return {"dx": Want(grad * by(given), np.abs(grad) * (np.abs(by(given)) + (name in FROM_ONE)))}

    return Built((d.like(x), given), oracle)


for name, domain, value, size, slope, saved in UNARY:
    case(CASES, f"{name}Forward", "random", unary, name, domain, value, size)
    if name != "Neg":
        case(CASES, f"{name}Backward", "random", unary_backward, name, domain, value, slope, saved)


BINARY: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "Sub": (lambda a, b: a - b, lambda a, b: np.abs(a) + np.abs(b)),
    "Mul": (lambda a, b: a * b, lambda a, b: np.abs(a * b)),
    "Div": (lambda a, b: a / b, lambda a, b: np.abs(a / b)),
}
SLOPES: dict[str, Callable[[Array, Array], tuple[Any, Any]]] = {
    "Add": lambda a, b: (1.0, 1.0),
    "Sub": lambda a, b: (1.0, -1.0),
    "Mul": lambda a, b: (b, a),
    "Div": lambda a, b: (1 / b, -a / b**2),
}
SHAPES = {
    "same": ((3, 7, 11), (3, 7, 11)),
    "row": ((4, 5, 8), (8,)),
    "both": ((4, 1, 6), (3, 1)),
    "rows4096": ((4096, 3), (3,)),
}


def binary(d: Data, name: str, a: Shape, b: Shape) -> Built:
    value, size = BINARY[name]
    left, right = _operands(d, a, b)
    if d.dtype.name == "bool" and name != "Mul":  # two bools have no difference: the other is an integer
        return Built(
            (left, As(np.trunc(7 * right), "int32")), lambda a, b: {"y": Want(value(a, b), size(a, b))}
        )
    if d.dtype.is_integer:
        right = np.where(right == 0, 1.0, right)
    wrap = d.wrap if name == "Sub" else lambda x: x
    return Built((left, right), lambda a, b: {"y": Want(wrap(value(a, b)), size(a, b))})


def _operands(d: Data, a: Shape, b: Shape) -> tuple[Array, Array]:
    return d.normal(*a, mean=0.5), d.round(d.rng.uniform(0.5, 2.0, b) * d.rng.choice([-1.0, 1.0], b))


def binary_backward(d: Data, name: str, a: Shape, b: Shape) -> Built:
    left, right = _operands(d, a, b)
    grad = d.normal(*np.broadcast_shapes(a, b), mean=0.1, scale=0.5)

    def oracle(grad: Array, left: Any, right: Any) -> dict[str, Want]:
        x, y = (np.ones(left), np.ones(right)) if isinstance(left, tuple) else (left, right)
        da, db = (np.broadcast_to(s, grad.shape) * grad for s in SLOPES[name](x, y))
        found = {}
        for key, full, shape in (("da", da, a), ("db", db, b)):
            terms = max(1, grad.size // max(1, int(np.prod(shape, dtype=int))))
            found[key] = Want(sum_to(full, shape), sum_to(np.abs(full), shape), terms)
        return found

    return Built((grad, a, b) if name in ("Add", "Sub") else (grad, left, right), oracle)


def zeros_of(name: str) -> Callable[..., dict[str, Want]]:
    value, size = BINARY[name]

    def oracle(a: Array, b: Array) -> dict[str, Want]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return {"y": Want(value(a, b), np.abs(size(a, b)))}

    return oracle


for label, (left, right) in SHAPES.items():
    for name in BINARY:
        case(CASES, f"{name}Forward", label, binary, name, left, right)
    for name in SLOPES:
        case(CASES, f"{name}Backward", label, binary_backward, name, left, right)
for name in BINARY:
    case(CASES, f"{name}Forward", "zeros", zeros, zeros_of(name), clause="4.7", dtypes=HALF_AND_SINGLE)
