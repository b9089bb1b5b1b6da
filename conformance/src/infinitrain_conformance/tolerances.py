"""How far a result may be from the float64 oracle: one table, with reasons.

    allowed = rounding * eps(result dtype) * |oracle| + (constant + root * sqrt(terms)) * eps(accumulator) *
    magnitude

``magnitude`` is what the sum was made of (the sum of absolute terms), so that a small result of large terms
is judged by the terms; ``terms`` is their number. The accumulator is float32, float64 for float64 results:
half precision is rounded once, at the end [contract 4.7]. A fixed relative tolerance for bfloat16 would hide
a missing term of LayerNorm's gradient; counting units in the last place does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np


@dataclass(frozen=True)
class Tolerance:
    """Units in the last place; ``half`` counts the result dtype's units of ``magnitude`` where it is half
    precision.
    """

    rounding: float = (
        1.0  # one rounding is half a unit; twice that allows for a tie and for fused multiply-add
    )
    constant: float = 8.0  # a handful of float32 operations per term
    root: float = (
        2.0  # errors of a sum grow as the root of its length; TF32 or a half-precision sum is 100 times above
    )
    half: float = 0.0
    reason: str = ""


DEFAULT: Final = Tolerance()
TABLE: Final[dict[str, Tolerance]] = {
    "Cast": Tolerance(constant=0.0, root=0.0, reason="one rounding"),
    "Copy": Tolerance(0.0, 0.0, 0.0, reason="moves bytes"),
    "AccumulateGrad": Tolerance(
        constant=4.0, root=0.0, reason="one multiplication, one addition, one rounding"
    ),
    "GeluForward": Tolerance(
        constant=16.0, reason="tanh or erf of a cubic: library functions are good to a few units"
    ),
    "GeluBackward": Tolerance(constant=24.0, reason="as the forward, and a product of two such terms"),
    "ErfForward": Tolerance(constant=16.0, reason="library functions are good to a few units"),
    "ErfBackward": Tolerance(constant=16.0, reason="exp of a rounded square"),
    "LinearGeluForward": Tolerance(
        constant=16.0, half=0.5, reason="as GELU; a composite rounds what is under it to the inputs' dtype"
    ),
    "LayerNormForward": Tolerance(constant=16.0, reason="division and root of a two-pass variance"),
    "LayerNormBackward": Tolerance(constant=16.0, reason="three terms that cancel"),
    "RmsNormForward": Tolerance(constant=16.0, reason="division and root of a mean of squares"),
    "RmsNormBackward": Tolerance(constant=16.0, reason="two terms that cancel"),
    "AddLayerNormForward": Tolerance(constant=16.0, reason="as LayerNormForward"),
    "AddLayerNormBackward": Tolerance(constant=16.0, reason="as LayerNormBackward"),
    "AddRmsNormForward": Tolerance(constant=16.0, reason="as RmsNormForward"),
    "AddRmsNormBackward": Tolerance(constant=16.0, reason="as RmsNormBackward"),
    "AttentionForward": Tolerance(
        constant=32.0,
        half=1.0,
        reason="exp of scores; fast kernels round the probabilities to the inputs' dtype",
    ),
    "AttentionBackward": Tolerance(
        constant=64.0, half=1.5, reason="as the forward, and dscores are rounded to the inputs' dtype as well"
    ),
    "CrossEntropyForward": Tolerance(constant=16.0, reason="log of a sum of exponentials"),
    "CrossEntropyBackward": Tolerance(
        constant=32.0, reason="exp of (logits - lse) with |argument| up to 100"
    ),
    "CrossEntropyBackwardInPlace": Tolerance(constant=32.0, reason="as CrossEntropyBackward"),
    "LinearCrossEntropyForward": Tolerance(constant=16.0, reason="log of a sum of exponentials of products"),
    "LinearCrossEntropyBackward": Tolerance(
        constant=32.0,
        half=1.0,
        reason="exp of (logits - lse); fast kernels round the logits' gradient to the inputs' dtype",
    ),
    "VocabParallelCrossEntropyForward": Tolerance(constant=16.0, reason="a sum of exponentials"),
    "SoftmaxForward": Tolerance(constant=32.0, reason="exp with |argument| up to 100, one division"),
    "SoftmaxBackward": Tolerance(constant=16.0, reason="a difference of products"),
    "LogSoftmaxForward": Tolerance(constant=16.0, reason="log of a sum of exponentials"),
    "LogSoftmaxBackward": Tolerance(constant=16.0, reason="one exp, a product and a difference"),
    "AdamW": Tolerance(constant=24.0, reason="two bias corrections by powers, a root and a division"),
}


def tolerance_of(op: str | None) -> Tolerance:
    """Return the row of ``op``."""
    return TABLE.get(op or "", DEFAULT)


def eps(dtype: Any) -> float:
    """Return the spacing at 1 of a floating InfiniTrain dtype, 0 for integers and bool."""
    return {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}.get(
        dtype.name, 0.0
    )


def smallest(dtype: Any) -> float:
    """Return the floor of the allowed error: normal numbers below it may be flushed to zero (float16: one
    step).
    """
    return {"bfloat16": 2.0**-126, "float16": 2.0**-24, "float32": 2.0**-126, "float64": 2.0**-1022}.get(
        dtype.name, 0.0
    )


def allowed(op: str | None, dtype: Any, value: np.ndarray, magnitude: np.ndarray, terms: int) -> np.ndarray:
    """Return the allowed absolute error of each element; all arguments in float64."""
    row = tolerance_of(op)
    wide = max(eps(dtype) if dtype.name == "float64" else 2.0**-23, 2.0**-52) if eps(dtype) else 0.0
    accumulated = (row.constant + row.root * np.sqrt(terms)) * wide * magnitude
    if row.half and dtype.itemsize == 2:
        accumulated = accumulated + row.half * eps(dtype) * magnitude
    bound: np.ndarray = row.rounding * eps(dtype) * np.abs(value) + accumulated + smallest(dtype)
    return bound


BIAS: Final = 0.5
"""How many units of half precision all elements together may be off by: rounding to nearest is off by none on average,
by half a unit where all elements are alike.
"""


def bias(dtype: Any, error: np.ndarray, value: np.ndarray, bound: np.ndarray) -> tuple[float, float]:
    """Return the part by which a half-precision result as a whole is too large or too small, and the part allowed.

    The allowed error of an element is for the worst of them; a factor that is wrong everywhere could hide in it. The
    second term is what errors of that size leave of each other when their signs are independent.
    """
    square = float((value * value).sum()) if dtype.is_floating and dtype.itemsize == 2 else 0.0
    if not square:
        return 0.0, np.inf
    part = float((error * value).sum()) / square
    return part, BIAS * eps(dtype) + float(np.sqrt(((bound * value) ** 2).sum())) / square


def explain(op: str | None, dtype: Any) -> str:
    """Return the row of the table as a failure prints it."""
    row = tolerance_of(op)
    wide = "float64" if dtype.name == "float64" else "float32"
    factor = f"({row.constant:g} + {row.root:g} sqrt(terms))"
    text = f"{row.rounding:g} {dtype} units + {factor} {wide} units of the terms"
    if row.half and dtype.itemsize == 2:
        text += f" + {row.half:g} {dtype} units of terms"
    return text + (f": {row.reason}" if row.reason else "")
