"""What is checked of an op on one case and dtype. The suite's tests call these, and so does whatever proves that they
see a defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .call import Call
from .cases import Data, OpCase
from .check import close, expect, same_bytes
from .oracles import Want

Make = Callable[..., Call]
"""Returns a fresh Call each time: arguments that an op wrote are made anew. ``offset=True`` as for Call."""


def maker(case: OpCase, dtype: str, seed: int, device: Any) -> Make:
    """Return the function that puts a case on the device; equal data each time."""

    def make(**options: Any) -> Call:
        data = Data(seed, dtype)
        return Call(case.op, case.build(data), data, device, **options)

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
    call = make()
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
    prefill: dict[str, np.ndarray] = {}
    for name, (shape, inferred) in zip(call.names(), call.specs(), strict=True):
        if name in marked:
            kept = dtypes.get(name, inferred)
            before = (rng.standard_normal(shape) * 10 + 3).astype(kept.numpy)
            prefill[name] = before
            # Core may add what was rounded to the op's dtype: one unit of it, in units of the table's constant.
            w, extra = want[name], 2.0**16 / 8 if inferred.itemsize == 2 else 0.0
            size = w.magnitude + extra * np.abs(w.value) + np.abs(before.astype(np.float64))
            want[name] = Want(w.value + before.astype(np.float64), size, w.terms)
    targets = call.into(prefill, dtypes)
    disturbed = targets.disturbed()
    expect(heading, not disturbed, "; ".join(disturbed))
    close(heading, call.row.name, targets.views, want)


def repeats(make: Make, heading: str) -> None:
    """The same call twice gives the same bits [contract 7.7]."""
    __tracebackhide__ = True
    first, second = make().run(), make().run()
    for name, tensor in first.items():
        same_bytes(heading, f"{name} of two equal calls", second[name].numpy(), tensor.numpy())


CHECKS: Final[dict[str, Callable[[Make, str], None]]] = {
    "values": values,
    "offset_arguments": offset_arguments,
    "destination": destination,
    "accumulates": accumulates,
    "repeats": repeats,
}
"""By the name of the test that runs them."""


def applies(check: str, row: Any) -> bool:
    """Tell whether a check says something about an op: destinations need results that are no views."""
    if check == "destination":
        return bool(row.results) and not row.view and not row.results[0].startswith("*")
    return bool(row.accumulates) if check == "accumulates" else True
