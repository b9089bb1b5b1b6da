"""What a provider declares: the fields of Capabilities and the optional groups of its runtime, as one table.

Each has a probe (``probes``), which is run whether it is declared or not: declared, it works; not declared, asking for
it fails in the contract's way. A field or method that nobody thought of is a failure of the suite's own tests.
"""

from __future__ import annotations

from typing import Any, Final

FIELDS: Final = ("host_visible", "peer_copy", "thread_ranks", "options", "nondeterministic", "peak_flops")
"""Of ``infinitrain.backend.Capabilities``."""

METHODS: Final[dict[str, tuple[str, ...]]] = {
    "arrays": ("native_array", "adopt", "empty_array", "array_maker"),
    "streams": (
        "current_stream", "set_current_stream", "create_stream", "create_event", "record", "wait", "query",
        "synchronize_event", "elapsed_ms", "synchronize", "record_use",
    ),
    "capture": ("begin_capture", "end_capture", "replay"),
    "host_alloc": ("host_alloc",),
    "memcpy_async": ("memcpy_async",),
    "memory_stats": ("memory_stats", "reset_peak", "empty_cache"),
    "kernel_window": ("kernel_window",),
}  # fmt: skip
"""Optional methods of ``DeviceGuardImpl`` by group; the first one tells whether the group is there."""

NAMES: Final = (*FIELDS, *METHODS, "ccl")


def declared(record: Any) -> dict[str, bool]:
    """Return which of ``NAMES`` the registered provider offers. Calls nothing of its runtime."""
    from infinitrain.backend import Capabilities, DeviceGuardImpl

    given, runtime = record.capabilities, record.runtime
    offered = {name: bool(getattr(given, name)) for name in FIELDS if name != "peak_flops"}
    offered["peak_flops"] = given.peak_flops is not Capabilities().peak_flops
    for group, (first, *_) in METHODS.items():
        offered[group] = getattr(type(runtime), first) is not getattr(DeviceGuardImpl, first)
    return {**offered, "ccl": record.ccl is not None}


def where(record: Any, name: str) -> str:
    """Return where the provider says that it offers something, or does not."""
    offered = declared(record)[name]
    if name in FIELDS:
        value = getattr(record.capabilities, name)
        if name == "options":
            value = tuple(option.name for option in value)
        elif name == "peak_flops":
            value = "a function" if offered else "None"
        return f"declared in Capabilities at registration: {name}={value}"
    if name == "ccl":
        return f"ccl is {'' if offered else 'not '}declared: register_ccl at registration"
    return f"{name} is {'' if offered else 'not '}declared by {type(record.runtime).__name__}"
