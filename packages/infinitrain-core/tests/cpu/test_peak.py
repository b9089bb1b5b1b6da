"""The CPU's memory statistics: resident memory now, and its peak since the last reset."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import infinitrain as it
from infinitrain.cpu import runtime
from infinitrain.cpu.runtime import CpuRuntime

PEAKS = """
import numpy as np
import infinitrain as it
from infinitrain.backend import get_device_guard_impl

cpu = get_device_guard_impl(it.DeviceType.CPU)
found = []
for mib in (200, 0, 50):
    cpu.reset_peak(it.CPU)
    before = cpu.memory_stats(it.CPU)["used"]
    held = np.ones(mib << 20, np.uint8)
    del held
    found.append((cpu.memory_stats(it.CPU)["peak_used"] - before) >> 20)
print(*found)
"""


@pytest.mark.multiproc
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak cannot be reset here")
def test_the_peak_is_of_what_happened_since_the_reset() -> None:
    env = os.environ | {"INFINITRAIN_MALLOPT": "0"}  # which gives freed memory back
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAKS)], check=True, env=env, capture_output=True, text=True
    )
    large, nothing, small = map(int, done.stdout.split())
    assert 198 <= large <= 205
    assert nothing <= 2
    assert 48 <= small <= 55


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1)])
def test_without_proc_the_peak_is_that_of_the_run(
    platform: str, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """getrusage counts KiB, on macOS bytes."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(runtime, "_proc_status", dict)
    monkeypatch.setattr(sys, "platform", platform)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stats = CpuRuntime().memory_stats(it.CPU)
    assert stats["used"] is None
    assert stats["peak_used"] == pytest.approx(peak * unit, rel=0.1)


def test_a_system_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_proc_status", dict)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert set(CpuRuntime().memory_stats(it.CPU).values()) == {None}
