"""Special values in elements of one argument: results are what the float64 oracle says of the same arguments.

NaN, infinities and where they are have to agree exactly; what the dtype rounds to infinity is one; other elements are
compared as usual, where the oracle's own error is finite. A subnormal result may be flushed to zero [contract 4.7].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from .call import Call
from .cases import Built, Stat
from .check import fail, lost_signs, rounded, values
from .oracles import Want
from .tolerances import allowed

GROUPS: Final = {"nan": ("nan",), "infinity": ("inf", "-inf"), "ends": ("0", "-0", "subnormal", "largest")}
NORMS: Final = tuple(
    f"{add}{norm}Norm{way}"
    for add in ("", "Add")
    for norm in ("Layer", "Rms")
    for way in ("Forward", "Backward")
)
UNDEFINED: Final[dict[tuple[str, str], str]] = {
    **{(op, "largest"): "its square leaves float32" for op in NORMS},
    ("NormBackward", "0"): "a norm of 0 is the norm of zeros",
    ("NormBackward", "-0"): "a norm of 0 is the norm of zeros",
    ("LinearCrossEntropyForward", "largest"): "the logits leave float32",
    ("LinearCrossEntropyBackward", "infinity"): "forward would have counted other classes than were saved",
    ("LinearGeluForward", "largest"): "the product leaves float32, and GELU of -infinity is 0 times it",
    ("AttentionForward", "largest"): "the scores leave float32",
    ("AttentionBackward", "largest"): "the scores leave float32",
    ("AttentionForward", "infinity"): "an infinite score is NaN, sooner or later",
    ("AttentionBackward", "infinity"): "an infinite score is NaN, sooner or later",
    ("SoftmaxBackward", "largest"): "no softmax is larger than 1",
    ("PowTensorBackward", "largest"): "a product of three leaves float32 before the logarithm makes it small",
    **{
        (op, "largest"): "a product may leave the dtype before the last factor brings it back"
        for op in ("DivBackward", "DivScalarBackward", "SwigluBackward")
    },
    ("AdamW", "largest"): "the bias correction of a moment that no gradients can make",
    ("GeluBackward", "infinity"): "0 times infinity by the formula, the limit by others",
    ("SGD", "largest"): "a sum leaves float32 before the learning rate brings it back",
}
"""Where IEEE arithmetic in float32 says nothing definite: (op, value or group) and why."""


def of(name: str, dtype: Any) -> float:
    """Return a special value of a floating dtype."""
    import ml_dtypes

    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    found = {"largest": limits.max, "subnormal": limits.smallest_subnormal * dtype.numpy.type(3)}
    return float(found.get(name, name))


def places(built: Built) -> Iterator[tuple[int, int | None]]:
    """Yield where the floating arrays among the arguments are: index, and place in a list."""
    for i, value in enumerate(built.args):
        if isinstance(value, tuple):
            yield from ((i, j) for j, part in enumerate(value) if _is_floating(part))
        elif _is_floating(value):
            yield i, None


def _is_floating(value: Any) -> bool:
    array = value.value if isinstance(value, Stat) else value
    return isinstance(array, np.ndarray) and array.dtype == np.float64 and array.size > 0


LONG: Final = 64
"""Rows of as many elements are worth vector instructions, which treat the first, the last and others differently."""


def spots(op: str, built: Built, place: tuple[int, int | None], name: str) -> Sequence[tuple[int, ...]]:
    """Return where in an argument a value goes, one call for each: the middle, or, of long rows, the first, the middle
    and the last of one. What is no NaN goes to all three in one call.
    """
    shape = _array(built, place).shape
    if not shape or shape[-1] < LONG:
        return [(math.prod(shape) // 2,)]
    n, row = shape[-1], math.prod(shape[:-1]) // 2
    first, middle, last = row * n, row * n + n // 2, row * n + n - 1
    if name == "largest":  # two of them make a sum that no dtype holds
        return [(middle,)]
    if name != "nan":
        return [(first, middle, last)]
    # In a gradient of attention no value is NaN unless the saved result is: `test_attention_after_a_value_that_is_nan`.
    return [(first,), (middle,), (last,)][: 2 if op == "AttentionBackward" else 3]


def _array(built: Built, place: tuple[int, int | None]) -> np.ndarray:
    value = built.args[place[0]] if place[1] is None else built.args[place[0]][place[1]]
    array: np.ndarray = value.value if isinstance(value, Stat) else value
    return array


def with_value(place: tuple[int, int | None], at: tuple[int, ...], value: float, built: Built) -> Built:
    """Return the arguments with ``value`` in some elements of one of them."""

    def put(old: Any) -> Any:
        if isinstance(old, Stat):
            return Stat(put(old.value))
        array = old.copy()
        array.reshape(-1)[list(at)] = value
        return array

    index, part = place
    args = list(built.args)
    if part is None:
        args[index] = put(args[index])
    else:
        args[index] = tuple(put(old) if j == part else old for j, old in enumerate(args[index]))
    return Built(tuple(args), built.oracle)


def _same(built: Built) -> Built:
    return built


def check(group: str, make: Callable[..., Call], heading: str) -> None:
    """Put each value of a group into each floating argument in turn, and compare. Raises AssertionError."""
    __tracebackhide__ = True
    plain, lines = make(change=_same), []
    op = plain.row.name
    for place in places(plain.built):
        statistic = isinstance(plain.built.args[place[0]], Stat)
        for name in GROUPS[group]:
            if (op, name) in UNDEFINED or (op, group) in UNDEFINED:
                continue
            if statistic and name != "nan":  # what a forward saves is never that, unless it is NaN
                continue
            for at in spots(op, plain.built, place, name):
                call = make(change=partial(with_value, place, at, of(name, plain.data.dtype)))
                lines += [f"{name} in {call.row.param_names[place[0]]}: {text}" for text in _wrong(call)]
    if lines:
        fail(heading, lines)


def _wrong(call: Call) -> Iterator[str]:
    """Yield how results differ from what the oracle wants of the same arguments."""
    with np.errstate(all="ignore"):
        want = call.want()
    for result, tensor in call.run().items():
        wrong = difference(call.row.name, tensor, want[result])
        if wrong:
            yield f"{result}{wrong}"


def difference(op: str, tensor: Any, want: Want) -> str:
    """Return how a result differs from what the oracle wants, or nothing."""
    got, oracle = values(tensor), want.value
    with np.errstate(all="ignore"):
        infinite = rounded(oracle, tensor.dtype)
        oracle = np.where(np.isnan(infinite), oracle, infinite)
        size = np.broadcast_to(want.magnitude, oracle.shape)
        bound = allowed(op, tensor.dtype, oracle, size, want.terms)
        # A number that a tolerance short of infinity may round either way.
        edge = np.isinf(got) & np.isfinite(want.value) & (np.abs(want.value) + bound >= _top(tensor.dtype))
        same = (got == oracle) | (np.isnan(got) & np.isnan(oracle)) | edge
        if tensor.dtype.is_integer:
            same |= ~(np.abs(want.value) < 2.0**63)  # there is no such integer
        if want.or_nan is not None:
            same |= np.isnan(got) & want.or_nan
        near = np.isfinite(oracle) & np.isfinite(got) & ~(np.abs(got - oracle) > bound)
    outside = ~(same | near) | lost_signs(op, tensor.dtype, got, oracle)
    if not outside.any():
        return ""
    at = np.unravel_index(int(np.argmax(outside)), outside.shape)
    where = ",".join(str(int(i)) for i in at)
    return f"({where}) is {got[at]:.7g}, float64 oracle {oracle[at]:.7g} ({int(outside.sum())}/{got.size} differ)"


def _top(dtype: Any) -> float:
    return of("largest", dtype) if dtype.is_floating else np.inf
