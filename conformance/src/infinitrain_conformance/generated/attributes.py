"""Kernels that take an attribute or a number for another one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..call import Call
from ..oracles import Want
from ..tolerances import allowed
from .fault import NotHere, Samples, Swap, kind
from .places import with_arguments


def neighbours(value: Any, others: list[Any]) -> Iterator[Any]:
    """Yield values near ``value``, then those that other cases of the op use."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 2 * value, value // 2, 0, 1, 2, 3)
    elif isinstance(value, float):
        yield from (value * 1.01, value * 0.99, value + 0.01)
    elif isinstance(value, tuple) and value and all(isinstance(v, int) for v in value):
        for i, v in enumerate(value):
            for near in (v + 1, v - 1):
                yield (*value[:i], near, *value[i + 1 :])
        yield value[::-1]
        yield (*value[1:], value[0])
        for i in range(len(value) - 1):
            for near in (1, -1):  # two that move together keep a sum, or a difference
                yield (*value[:i], value[i] + near, value[i + 1] - near, *value[i + 2 :])
    yield from others


def _legal(call: Call, index: int, value: Any) -> bool:
    args = [*call.args]
    args[index] = value
    try:
        found = [(tuple(shape), dtype) for shape, dtype in call.row.infer(*args)]
    except Exception:
        return False
    return found == call.specs()


def _judged(call: Call, index: int, value: Any) -> dict[str, Want] | None:
    """Return what the oracle wants with another value, None where it knows no answer."""
    args = call.want.args
    try:
        with np.errstate(all="ignore"):
            return call.want.of(*args[:index], value, *args[index + 1 :])
    except Exception:
        return None


def _looks(call: Call, index: int) -> bool:
    """Tell whether the oracle reads an argument: it has no answer, or another one, where that is no value at all."""
    found = _judged(call, index, object())
    return found is None or _far(call, found) > 0


def _difference(call: Call, index: int, value: Any) -> int:
    """Return 2 when the oracle's results differ by more than the tolerance, 1 for any difference, 0 for none."""
    found = _judged(call, index, value)
    return 0 if found is None else _far(call, found)


def _far(call: Call, found: dict[str, Want]) -> int:
    dtypes = (
        dict(zip(call.names(), (d for _, d in call.specs()), strict=True))
        if call.row.results
        else {name: tensor.dtype for name, tensor in call.written().items()}
    )
    far = 0
    for name, want in call.want().items():
        other = found[name].value
        if other.shape != want.value.shape or other.tobytes() == want.value.tobytes():
            continue
        size = np.broadcast_to(want.magnitude, want.value.shape)
        bound = allowed(call.row.name, dtypes[name], want.value, size, want.terms)
        with np.errstate(invalid="ignore"):
            outside = np.abs(other - want.value) > 2 * bound
        outside |= np.isfinite(other) != np.isfinite(want.value)
        far = max(far, 2 if outside.any() else 1)
    return far


@kind("values")
def wrong(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """An attribute or number that is lost on the way: another axis, the mask's flag turned, eps or a factor off by a
    hundredth, the other form of an approximation.
    """

    def swap(index: int, used: list[Any], call: Call) -> Any:
        value = call.args[index]
        legal = [
            other
            for other in neighbours(value, used)
            if not (type(other) is type(value) and other == value) and _legal(call, index, other)
        ]
        if not legal:
            raise NotHere("any other value is refused, or shows in the results' shapes", by_rule=True)
        # Some change nothing, such as the same axes in another order. An oracle that does not look decides nothing.
        found = [(other, _difference(call, index, other)) for other in legal]
        if _looks(call, index) and not any(how for _, how in found):
            raise NotHere("any other value gives the same results here")
        chosen = max(found, key=lambda pair: pair[1])[0]
        return with_arguments(call, {index: chosen})

    for index, p in enumerate(row.params):
        if p.kind in ("scalar", "attribute"):
            used: list[Any] = []
            for args in samples:
                if args[index] not in used:
                    used.append(args[index])
            yield p.name, partial(swap, index, used)
