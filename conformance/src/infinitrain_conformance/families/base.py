"""The base profile, and what moves or adds bytes: casts out of each dtype, views, fills, copies, accumulation."""

from __future__ import annotations

import numpy as np

from ..cases import HALF_AND_SINGLE, Built, Data, OpCase, case
from ..oracles import Want, plain

CASES: list[OpCase] = []
Shape = tuple[int, ...]


def cast(d: Data, dtype: str, shape: Shape, scale: float = 3.0) -> Built:
    from infinitrain.dtype import as_dtype

    to = as_dtype(dtype)
    x = d.normal(*shape, mean=0.3, scale=scale) * (
        d.rng.random(shape) < 0.8
    )  # zeros are what False is made of

    def oracle(x: np.ndarray, to: object) -> dict[str, Want]:
        return {
            "y": plain(
                np.trunc(x) if dtype == "int64" else (x != 0).astype(np.float64) if dtype == "bool" else x
            )
        }

    return Built((x, to), oracle)


for dtype in ("float32", "bfloat16", "float16", "float64", "int64", "bool"):
    # The first case runs out of every dtype, the others out of these.
    given = None if dtype == "float32" else ("float32", "bfloat16", "float64", "int32", "int64", "bool")
    case(CASES, "Cast", f"to_{dtype}", cast, dtype, (3, 5, 7), dtypes=given)


def fill(d: Data, shape: Shape, value: float) -> Built:
    number = float(d.round(value)) if d.dtype.is_floating else int(d.round(value))
    return Built(
        (d.normal(*shape), bool(number) if d.dtype.name == "bool" else number),
        lambda x, value: {"x": plain(np.full(x.shape, float(value)))},
    )


case(CASES, "Fill", "seven", fill, (3, 5, 7), 6.75)
case(CASES, "Fill", "zero", fill, (129,), 0.0)
case(CASES, "Fill", "scalar", fill, (), -2.5)
case(CASES, "Fill", "minus_zero", fill, (129,), -0.0, dtypes=HALF_AND_SINGLE, clause="4.7")
case(CASES, "Fill", "nan", fill, (7, 131), np.nan, dtypes=HALF_AND_SINGLE, clause="4.7")


def view(d: Data, shape: Shape, to: Shape) -> Built:
    return Built((d.normal(*shape), to), lambda x, to: {"y": plain(x.reshape(to))})


def view_backward(d: Data, shape: Shape, to: Shape) -> Built:
    return Built((to, d.normal(*shape)), lambda to, grad: {"dx": plain(grad.reshape(to))})


for name, shape, to in (("split", (6, 5), (2, 3, 5)), ("flat", (3, 5, 7), (105,)), ("ones", (1, 4, 1), (4,))):
    case(CASES, "NoOpForward", name, view, shape, to)
    case(CASES, "NoOpBackward", name, view_backward, shape, to)


def copy(d: Data, shape: Shape) -> Built:
    return Built((d.normal(*shape), d.normal(*shape)), lambda dst, src: {"dst": plain(src)})


case(CASES, "Copy", "odd", copy, (3, 5, 7))
case(CASES, "Copy", "scalar", copy, ())


def accumulated(grad: np.ndarray, rate: float, tensor: np.ndarray) -> dict[str, Want]:
    return {"tensor": Want(tensor + rate * grad, np.abs(tensor) + np.abs(rate * grad))}


def accumulate(d: Data, shape: Shape, rate: float, scale: float = 1.0) -> Built:
    number = float(rate) if d.dtype.is_floating else int(rate)

    def oracle(grad: np.ndarray, rate: float, tensor: np.ndarray) -> dict[str, Want]:
        found = accumulated(grad, rate, tensor)["tensor"]
        return {"tensor": Want(d.wrap(found.value), found.magnitude)}

    return Built((d.normal(*shape, scale=scale), number, d.normal(*shape, mean=2.0)), oracle)


case(CASES, "AccumulateGrad", "doubled", accumulate, (3, 5, 7), 2.0)
case(CASES, "AccumulateGrad", "subtracted", accumulate, (129,), -0.5, scale=10.0)


def zeros(d: Data, rate: float) -> Built:
    a, b = np.meshgrid([0.0, -0.0, 1.5], [0.0, -0.0, -2.0])
    return Built((np.ascontiguousarray(a), rate, np.ascontiguousarray(b)), accumulated)


for name, rate in (("zeros", 1.0), ("zeros_doubled", 2.0)):
    case(CASES, "AccumulateGrad", name, zeros, rate, dtypes=HALF_AND_SINGLE, clause="4.7")
