"""Dropout: which elements are kept is exact, so are the zeros; see the oracle for the bits."""

from __future__ import annotations

from ..cases import Built, Data, OpCase, case
from ..oracles import dropout as oracles

CASES: list[OpCase] = []
KEY = 0x9D2C5680EFC60000


def forward(
    d: Data, shape: tuple[int, ...], p: float, key: int = KEY, step: int = 3, first_sample: int = 5
) -> Built:
    return Built((d.normal(*shape, mean=2.0), p, key, step, first_sample), oracles.dropout)


def backward(
    d: Data, shape: tuple[int, ...], p: float, key: int = KEY, step: int = 3, first_sample: int = 5
) -> Built:
    return Built((d.normal(*shape, mean=-1.0), p, key, step, first_sample), oracles.dropout_backward)


for name, build in (("DropoutForward", forward), ("DropoutBackward", backward)):
    case(CASES, name, "half", build, (5, 7, 33), 0.5, clause="8.3")
    case(CASES, name, "tenth", build, (4, 3, 129), 0.1, clause="8.3")
    case(CASES, name, "most", build, (3, 257), 0.9, 7, 0, 0, clause="8.3")
    case(CASES, name, "far", build, (2, 21), 0.3, 2**64 - 1, 2**63 + 5, 2**62, clause="8.3")
    case(CASES, name, "none", build, (3, 5), 0.0, clause="8.3", dtypes=("float32", "bfloat16"))
    case(CASES, name, "all", build, (3, 5), 1.0, clause="8.3", dtypes=("float32", "bfloat16"))
    case(CASES, name, "vector", build, (11,), 0.25, clause="8.3", dtypes=("float32",))
    case(CASES, name, "0d", build, (), 0.5, 1, 2, 0, clause="8.3", dtypes=("float32",))
