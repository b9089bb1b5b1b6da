"""What thread ranks share (specs, plans, first use, registration), and what each has of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.autograd import is_grad_enabled, no_grad
from infinitrain.backend import TensorSpec, dispatch
from infinitrain.device import CPU
from infinitrain.dtype import float32


@pytest.fixture
def restless() -> Iterator[None]:
    """Let the interpreter switch threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Return ``work(i)`` of ``count`` threads that start at once."""
    start, results, errors = threading.Barrier(count), [None] * count, []

    def main(i: int) -> None:
        start.wait(10)
        try:
            results[i] = work(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=main, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]
    return results


def test_equal_specs_of_two_threads_are_one_object(monkeypatch):
    make = TensorSpec.__init__

    def slowly(self: TensorSpec, *args: Any) -> None:
        make(self, *args)
        time.sleep(0.05)  # every thread has found the table empty before one of them writes it

    monkeypatch.setattr(TensorSpec, "__init__", slowly)
    first, *others = together(4, lambda i: TensorSpec.of((3, 977, 5), float32, CPU))
    assert all(spec is first for spec in others)


def test_threads_that_plan_the_same_ops_while_plans_are_forgotten(restless):
    def work(i: int) -> list[float]:
        rng, sums = np.random.default_rng(5), []
        for rows in range(1, 60):
            fired: list[int] = []
            w = it.from_numpy(rng.standard_normal((rows, 3)).astype(np.float32), requires_grad=True)
            x = it.from_numpy(rng.standard_normal((4, rows, 3)).astype(np.float32))
            w.register_post_accumulate_grad_hook(lambda t, fired=fired: fired.append(i))
            loss = ops.cross_entropy(ops.gelu(ops.linear(x, w)), it.zeros(4, rows, dtype="int64"))
            loss.backward()
            assert fired == [i]
            sums.append(float(w.grad.numpy().sum()))
        return sums

    done = threading.Event()

    def forget() -> None:
        while not done.wait(0.0005):
            dispatch.clear_plans()

    disturber = threading.Thread(target=forget)
    disturber.start()
    try:
        first, *others = together(4, work)
    finally:
        done.set()
        disturber.join()
    assert all(sums == first for sums in others)


def test_grad_mode_is_each_threads_own():
    both_in, both_out = threading.Barrier(2), threading.Barrier(2)

    def work(i: int) -> tuple[bool, bool]:
        if i:
            with no_grad():
                both_in.wait(10)
                inside = is_grad_enabled()
                both_out.wait(10)
        else:
            both_in.wait(10)
            inside = is_grad_enabled()
            both_out.wait(10)
        return inside, is_grad_enabled()

    assert together(2, work) == [(True, True), (False, True)]


FIRST_USE = """
import sys, threading, time
sys.setswitchinterval(1e-6)
found, start = [], threading.Barrier(8)

def work():
    start.wait()
    import infinitrain as it
    from infinitrain.cpu.runtime import CpuRuntime
    with lock:
        if not patched:
            original = CpuRuntime.initialize
            def initialize(self, launch):
                found.append("initialize")
                time.sleep(0.05)
                original(self, launch)
                found.append("ready")
            CpuRuntime.initialize = initialize
            patched.append(True)
    assert (it.ones(3) + it.ones(3)).tolist() == [2.0, 2.0, 2.0]
    found.append("used")

lock, patched = threading.Lock(), []
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(*found)
"""


@pytest.mark.multiproc
def test_threads_that_import_and_use_core_for_the_first_time_at_once():
    assert python(FIRST_USE).split() == ["initialize", "ready", *["used"] * 8]


FORKED = """
import os, threading
import infinitrain
from infinitrain.backend import PrivateUse1BackendRegistration, register_privateuse1_backend
from infinitrain.errors import BackendRegistrationError

entered, leave = threading.Event(), threading.Event()

def register(name, callback):
    try:
        register_privateuse1_backend(PrivateUse1BackendRegistration(
            name=name, contract=(1, 0), register_runtime=callback, register_kernels=callback))
    except BackendRegistrationError as error:
        return str(error)

def slow():
    entered.set()
    leave.wait()

thread = threading.Thread(target=register, args=("parent", slow))
thread.start()
entered.wait()
if os.fork() == 0:
    print(register("child", lambda: None), flush=True)
    os._exit(0)
os.wait()
leave.set()
thread.join()
"""


@pytest.mark.multiproc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_wait_for_a_registration_that_its_parent_has_under_way():
    began = time.monotonic()
    told = python(FORKED)
    assert "register_device_guard_impl" in told, "the child's own mistake is what it should hear of"
    assert "another thread" not in told
    assert time.monotonic() - began < 30


def python(source: str) -> str:
    path = os.pathsep.join([str(Path(it.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
