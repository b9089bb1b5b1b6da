"""Planted faults: defects of a device, switched on by name, so that a suite can prove that it sees them.

    INFINITRAIN_FAKE_FAULT=wait_no_effect,fill_skips_last python -m ...

``FAULTS`` is the catalogue: name -> ``Fault``. A fault makes the device *behave* wrongly (wrong numbers,
wrong memory, a wrong registration); none of them raises an error to say so. Without the variable nothing of
this package is imported.
"""

from __future__ import annotations

from typing import Any, Final

from infinitrain.backend import OPS

from .catalogue import FAULTS, Fault, parse

__all__ = ["FAULTS", "VARIABLE", "Fault", "parse", "plant", "usable"]

VARIABLE: Final = "INFINITRAIN_FAKE_FAULT"


def plant(names: tuple[str, ...], kind: str, target: Any) -> None:
    """Install those of the named faults that are of ``kind`` on ``target``.

    ``registration``: the dict of fields of the registration; ``runtime``: the FakeRuntime; ``kernels``: the
    dict of kernels by op and layer of the record being built.
    """
    for name in names:
        fault = FAULTS[name]
        if fault.kind == kind:
            fault.install(target)


def usable(fault: Fault) -> bool:
    """Tell whether this core's op table has the op that a fault is about."""
    return fault.op is None or fault.op in OPS


# The files below fill the catalogue.
from . import (  # noqa: E402, F401
    kernels_fused,
    kernels_linear,
    kernels_modern,
    kernels_small,
    memory,
    precision,
    registering,
    streams,
)
