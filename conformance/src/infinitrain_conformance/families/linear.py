"""Linear and matmul: odd sizes, large means (dbias and dweight then sum what does not cancel), 4,096 rows,
empty sums.
"""

from __future__ import annotations

import math

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import linear as oracles

CASES: list[OpCase] = []
Shape = tuple[int, ...]


def forward(
    d: Data, lead: Shape, i: int, o: int, bias: bool = True, mean: float = 0.0, scale: float = 1.0
) -> Built:
    x = d.normal(*lead, i, mean=mean, scale=scale)
    return Built((x, d.normal(o, i, mean=0.1), d.normal(o, mean=2.0) if bias else None), oracles.linear)


def dx(d: Data, lead: Shape, i: int, o: int) -> Built:
    weight = d.normal(o, i, mean=0.3)
    return Built((weight, d.normal(*lead, o, mean=-0.2)), oracles.linear_dx)


def dweight(d: Data, lead: Shape, i: int, o: int, mean: float = 0.5) -> Built:
    x = d.normal(*lead, i, mean=mean)
    grad = d.normal(*lead, o, scale=0.1)
    if grad.size and i:
        grad = d.round(grad + 0.3 * x.mean(-1, keepdims=True))
    return Built((x, grad), oracles.linear_dweight)


def dbias(d: Data, lead: Shape, o: int, mean: float = 0.05, scale: float = 0.3) -> Built:
    ramp = d.rng.uniform(0.2, 1.8, (o,))
    return Built((d.round(d.normal(*lead, o, mean=mean, scale=scale) * ramp),), oracles.linear_dbias)


def backward(d: Data, lead: Shape, i: int, o: int) -> Built:
    x, grad = dweight(d, lead, i, o).args
    return Built((x, d.normal(o, i, mean=0.3), grad), oracles.linear_backward)


case(CASES, "LinearForward", "odd", forward, (3, 5), 17, 23)
case(
    CASES,
    "LinearForward",
    "no_bias",
    forward,
    (2, 7),
    33,
    9,
    bias=False,
    dtypes=("float32", "bfloat16", "float64"),
)
case(CASES, "LinearForward", "square", forward, (4,), 16, 16, dtypes=("float32",))
case(CASES, "LinearForward", "vector", forward, (), 8, 5, dtypes=("float32",))
case(CASES, "LinearForward", "mean10", forward, (4, 16), 256, 48, mean=10.0, clause="4.7")
case(CASES, "LinearForward", "rows4096", forward, (2, 2048), 16, 12)
case(CASES, "LinearForward", "extreme", lambda d: forward(d, (6,), 40, 8, mean=0.0, scale=d.big))
case(CASES, "LinearForward", "no_rows", forward, (0,), 4, 3, dtypes=("float32",), clause="4.4")
case(CASES, "LinearForward", "empty_sum", forward, (3,), 0, 4, dtypes=("float32",), clause="4.4")
case(CASES, "LinearForward", "ones", forward, (1, 1), 1, 1, dtypes=("float32",))

case(CASES, "LinearBackwardInput", "odd", dx, (3, 5), 17, 23)
case(CASES, "LinearBackwardInput", "square", dx, (4,), 16, 16, dtypes=("float32",))
case(CASES, "LinearBackwardInput", "large", dx, (2, 64), 96, 200, clause="4.7")
case(CASES, "LinearBackwardInput", "vector", dx, (), 8, 5, dtypes=("float32",))
case(CASES, "LinearBackwardInput", "ones", dx, (1, 1), 1, 1, dtypes=("float32",))

case(CASES, "LinearBackwardWeight", "odd", dweight, (3, 5), 17, 23)
case(CASES, "LinearBackwardWeight", "rows4096", dweight, (4, 1024), 12, 10, clause="4.7")
case(CASES, "LinearBackwardWeight", "vector", dweight, (), 8, 5, dtypes=("float32",))
case(
    CASES,
    "LinearBackwardWeight",
    "empty_sum",
    dweight,
    (0,),
    4,
    3,
    dtypes=("float32",),
    clause="4.4",
)

case(CASES, "LinearBackwardBias", "odd", dbias, (3, 5), 23)
case(CASES, "LinearBackwardBias", "rows4096", dbias, (4, 1024), 11, clause="4.7")
case(
    CASES,
    "LinearBackwardBias",
    "cancelling",
    dbias,
    (4096,),
    7,
    mean=0.0,
    scale=2.0,
    clause="4.7",
)
case(CASES, "LinearBackwardBias", "vector", dbias, (), 5, dtypes=("float32",))
case(CASES, "LinearBackwardBias", "empty_sum", dbias, (0,), 3, dtypes=("float32",), clause="4.4")

case(CASES, "LinearBackward", "odd", backward, (3, 5), 17, 23)
case(CASES, "LinearBackward", "rows4096", backward, (4, 1024), 12, 10, clause="4.7")
case(CASES, "LinearBackward", "wide", backward, (130,), 67, 515, dtypes=("float32",))
case(CASES, "LinearBackward", "vector", backward, (), 8, 5, dtypes=("float32",))
case(CASES, "LinearBackward", "no_rows", backward, (0,), 4, 3, dtypes=("float32",), clause="4.4")


def product(d: Data, a: Shape, b: Shape) -> Built:
    return Built((d.normal(*a, mean=0.5), d.normal(*b, mean=-0.25)), oracles.matmul)


def product_da(d: Data, a: Shape, b: Shape) -> Built:
    grad = d.normal(*_batch(a, b), a[-2], b[-1], mean=0.2)
    return Built((d.normal(*b, mean=0.4), grad, a), oracles.matmul_da)


def product_db(d: Data, a: Shape, b: Shape) -> Built:
    grad = d.normal(*_batch(a, b), a[-2], b[-1], mean=0.2)
    return Built((d.normal(*a, mean=0.4), grad, b), oracles.matmul_db)


def _batch(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b)) - 2
    left, right = (1,) * (rank - len(a) + 2) + a[:-2], (1,) * (rank - len(b) + 2) + b[:-2]
    return tuple(math.prod({m, n}) if 1 in (m, n) else m for m, n in zip(left, right, strict=True))


for name, left, right in (
    ("plain", (7, 33), (33, 5)),
    ("batch", (3, 5, 9), (3, 9, 11)),
    ("broadcast", (2, 1, 5, 9), (3, 9, 4)),
):
    case(CASES, "MatmulForward", name, product, left, right)
    case(CASES, "MatmulBackwardInput", name, product_da, left, right)
    case(CASES, "MatmulBackwardOther", name, product_db, left, right)


def gemm(
    d: Data, a: Shape, b: Shape, alpha: float, beta: float, flags: tuple[bool, bool], wide: bool = False
) -> Built:
    left, right = (s[:-2] + s[:-3:-1] if t else s for s, t in zip((a, b), flags, strict=True))
    c = d.normal(*_batch(left, right), left[-2], right[-1], mean=0.7)
    if not beta:
        c[..., 0] = np.nan  # what was there does not matter
    held = Stat(c) if wide else c
    args = (d.normal(*a, mean=0.5), d.normal(*b, mean=-0.25), held, alpha, beta, *flags)
    return Built(args, oracles.gemm)


case(CASES, "Gemm", "plain", gemm, (7, 33), (33, 5), 1.5, 0.5, (False, False))
case(CASES, "Gemm", "transposed", gemm, (33, 7), (5, 33), -2.0, 1.0, (True, True))
case(CASES, "Gemm", "overwrites", gemm, (4, 6), (3, 6), 0.5, 0.0, (False, True))
case(CASES, "Gemm", "batch", gemm, (2, 1, 9, 5), (3, 9, 4), 1.0, 2.0, (True, False))
case(CASES, "Gemm", "into_float32", gemm, (5, 64), (64, 3), 1.0, 1.0, (False, False), wide=True)
