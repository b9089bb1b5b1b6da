"""The CPU's runtime tells glibc to keep freed memory, for threads too."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

from infinitrain.backend import LaunchInfo
from infinitrain.cpu.runtime import CpuRuntime

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc's mallopt")

FAULTS = """
import resource, threading
import numpy as np
import infinitrain as it

it.zeros(1)
found = []

def work():
    for i in range(12):
        if i == 2:
            before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        a, b = np.ones(10_000_000), np.ones(9_000_000)  # 76 and 69 MiB
        del a, b
    found.append(resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(*found)
"""


def faults(**environment: str) -> int:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "INFINITRAIN_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], env={**env, **environment}, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def test_large_blocks_of_a_thread_are_reused():
    assert faults(INFINITRAIN_MALLOPT="0") > 200, "this would not notice fresh pages"
    assert faults() < 20


def test_a_glibc_that_refuses_the_threshold_gets_the_largest_it_takes(monkeypatch):
    given: dict[int, int] = {}

    def mallopt(what: int, value: int) -> int:
        if what == -3 and value > 32 << 20:
            return 0
        given[what] = value
        return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: type("libc", (), {"mallopt": staticmethod(mallopt)}))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("INFINITRAIN_MALLOPT", raising=False)
        CpuRuntime().initialize(LaunchInfo())
    assert given[-3] == 32 << 20
    assert given[-8] == 1
