"""The library that array kernels are written against: the Python array API standard and extras [contract 4.8]."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from .. import random
from ..dtype import DType, bfloat16
from ..errors import UnsupportedDtypeError


class Namespace:
    """An array library ``xp`` with what the standard lacks.

    Attributes are the library's own; an extra (``EXTRAS``) that it does not have comes from a slow default here.
    ``extras``, a mapping of name to function that a provider gives for speed, comes before both.
    """

    def __init__(self, library: Any, extras: dict[str, Callable[..., Any]] | None = None) -> None:
        self.library = library
        self._dtypes: dict[DType, Any] = {}
        self._errstate = getattr(library, "errstate", None)  # NumPy and CuPy have it
        self._kinds: dict[tuple[Any, Any], bool] = {}
        self._places: bool | None = None
        for name, default in EXTRAS.items():
            found = getattr(library, name, None)
            setattr(self, name, found if found is not None else _bind(default, self))
        for name, function in (extras or {}).items():
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.library, name)
        setattr(self, name, value)  # next time an ordinary attribute
        return value

    def native(self, dtype: DType) -> Any:
        """Return the library's dtype object. Raises UnsupportedDtypeError when it has none [contract 4.7]."""
        found = self._dtypes.get(dtype)
        if found is None:
            found = getattr(self.library, dtype.name, None)
            if found is None and dtype is bfloat16 and self.library.__name__ in ("numpy", "cupy"):
                found = dtype.numpy  # ml_dtypes extends these two
            if found is None:
                raise UnsupportedDtypeError(
                    f"array library {self.library.__name__} has no dtype {dtype} [contract 4.7]", dtype=dtype
                )
            self._dtypes[dtype] = found
        return found

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        """Return the library's answer, remembered: every kernel asks, and some libraries take a microsecond."""
        found = self._kinds.get((dtype, kind))
        if found is None:
            found = self._kinds[dtype, kind] = bool(self.library.isdtype(dtype, kind))
        return found

    def on(self, array: Any) -> dict[str, Any]:
        """Return the keyword that makes a creation function (``arange``, ``zeros``, ...) place its result beside
        ``array``; nothing for a library that has a current device instead.
        """
        if self._places is None:
            try:
                self.library.zeros((), device=array.device)
                self._places = True
            except (TypeError, AttributeError):
                self._places = False
        return {"device": array.device} if self._places else {}

    def quiet(self) -> AbstractContextManager[Any]:
        """Return the context in which kernels run: overflow and NaN are values here, not warnings."""
        return nullcontext() if self._errstate is None else self._errstate(all="ignore")

    def missing(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of ``names`` that the library does not have."""
        return tuple(n for n in names if not hasattr(self.library, n) and n not in EXTRAS)


def _bind(default: Callable[..., Any], xp: Namespace) -> Callable[..., Any]:
    return lambda *args, **kwargs: default(xp, *args, **kwargs)


def _erf(xp: Any, x: Any) -> Any:
    """erf to six units in the last place of float64, in which it is computed.

    Below 2.5 by 2/sqrt(pi) e^(-x²) (x + 2 x³/3 + 4 x⁵/15 + ...), whose terms do not cancel, above by the continued
    fraction of erfc.
    """
    given = x.dtype
    x = xp.astype(x, xp.float64)
    a = xp.abs(x)
    small = xp.where(a < 2.5, a, xp.zeros_like(a))
    double_square = 2.0 * small * small
    term, total = small, small
    for n in range(3, 93, 2):
        term = term * double_square / n
        total = total + term
    series = 2.0 / math.sqrt(math.pi) * xp.exp(-small * small) * total
    large = xp.where(a >= 2.5, a, xp.ones_like(a) * 2.5)
    tail = xp.zeros_like(a)
    for n in range(25, 0, -1):
        tail = (n / 2.0) / (large + tail)
    erfc = xp.exp(-large * large) / (math.sqrt(math.pi) * (large + tail))
    return xp.astype(xp.sign(x) * xp.where(a < 2.5, series, 1.0 - erfc), given)


def _scatter_add_rows(xp: Any, rows: int, index: Any, values: Any) -> Any:
    """Return zeros (rows, D) with ``values`` (N, D) added at ``index`` (N,), in log N whole-array steps.

    Values sorted by row form runs. Adding the neighbour 1, 2, 4, ... places before, where it is of the same run,
    makes the last of each run its sum; then each row looks for its run.
    """
    count = index.shape[0]
    if not count:
        return xp.zeros((rows, values.shape[1]), dtype=values.dtype, **xp.on(values))
    order = xp.argsort(index, stable=True)
    index, values = xp.take(index, order, axis=0), xp.take(values, order, axis=0)
    shift = 1
    while shift < count:
        same = index[shift:] == index[:-shift]
        if not bool(xp.any(same)):
            break
        earlier = values[:-shift, :]
        earlier = xp.where(xp.expand_dims(same, axis=1), earlier, xp.zeros_like(earlier))
        values = xp.concat((values[:shift, :], values[shift:, :] + earlier), axis=0)
        shift *= 2
    wanted = xp.arange(rows, dtype=index.dtype, **xp.on(index))
    last = xp.searchsorted(index, wanted, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    found = xp.expand_dims(xp.take(index, last, axis=0) == wanted, axis=1)
    sums = xp.take(values, last, axis=0)
    return xp.where(found, sums, xp.zeros_like(sums))


def _last_at(xp: Any, count: int, places: Any) -> Any:
    """Return for each of ``count`` places the position of its last mention in places (N,), -1 where there is none."""
    wanted = xp.arange(count, dtype=places.dtype, **xp.on(places))
    if not places.shape[0]:
        return xp.zeros_like(wanted) - 1
    order = xp.argsort(places, stable=True)
    ordered = xp.take(places, order, axis=0)
    last = xp.searchsorted(ordered, wanted, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    found = xp.take(order, last, axis=0)
    return xp.where(xp.take(ordered, last, axis=0) == wanted, found, xp.zeros_like(found) - 1)


def _cumulative_sum(xp: Any, x: Any, *, axis: int) -> Any:
    """Return the running sums of x along axis in log n whole-array steps: each adds what came 1, 2, 4, ... before."""
    n, shift, before = x.shape[axis], 1, (slice(None),) * axis
    while shift < n:
        head, tail, body = (x[(*before, s, ...)] for s in (slice(shift), slice(shift, n), slice(n - shift)))
        x = xp.concat((head, tail + body), axis=axis)
        shift *= 2
    return x


def _dropout_mask(xp: Any, x: Any, p: float, key: int, step: int, first_sample: int) -> Any:
    """Return which elements of x dropout keeps (see ``DropoutForward``), bool, made on the host and copied."""
    kept = random.dropout_mask(tuple(x.shape), p, key, step, first_sample)
    return xp.asarray(kept, **xp.on(x))


EXTRAS: Final[dict[str, Callable[..., Any]]] = {
    "erf": _erf,
    "scatter_add_rows": _scatter_add_rows,
    "last_at": _last_at,
    "dropout_mask": _dropout_mask,
    "cumulative_sum": _cumulative_sum,  # in the standard since 2023.12, in NumPy since 2.1
}
"""What kernels use beyond the array API standard 2024.12 or beyond older libraries, each with its slow default."""
