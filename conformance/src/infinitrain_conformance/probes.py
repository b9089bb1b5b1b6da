"""A probe for each entry of ``manifest.NAMES``: declared, it works; not declared, asking fails in the contract's way.

Those of the runtime's methods stand in ``probes_methods``.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from .check import expect, fail, same_bytes
from .fresh import fresh
from .probes_methods import METHOD_PROBES, Probe, filled, refuses, still_works, stream_of
from .target import Target

# Fields of Capabilities -------------------------------------------------------------------------------------


def _host_visible(target: Target, heading: str) -> None:
    """The array is the memory: what is written to one is read from the other."""
    _, x = filled(target)
    expect(heading, target.runtime.host_visible is True, "the runtime does not know that it is host visible")
    array = np.asarray(x.array)
    array[3] = 99.0
    expect(heading, x.numpy()[3] == 99.0, "writing to the array did not change the tensor's memory")


def _not_host_visible(target: Target, heading: str) -> None:
    """Outside its window an array is refused, or is a handle that NumPy's copy does not write through."""
    from infinitrain.errors import InfiniTrainError

    values, x = filled(target)
    expect(heading, not target.runtime.host_visible, "the runtime says host_visible, the capabilities do not")
    host = x.numpy()
    host[...] = -1
    same_bytes(heading, "a tensor after its copy was written to", x.numpy(), values)
    if target.runtime.kernel_window is None:
        return
    try:
        found = x.array
    except InfiniTrainError:
        return
    fail(heading, [f"tensor.array outside a kernel gave {found!r} [contract 3.9]"])


def _two_devices(target: Target) -> Any:
    from infinitrain.device import Device

    if target.runtime.device_count() < 2:
        pytest.skip("needs two devices")
    return Device(target.device.type, 1 - min(target.device.index, 1))


def _peer_copy(target: Target, heading: str) -> None:
    """memcpy D2D goes from one device to another."""
    from infinitrain import backend

    other = _two_devices(target)
    values, x = filled(target)
    backend.synchronize(target.device)
    back = np.zeros_like(values)
    with backend.DeviceGuard(other):
        there = target.runtime.malloc(values.nbytes)
        target.runtime.memcpy(there, 0, x.buffer, x.offset, values.nbytes, "D2D")
        target.runtime.memcpy(back.data.cast("B"), 0, there, 0, values.nbytes, "D2H")
    same_bytes(heading, f"D2D from {target.device} to {other}", back, values)


def _no_peer_copy(target: Target, heading: str) -> None:
    """Core goes through the host instead, and nobody notices."""
    other = _two_devices(target)
    values, x = filled(target)
    same_bytes(heading, f"a copy from {target.device} to {other}", x.to(other).numpy(), values)


def _threads(target: Target, heading: str, count: int) -> None:
    from infinitrain import backend

    errors: list[str] = []

    def use(index: int) -> None:
        try:
            backend.set_current_device(target.device)
            _, x = filled(target, 4096 + index)
            for i in range(20):
                x.fill_(float(i + index))
            if not (x.numpy() == 19.0 + index).all():
                errors.append(f"thread {index} read {np.unique(x.numpy())[:4]}, it wrote {19.0 + index}")
        except Exception as error:
            errors.append(f"thread {index}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=use, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(heading, not errors, "; ".join(errors))


def _thread_ranks(target: Target, heading: str) -> None:
    """Threads have a current device and memory of their own."""
    _threads(target, heading, 4)


def _no_thread_ranks(target: Target, heading: str) -> None:
    """Ranks are processes then; a second thread of one rank, such as a data loader's, works all the same."""
    _threads(target, heading, 1)


def _options(target: Target, heading: str) -> None:
    """Each option is a flag with a help text, its default reads back, and what is given reaches ``initialize``."""
    from infinitrain.errors import BackendInitError

    given = dict(target.spec.options)
    for option in target.record.capabilities.options:
        expect(heading, option.help, f"option {option.name} has no help text")
        if option.default is not None:
            value = option.parse(str(option.default))
            expect(
                heading, value == option.default, f"option {option.name}: its default reads back as {value!r}"
            )
            given.setdefault(option.name, str(option.default))
        if option.type in (int, float):
            with pytest.raises(BackendInitError, match=option.name):
                option.parse("no number")
    got = fresh(heading, replace(target.spec, options=tuple(given.items())), "launch_options")
    for name, text in given.items():
        expect(
            heading, got["options"].get(name) == text, f"option {name}={text!r} arrived as {got['options']}"
        )
    _unknown_option(target, heading)


def _unknown_option(target: Target, heading: str) -> None:
    """An option that nobody declares is refused by name, before the device is touched [contract 3.2]."""
    from infinitrain.device import DeviceType

    if target.device.type is DeviceType.CPU:  # whose options may be another device's
        return
    got = fresh(heading, target.spec, "unknown_option")
    said = "conformance_no_such_option" in got["message"] and repr(target.name) in got["message"]
    expect(heading, said, f"not refused by name: {got['message']!r}")
    expect(heading, "initialize" not in got["calls"], "the device was initialised all the same")


def _nondeterministic(target: Target, heading: str) -> None:
    """The list names each op once; registration checks that they are ops. Their values are checked like all others."""
    names = target.record.capabilities.nondeterministic
    expect(heading, len(set(names)) == len(names), f"capabilities.nondeterministic names one twice: {names}")


def _deterministic(target: Target, heading: str) -> None:
    """No op is excused: a cast twice gives the same bits; ops::test_repeats asks the others."""
    import infinitrain as it
    from infinitrain.dtype import int64

    x = it.from_numpy(np.random.default_rng(0).normal(0, 1e6, (64, 4096)).astype(np.float32), target.device)
    cast = it.backend.OPS["Cast"].call
    same_bytes(heading, "Cast of the same values", cast(x, int64).numpy(), cast(x, int64).numpy())


def _peak_flops(target: Target, heading: str) -> None:
    """FLOP/s of one device: a number for at least one dtype, None for those that are not known."""
    found = _peaks(target, heading)
    expect(heading, found, "peak_flops is declared, and None for every dtype: leave it out")


def _no_peak_flops(target: Target, heading: str) -> None:
    expect(heading, not _peaks(target, heading), "peak_flops is not declared, but answers")


def _peaks(target: Target, heading: str) -> dict[str, float]:
    from infinitrain.dtype import ALL

    found = {}
    for dtype in ALL:
        value = target.record.capabilities.peak_flops(dtype)
        if value is None:
            continue
        number = isinstance(value, int | float) and math.isfinite(value) and 1e6 <= value < 1e19
        expect(heading, number, f"peak_flops({dtype.name}) is {value!r}: FLOP/s of one device, or None")
        found[dtype.name] = value
    return found


# Collectives ------------------------------------------------------------------------------------------------


def _ccl(target: Target, heading: str) -> None:
    """Among one rank every collective gives back what was sent; what is not offered says so [contract 6.1]."""
    import infinitrain as it
    from infinitrain import backend
    from infinitrain.dtype import float32

    ccl, stream = target.record.ccl, stream_of(target)
    backend.set_current_device(target.device)
    name = ccl.get_unique_id()
    expect(heading, isinstance(name, bytes) and name, f"get_unique_id() is {name!r}, not bytes")
    comm = ccl.comm_init_rank(1, name, 0)
    values, x = filled(target)
    count = len(values)
    calls: dict[str, Callable[[int], None]] = {
        "all_reduce": lambda to: ccl.all_reduce(x.ptr, to, count, float32, "SUM", comm, stream),
        "broadcast": lambda to: ccl.broadcast(x.ptr, to, count, float32, 0, comm, stream),
        "all_gather": lambda to: ccl.all_gather(x.ptr, to, count, float32, comm, stream),
        "reduce_scatter": lambda to: ccl.reduce_scatter(x.ptr, to, count, float32, "SUM", comm, stream),
    }
    for what, call in calls.items():
        y = it.full((count,), -1.0, device=target.device)
        call(y.ptr)
        backend.synchronize(target.device)
        same_bytes(heading, f"{what} among one rank", y.numpy(), values)
    ccl.comm_destroy(comm)
    for method in ("reduce", "send", "recv", "comm_abort"):
        if getattr(type(ccl), method) is getattr(backend.CclImpl, method):
            arguments = len(inspect.signature(getattr(ccl, method)).parameters)
            refuses(target, heading, method, *[None] * arguments, of=ccl)


def _no_ccl(target: Target, heading: str) -> None:
    """Nothing of core asks for collectives yet: a device without them works alone."""
    expect(
        heading,
        target.record.registration.register_ccl is None,
        "register_ccl was given, but there is no ccl",
    )
    still_works(target, heading, "no collectives")


PROBES: Final[dict[str, tuple[Probe, Probe]]] = {
    "host_visible": (_host_visible, _not_host_visible),
    "peer_copy": (_peer_copy, _no_peer_copy),
    "thread_ranks": (_thread_ranks, _no_thread_ranks),
    "options": (_options, _unknown_option),
    "nondeterministic": (_nondeterministic, _deterministic),
    "peak_flops": (_peak_flops, _no_peak_flops),
    "ccl": (_ccl, _no_ccl),
    **METHOD_PROBES,
}
"""(declared, undeclared) by name of the manifest."""
