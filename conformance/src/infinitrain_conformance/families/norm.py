"""Layer normalisation: means far from zero (a one-pass variance fails), gradients correlated with x, many
rows.
"""

from __future__ import annotations

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import norm as oracles

CASES: list[OpCase] = []
EPS = 1e-5


def forward(
    d: Data,
    shape: tuple[int, ...],
    mean: float = 0.5,
    scale: float = 1.0,
    bias: bool = True,
    eps: float = EPS,
) -> Built:
    c = shape[-1]
    rows = mean * d.rng.uniform(0.9, 1.1, (*shape[:-1], 1))
    x = d.normal(*shape, mean=rows, scale=scale)
    return Built(
        (x, d.normal(c, mean=1.0, scale=0.3), d.normal(c, mean=0.2) if bias else None, eps),
        oracles.layer_norm,
    )


def backward(
    d: Data, shape: tuple[int, ...], mean: float = 0.5, scale: float = 1.0, tied: bool = True
) -> Built:
    c = shape[-1]
    x = d.normal(*shape, mean=mean, scale=scale)
    weight = d.normal(c, mean=1.0, scale=0.3)
    saved = oracles.layer_norm(x, weight, None, EPS)
    grad = d.like(x) if tied else d.normal(*shape, mean=0.1)
    return Built(
        (x, weight, Stat(saved["mean"].value), Stat(saved["rstd"].value), grad), oracles.layer_norm_backward
    )


case(CASES, "LayerNormForward", "odd", forward, (3, 5, 37))
case(CASES, "LayerNormForward", "model", forward, (2, 8, 768))
case(
    CASES,
    "LayerNormForward",
    "no_bias",
    forward,
    (4, 64),
    bias=False,
    dtypes=("float32", "bfloat16", "float64"),
)
case(CASES, "LayerNormForward", "mean100", forward, (4, 16, 64), mean=100.0, clause="4.7")
case(CASES, "LayerNormForward", "mean1000", forward, (32, 64), mean=1000.0, clause="4.7", dtypes=("float32",))
case(
    CASES, "LayerNormForward", "tiny", forward, (8, 48), mean=0.0, scale=1e-4, dtypes=("float32", "bfloat16")
)
case(CASES, "LayerNormForward", "huge", forward, (8, 48), mean=0.0, scale=1e4, dtypes=("float32", "bfloat16"))
case(CASES, "LayerNormForward", "vector", forward, (16,), dtypes=("float32",))
case(CASES, "LayerNormForward", "rank5", forward, (2, 1, 3, 2, 8), dtypes=("float32",))
case(CASES, "LayerNormForward", "eps", forward, (5, 24), scale=0.1, eps=0.1, dtypes=("float32",))

case(CASES, "LayerNormBackward", "odd", backward, (3, 5, 37))
case(CASES, "LayerNormBackward", "correlated", backward, (4, 16, 768), clause="4.7")
case(CASES, "LayerNormBackward", "independent", backward, (4, 64), tied=False)
case(CASES, "LayerNormBackward", "rows4096", backward, (4, 1024, 32), clause="4.7")
case(CASES, "LayerNormBackward", "mean100", backward, (8, 64), mean=100.0, clause="4.7")
case(CASES, "LayerNormBackward", "vector", backward, (16,), dtypes=("float32",))
case(CASES, "LayerNormBackward", "rank5", backward, (2, 1, 3, 2, 8), dtypes=("float32",))
