"""Comparing results with the oracle, and the message when they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from .oracles import Want
from .tolerances import allowed, bias, explain


def values(tensor: Any) -> np.ndarray:
    """Return a tensor's elements in float64 (integers and bool too)."""
    array: np.ndarray = tensor.numpy().astype(np.float64)
    return array


def fail(heading: str, lines: list[str]) -> None:
    """Raise an AssertionError that starts with the heading."""
    __tracebackhide__ = True
    raise AssertionError("\n".join([heading, *(f"  {line}" for line in lines)]))


def close(heading: str, op: str | None, got: Mapping[str, Any], want: Mapping[str, Want]) -> None:
    """Compare each named tensor with what the oracle wants; one message tells about all of them."""
    __tracebackhide__ = True
    lines, bad = [], False
    for name, tensor in got.items():
        ok, line = compare(op, name, tensor, want[name])
        bad |= not ok
        lines.append(line)
    if bad:
        fail(heading, lines)


def compare(op: str | None, name: str, tensor: Any, want: Want) -> tuple[bool, str]:
    """Return whether a result is within tolerance, and the line that says by how much."""
    got, oracle = values(tensor), want.value
    if got.shape != oracle.shape:
        return False, f"{name}: shape {got.shape}, the oracle's is {oracle.shape}"
    if not got.size:
        return True, f"{name} ok (empty)"
    if oracle.dtype.kind in "iu":
        return _integers(name, tensor.numpy(), oracle)
    bound = allowed(op, tensor.dtype, oracle, np.broadcast_to(want.magnitude, oracle.shape), want.terms)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - oracle)
        same = (got == rounded(oracle, tensor.dtype)) | (got == oracle) | (np.isnan(got) & np.isnan(oracle))
        outside = ~same & ~(np.isfinite(oracle) & (error <= bound))  # of an infinity, a bound is infinite too
        ratio = np.where(same, 0.0, np.where(np.isfinite(error), error / np.maximum(bound, 1e-300), np.inf))
    if not outside.any():
        counted = np.isfinite(got) & np.isfinite(oracle)
        error = got[counted] - oracle[counted]
        part, limit = bias(tensor.dtype, error, oracle[counted], bound[counted])
        if abs(part) > limit:
            text = f"{name}: every element is within its tolerance, but together they are off by {part:.2%}"
            return False, f"{text}, allowed +-{limit:.2%}"
        unsigned = lost_signs(op, tensor.dtype, got, oracle)
        if unsigned.any():
            at = ",".join(map(str, np.argwhere(unsigned)[0].tolist()))
            text = f"{name}: {int(unsigned.sum()):,}/{got.size:,} zeros have the wrong sign; first ({at})"
            return False, f"{text}: got {got[unsigned][0]}, float64 oracle {oracle[unsigned][0]}"
        return True, f"{name} ok ({float(ratio.max()):.2f} of tolerance)"
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    at = ",".join(str(int(i)) for i in worst)
    text = (
        f"{name}: {int(outside.sum()):,}/{got.size:,} outside; worst ({at}): got {got[worst]:.7g}, "
        f"float64 oracle {oracle[worst]:.7g}, allowed +-{bound[worst]:.2g} ({explain(op, tensor.dtype)})"
    )
    if np.isnan(got).any() and not np.isnan(oracle).any():
        text += f"; {int(np.isnan(got).sum()):,} are NaN, as the destination was before: not written?"
    return False, text


def _integers(name: str, got: np.ndarray, oracle: np.ndarray) -> tuple[bool, str]:
    """Compare as integers: float64 cannot tell those beyond 2**53 apart."""
    wrong = np.array([a != b for a, b in zip(got.flat, oracle.flat, strict=True)]).reshape(got.shape)
    if not wrong.any():
        return True, f"{name} ok (exact)"
    first = f"got {got[wrong][0]}, expected {oracle[wrong][0]}"
    return False, f"{name}: {int(wrong.sum()):,}/{got.size:,} integers differ; {first}"


EXACT_ZEROS: Final = (
    "NoOpForward", "NoOpBackward", "Copy", "Cast", "Fill", "TransposeForward", "PermuteForward", "SliceForward",
    "SliceBackward", "SliceAssign", "RepeatInterleaveForward", "ExpandForward", "TrilForward", "TriuForward",
    "SplitForward", "ConcatForward", "EmbeddingForward", "GatherForward", "IndexSelectForward", "ScatterForward",
    "MaskForward", "WhereForward", "NegForward", "AbsForward", "AddForward", "SubForward", "MulForward", "DivForward",
    "AddScalarForward", "MulScalarForward", "DivScalarForward", "SqrtForward", "ClampForward", "AddBackward",
    "SubBackward", "MulBackward", "SumBackward", "MeanBackward", "AccumulateGrad", "ScaleInPlace",
)  # fmt: skip
"""Ops whose zeros have the sign that IEEE arithmetic gives them: they move elements, or round once."""


def lost_signs(op: str | None, dtype: Any, got: np.ndarray, oracle: np.ndarray) -> np.ndarray:
    """Return where a result is a zero of the wrong sign, of an op whose zeros have one."""
    if op not in EXACT_ZEROS or not dtype.is_floating:
        return np.zeros(got.shape, np.bool_)
    wrong: np.ndarray = (got == 0) & (oracle == 0) & (np.signbit(got) != np.signbit(oracle))
    return wrong


def rounded(oracle: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the oracle where the dtype has an infinity instead of it, NaN elsewhere."""
    if not dtype.is_floating:
        return np.full(oracle.shape, np.nan)
    nearest: np.ndarray = oracle.astype(dtype.numpy).astype(np.float64)
    return np.where(np.isinf(nearest), nearest, np.nan)


def same_bytes(heading: str, what: str, got: np.ndarray, want: np.ndarray) -> None:
    """Compare bytes exactly."""
    __tracebackhide__ = True
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if a.shape != b.shape or a.dtype != b.dtype:
        fail(heading, [f"{what}: {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}"])
    left, right = a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8)
    if left.size and not np.array_equal(left, right):
        wrong = np.flatnonzero(left != right)
        first = int(wrong[0])
        count = f"{what}: {wrong.size:,}/{left.size:,} bytes differ"
        where = f"first at byte {first}: got {left[first]:#04x}, expected {right[first]:#04x}"
        fail(heading, [f"{count}; {where}; last at byte {int(wrong[-1])}"])


def expect(heading: str, condition: object, what: str) -> None:
    """Fail with ``what`` unless ``condition`` holds."""
    __tracebackhide__ = True
    if not condition:
        fail(heading, [what])
