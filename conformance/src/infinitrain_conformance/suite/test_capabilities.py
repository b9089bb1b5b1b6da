"""L1: what the provider declares works, and what it does not declare fails in the contract's way."""

from __future__ import annotations

import pytest

from infinitrain_conformance import manifest
from infinitrain_conformance.probes import PROBES
from infinitrain_conformance.target import Target

CLAUSES = {
    "host_visible": "3.9", "peer_copy": "3.4", "thread_ranks": "3.10", "options": "3.2", "nondeterministic": "7.7",
    "peak_flops": "2.1", "kernel_window": "3.9", "memory_stats": "3.7", "ccl": "6.1",
}  # fmt: skip


def _parameter(name: str) -> object:
    devices = 2 if name == "peer_copy" else 1
    mark = pytest.mark.contract(CLAUSES.get(name, "3.1"), level="L1", devices=devices)
    return pytest.param(name, marks=mark)


@pytest.mark.parametrize("name", map(_parameter, manifest.NAMES))
def test_as_declared(name: str, target: Target, heading: str) -> None:
    assert target.runtime  # capabilities may be known only after its start
    declared = manifest.declared(target.record)[name]
    works, refuses = PROBES[name]
    (works if declared else refuses)(target, f"{heading}\n  {manifest.where(target.record, name)}:")
