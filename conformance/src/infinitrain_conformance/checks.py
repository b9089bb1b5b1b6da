"""What is checked of an op on one case and dtype. The suite's tests call these, and so does whatever proves that they
see a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from . import special
from .call import Call, poison
from .cases import Built, Data, OpCase
from .check import close, expect, fail, same_bytes
from .oracles import Want

Make = Callable[..., Call]
"""Returns a fresh Call each time: arguments that an op wrote are made anew. ``offset=True`` as for Call; ``change``
makes other arguments of the case's.
"""


def maker(case: OpCase, dtype: str, seed: int, device: Any, unit: float = 1.0) -> Make:
    """Return the function that puts a case on the device; equal data each time. ``unit`` as for Data."""

    def make(*, change: Callable[[Built], Built] | None = None, **options: Any) -> Call:
        data = Data(seed, dtype, unit=unit)
        built = case.build(data)
        return Call(case.op, built if change is None else change(built), data, device, **options)

    return make


def values(make: Make, heading: str) -> None:
    """The results are the oracle's, have the inferred specs, and no argument was changed [contract 4.1, 4.4]."""
    _values(make(), heading)


def offset_arguments(make: Make, heading: str) -> None:
    """The same for arguments that start in the middle of a larger buffer: aligned to an element, not to 64 bytes."""
    _values(make(offset=True), heading)


def _values(call: Call, heading: str) -> None:
    __tracebackhide__ = True
    want = call.want()
    got = call.run()
    close(heading, call.row.name, got, want)
    if call.row.results:
        for (name, tensor), (shape, inferred) in zip(got.items(), call.specs(), strict=True):
            expect(
                heading,
                (tensor.shape, tensor.dtype, tensor.device) == (shape, inferred, call.device),
                f"{name} is {tensor.spec}, infer says {inferred}{list(shape)}@{call.device}",
            )
    _unchanged(call, heading)


def _unchanged(call: Call, heading: str) -> None:
    __tracebackhide__ = True
    changed = call.changed_inputs()
    expect(heading, not changed, f"the kernel changed its argument {', '.join(changed)} [contract 4.4]")


def destination(make: Make, heading: str) -> None:
    """Destinations inside larger buffers: poisoned before, filled wholly, and nothing beside them [contract 4.4]."""
    __tracebackhide__ = True
    _into(make(), heading)


def _into(call: Call, heading: str) -> None:
    __tracebackhide__ = True
    targets = call.into()
    disturbed = targets.disturbed()
    expect(heading, not disturbed, "; ".join(disturbed))
    close(heading, call.row.name, targets.views, call.want())
    for name, given, returned in zip(targets.views, targets.views.values(), targets.returned, strict=True):
        expect(
            heading, returned is given, f"{name}: what the op returned is not the destination [contract 4.5]"
        )
    _unchanged(call, heading)


def accumulates(make: Make, heading: str, *, wide: bool = False, seed: int = 1) -> None:
    """Added to what the destination holds, in its dtype; with ``wide`` half-precision gradients into float32
    [contract 4.4].
    """
    __tracebackhide__ = True
    from infinitrain.dtype import float32

    call = make()
    rng = np.random.default_rng(seed)
    want, marked = call.want(), call.row.accumulates
    dtypes = dict.fromkeys(marked, float32) if wide else {}
    added, prefill = dict(want), dict[str, np.ndarray]()
    for name, (shape, inferred) in zip(call.names(), call.specs(), strict=True):
        if name in marked:
            kept = dtypes.get(name, inferred)
            prefill[name] = (rng.standard_normal(shape) * 10 + 3).astype(kept.numpy)
            added[name] = _sum(want[name], prefill[name], inferred)
            want[name] = _sum(want[name], np.zeros(shape), inferred)
    targets = call.into(prefill, dtypes)
    disturbed = targets.disturbed()
    expect(heading, not disturbed, "; ".join(disturbed))
    close(heading, call.row.name, targets.views, added)
    if wide:  # the first gradient of a step overwrites a destination that is as wide
        close(heading, call.row.name, make().into(dtypes=dtypes).views, want)


def _sum(want: Want, before: np.ndarray, dtype: Any) -> Want:
    """Return what a result of ``dtype`` makes of what its destination holds. Core may add what was rounded to that
    dtype: one unit of it, in units of the table's constant.
    """
    held, extra = before.astype(np.float64), 2.0**16 / 8 if dtype.itemsize == 2 else 0.0
    size = want.magnitude + np.abs(held) + extra * np.abs(want.value)
    return Want(want.value + held, size, want.terms)


def accumulates_alone(make: Make, heading: str, *, seed: int = 1) -> None:
    """``accumulate=True`` and one destination: only that is added to, never what core allocates [contract 4.4]."""
    __tracebackhide__ = True
    import infinitrain as it

    rng = np.random.default_rng(seed)
    for alone in make().names():
        call = make()
        want, prefill = call.want(), dict[str, np.ndarray]()
        for name, (shape, inferred) in zip(call.names(), call.specs(), strict=True):
            it.from_numpy(poison(inferred, shape), call.device)  # what memory that is used again holds
            if name == alone and name in call.row.accumulates:
                prefill[name] = (rng.standard_normal(shape) * 10 + 3).astype(inferred.numpy)
                want[name] = _sum(want[name], prefill[name], inferred)
        targets = call.into(prefill, only=alone)
        got = dict(zip(call.names(), targets.returned, strict=True))
        expect(heading, not targets.disturbed(), "; ".join(targets.disturbed()))
        close(f"{heading}   out {alone}", call.row.name, got, want)


def large(make: Make, heading: str) -> None:
    """More elements than a thread is given: the values; then again from and to memory that is aligned to an element
    only, and poisoned [contract 4.1, 4.4].
    """
    __tracebackhide__ = True
    call, moved = make(), make(offset=True)
    moved.want = call.want
    _values(call, heading)
    if applies("destination", call.row):
        _into(moved, heading)
    else:
        _values(moved, heading)


def large_accumulates(make: Make, heading: str, *, seed: int = 1) -> None:
    """Added to destinations, half of whose elements are a thousand times the others; one is NaN, one infinite, and
    these stay where they are [contract 4.4].
    """
    __tracebackhide__ = True
    call = make(offset=True)
    rng, added, prefill = np.random.default_rng(seed), call.want(), dict[str, np.ndarray]()
    for name, (shape, inferred) in zip(call.names(), call.specs(), strict=True):
        if name in call.row.accumulates:
            before = rng.standard_normal(shape) + 3.0
            flat = before.reshape(-1)
            flat[1::2] *= 1000.0
            flat[-1], flat[flat.size // 2] = np.inf, np.nan
            prefill[name] = before.astype(inferred.numpy)
            added[name] = _sum(added[name], prefill[name], inferred)
    targets = call.into(prefill)
    expect(heading, not targets.disturbed(), "; ".join(targets.disturbed()))
    close(heading, call.row.name, targets.views, added)


def repeats(make: Make, heading: str) -> None:
    """The same call twice gives the same bits [contract 7.7]."""
    __tracebackhide__ = True
    first, second = make().run(), make().run()
    for name, tensor in first.items():
        same_bytes(heading, f"{name} of two equal calls", second[name].numpy(), tensor.numpy())


def small_into_large(make: Make, heading: str) -> None:
    """1,000 + 0.01 in a float32 destination for bfloat16 inputs: a sum in bfloat16 would stay 1,000."""
    __tracebackhide__ = True
    from infinitrain.dtype import float32

    call = make()
    want, marked = call.want(), call.row.accumulates
    name = marked[0]
    shapes = {n: shape for n, (shape, _) in zip(call.names(), call.specs(), strict=True)}
    prefill = {n: np.full(shapes[n], 1000.0) for n in marked}
    targets = call.into(prefill, dict.fromkeys(marked, float32))
    got = targets.views[name].numpy().astype(np.float64) - 1000.0
    error = np.abs(got - want[name].value)
    scale = np.abs(want[name].value) * 2.0**-7 + want[name].magnitude * 2.0**-18 + 1000 * 2.0**-22
    if not (error <= scale).all():
        worst = np.unravel_index(int(np.argmax(error - scale)), shapes[name])
        fail(heading, [f"{name}: grew by {got[worst]:.5g}, float64 oracle {want[name].value[worst]:.5g}"])


@dataclass(frozen=True)
class Check:
    """What is checked, and on what: the whole matrix, or the first case of each op in these dtypes."""

    run: Callable[[Make, str], None]
    clause: str | None = None
    """None: the case's own."""
    dtypes: tuple[str, ...] | None = None
    file: str = "ops"
    """The suite's file that holds the test."""
    large: bool = False
    """On the large cases, and on no others."""


FLOATS: Final = ("float32", "bfloat16", "float16", "float64")
CHECKS: Final[dict[str, Check]] = {
    "values": Check(values),
    "offset_arguments": Check(offset_arguments, "4.4", ("float32", "bfloat16")),
    "destination": Check(destination, "4.4", ("float32", "bfloat16", "int64")),
    "accumulates": Check(accumulates, "4.4", ("float32", "bfloat16")),
    "accumulates_alone": Check(accumulates_alone, "4.4", ("float32", "bfloat16")),
    "accumulates_into_float32": Check(partial(accumulates, wide=True), "4.4", ("bfloat16",)),
    "accumulates_small_into_large": Check(small_into_large, "4.4", ("bfloat16",)),
    "repeats": Check(repeats, "7.7", ("float32",)),
    "large": Check(large, "4.4", file="sizes", large=True),
    "large_accumulates": Check(large_accumulates, "4.4", file="sizes", large=True),
    "large_repeats": Check(repeats, "7.7", file="sizes", large=True),
    **{
        group: Check(partial(special.check, group), "4.7", FLOATS, "special_values")
        for group in special.GROUPS
    },
}
"""By the name of the test that runs them."""


def applies(check: str, row: Any) -> bool:
    """Tell whether a check says something about an op: destinations need results that are no views, special values
    arithmetic.
    """
    if check in special.GROUPS:
        return not row.view
    if check == "destination":
        return bool(row.results) and not row.view and not row.results[0].startswith("*")
    if check == "accumulates_alone":
        return bool(row.accumulates) and len(row.results) > 1
    return bool(row.accumulates) if "accumulates" in check else True


def planned(check: str) -> list[tuple[OpCase, str]]:
    """Return each case and dtype that a check is run on, in the suite's order."""
    from infinitrain.backend import OPS

    from .families import first_cases, matrix, sizes

    of = CHECKS[check]
    pairs = [(case, dtype) for case, dtype in matrix() if sizes.is_large(case) == of.large]
    if of.dtypes is not None:
        there = set(pairs)
        chosen = [(case, dtype) for case in first_cases() for dtype in of.dtypes if (case, dtype) in there]
        if check in special.GROUPS:
            chosen += [(case, dtype) for case, dtype in pairs if sizes.has_lanes(case)]
        pairs = chosen
    return [(case, dtype) for case, dtype in pairs if applies(check, OPS[case.op])]
