"""The backend ``fake``: a strict, slow accelerator simulated in host memory.

    device = infinitrain.Device.parse("fake:1")     # loads this package by its entry point

Options (``--backend_option k=v`` or the environment): ``INFINITRAIN_FAKE_DEVICES``,
``INFINITRAIN_FAKE_MEMORY_MB``, ``INFINITRAIN_FAKE_FAULT``; and ``INFINITRAIN_FAKE_LEAKS=1`` makes live
buffers at exit an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .__about__ import __version__
from .registration import register_backend

if TYPE_CHECKING:
    from .counters import Statistics
    from .runtime import FakeRuntime

__all__ = ["__version__", "leak_report", "register_backend", "reset_statistics", "statistics"]


def statistics() -> Statistics:
    """Return what the device did since the start or the last reset: kernels by op, copies, allocations."""
    return _runtime().counts.snapshot()


def reset_statistics() -> None:
    """Start counting anew."""
    from .counters import Statistics

    _runtime().counts = Statistics()


def leak_report() -> str:
    """Return one line per live buffer: size, device, the op that allocated it; "" when there is none."""
    return _runtime().leak_report()


def _runtime() -> FakeRuntime:
    from .registration import runtime

    return runtime()
