"""GELU in both forms, ReLU, SiLU, erf; Linear with GELU, SwiGLU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import Want
from ..oracles import activation as oracles

CASES: list[OpCase] = []
Oracle = Callable[..., dict[str, Want]]
FLOAT_RANGE = ("float32", "bfloat16", "float64")


def gelu(d: Data, shape: tuple[int, ...], form: str, scale: float = 2.0) -> Built:
    return Built((d.normal(*shape, mean=0.1, scale=scale), form), oracles.gelu)


def gelu_backward(d: Data, shape: tuple[int, ...], form: str, scale: float = 2.0) -> Built:
    x = d.normal(*shape, mean=0.1, scale=scale)
    return Built((x, d.like(x), form), oracles.gelu_backward)


for form in ("tanh", "none"):
    case(CASES, "GeluForward", form, gelu, (3, 5, 37), form)
    case(CASES, "GeluForward", f"{form}_wide", gelu, (2, 1025), form, scale=30.0)
    case(CASES, "GeluForward", f"{form}_0d", gelu, (), form, dtypes=("float32",))
    case(
        CASES, "GeluForward", f"{form}_huge", gelu, (64,), form, scale=1e37, dtypes=FLOAT_RANGE, clause="4.7"
    )
    case(CASES, "GeluBackward", form, gelu_backward, (3, 5, 37), form)
    case(CASES, "GeluBackward", f"{form}_wide", gelu_backward, (2, 1025), form, scale=30.0)
    case(
        CASES,
        "GeluBackward",
        f"{form}_huge",
        gelu_backward,
        (64,),
        form,
        scale=1e37,
        dtypes=FLOAT_RANGE,
        clause="4.7",
    )


def of_one(d: Data, oracle: Oracle, shape: tuple[int, ...], scale: float = 2.0) -> Built:
    return Built((d.normal(*shape, mean=0.1, scale=scale),), oracle)


def of_input(d: Data, oracle: Oracle, shape: tuple[int, ...], scale: float = 2.0) -> Built:
    x = d.normal(*shape, mean=0.1, scale=scale)
    return Built((d.like(x), x), oracle)


def special(d: Data, oracle: Oracle, *infinities: float) -> Built:
    """NaN, zeros of both signs, the given infinities, and numbers between them."""
    return Built((d.round([np.nan, 0.0, -0.0, *infinities, *d.normal(9)]),), oracle)


for name, forward, backward in (
    ("Relu", oracles.relu, oracles.relu_backward),
    ("Silu", oracles.silu, oracles.silu_backward),
    ("Erf", oracles.erf, oracles.erf_backward),
):
    case(CASES, f"{name}Forward", "random", of_one, forward, (3, 5, 37))
    case(CASES, f"{name}Forward", "wide", of_one, forward, (2, 1025), scale=40.0)
    case(CASES, f"{name}Forward", "tiny", of_one, forward, (41,), scale=1e-4)
    case(CASES, f"{name}Forward", "0d", of_one, forward, (), dtypes=("float32",))
    case(CASES, f"{name}Forward", "empty", of_one, forward, (0, 3), dtypes=("float32",), clause="4.4")
    case(CASES, f"{name}Backward", "random", of_input, backward, (3, 5, 37))
    case(CASES, f"{name}Backward", "wide", of_input, backward, (2, 1025), scale=40.0)
    case(CASES, f"{name}Backward", "rows4096", of_input, backward, (4096, 19), dtypes=("float32",))

case(CASES, "ReluForward", "special", special, oracles.relu, np.inf, -np.inf, clause="4.7")
case(CASES, "SiluForward", "special", special, oracles.silu, np.inf, clause="4.7")
case(CASES, "ErfForward", "special", special, oracles.erf, np.inf, -np.inf, clause="4.7")
case(CASES, "SiluForward", "huge", of_one, oracles.silu, (64,), scale=1e37, dtypes=FLOAT_RANGE, clause="4.7")
case(
    CASES,
    "SiluBackward",
    "huge",
    of_input,
    oracles.silu_backward,
    (64,),
    scale=1e37,
    dtypes=FLOAT_RANGE,
    clause="4.7",
)


def relu_edges(d: Data) -> Built:
    """Results that are 0 of either sign or NaN, under gradients that are not."""
    y = d.round([0.0, -0.0, np.nan, 1.0, 1e-7, 0.0])
    return Built((d.round([2.0, -3.0, 5.0, 7.0, -11.0, 13.0]), y), oracles.relu_backward)


case(CASES, "ReluBackward", "edges", relu_edges)


def swiglu(d: Data, shape: tuple[int, ...], scale: float = 2.0) -> Built:
    return Built((d.normal(*shape, mean=0.3, scale=scale),), oracles.swiglu)


def swiglu_backward(d: Data, shape: tuple[int, ...], scale: float = 2.0) -> Built:
    x = d.normal(*shape, mean=0.3, scale=scale)
    return Built((x, d.like(x[..., : shape[-1] // 2] + x[..., shape[-1] // 2 :])), oracles.swiglu_backward)


for name, build in (("SwigluForward", swiglu), ("SwigluBackward", swiglu_backward)):
    case(CASES, name, "odd", build, (3, 5, 74))
    case(CASES, name, "wide", build, (2, 1026), scale=40.0)
    case(CASES, name, "rows4096", build, (4, 1024, 34))
    case(CASES, name, "vector", build, (14,), dtypes=("float32",))
    case(CASES, name, "single", build, (7, 2), dtypes=("float32",))
    case(CASES, name, "empty", build, (0, 6), dtypes=("float32",), clause="4.4")


def linear_gelu(
    d: Data, shape: tuple[int, ...], out: int, form: str, mean: float = 0.3, bias: bool = True
) -> Built:
    weight = d.normal(out, shape[-1], mean=0.05, scale=shape[-1] ** -0.5)
    return Built(
        (d.normal(*shape, mean=mean), weight, d.normal(out) if bias else None, form), oracles.linear_gelu
    )


for form in ("tanh", "none"):
    case(CASES, "LinearGeluForward", form, linear_gelu, (3, 5, 37), 29, form)
    case(CASES, "LinearGeluForward", f"{form}_no_bias", linear_gelu, (4, 16), 7, form, bias=False)
case(CASES, "LinearGeluForward", "rows4096", linear_gelu, (4, 1024, 24), 31, "tanh", clause="4.7")
case(CASES, "LinearGeluForward", "wide", linear_gelu, (2, 3, 2048), 17, "tanh", mean=2.0, clause="4.7")
case(CASES, "LinearGeluForward", "vector", linear_gelu, (12,), 5, "tanh", dtypes=("float32",))
