"""For tests of backends: a temporary registration, a device over host memory, a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from .backend import registration, runtime
from .backend.ccl import CclImpl
from .backend.guard_impl import DeviceGuardImpl, LaunchInfo
from .backend.problems import CONTRACT
from .backend.registration import (
    PrivateUse1BackendRegistration,
    register_device_guard_impl,
    register_privateuse1_backend,
)
from .device import Device, DeviceType
from .dtype import DType
from .errors import BackendRegistrationError

__all__ = [
    "HostBuffer",
    "HostRuntime",
    "IdleCcl",
    "host_backend",
    "refusal",
    "run_python",
    "temporary_backend",
]


@contextmanager
def temporary_backend(
    register: Callable[[], object] | None = None, type: DeviceType = DeviceType.PRIVATEUSE1
) -> Iterator[None]:
    """Run the body with what ``register()`` registers instead of what is there; then put that back.

    The only way to take a registration back [contract 2.10]. Both changes outdate every kernel cache. A
    runtime that the body started is shut down; keep no tensor of it. Without ``register`` the body finds the
    slot empty. Only one thread may use it at a time.
    """
    record, state = registration.find_published(type), runtime.suspend(type)
    registration.publish(type, None)
    try:
        if register is not None:
            register()
        yield
    finally:
        started, _ = runtime.suspend(type)
        if started is not None:
            started.shutdown()
        registration.publish(type, record)
        runtime.resume(type, state)


class HostBuffer:
    """Device memory of a HostRuntime: bytes of a NumPy array, from a 64-byte boundary on."""

    def __init__(self, device: Device, nbytes: int, adopted: np.ndarray | None = None) -> None:
        self._owner = (
            np.empty(nbytes + 64, np.uint8) if adopted is None else adopted.reshape(-1).view(np.uint8)
        )
        address = _address(self._owner)
        self.lead = address % 64  # how far an adopted array starts behind the boundary
        self.ptr = address - self.lead if adopted is not None else address + -address % 64
        self.device, self.nbytes = device, nbytes if adopted is None else nbytes + self.lead

    def bytes(self, offset: int, nbytes: int) -> np.ndarray:
        """Return a view of part of the memory."""
        start = self.ptr + offset - _address(self._owner)
        return self._owner[start : start + nbytes]


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class HostRuntime(DeviceGuardImpl):
    """A plain device over host memory, to test core with and to derive test doubles from.

    ``log`` is a list of (method, argument) in the order of calls; ``launch`` is what ``initialize`` got.
    """

    type = DeviceType.PRIVATEUSE1

    def __init__(self, count: int = 2) -> None:
        self.count = count
        self.log: list[tuple[str, Any]] = []
        self.launch: LaunchInfo | None = None
        self._thread = threading.local()

    def calls(self, method: str) -> int:
        """Return how often ``method`` was called."""
        return sum(name == method for name, _ in self.log)

    def initialize(self, launch: LaunchInfo) -> None:
        self.log.append(("initialize", launch))
        self.launch = launch

    def shutdown(self) -> None:
        self.log.append(("shutdown", None))

    def device_count(self) -> int:
        self.log.append(("device_count", None))
        return self.count

    def get_device(self) -> Device:
        return getattr(self._thread, "device", None) or Device(self.type, 0)

    def set_device(self, device: Device) -> None:
        self.log.append(("set_device", device))
        self._thread.device = device

    def malloc(self, nbytes: int, stream: Any = None) -> HostBuffer:
        self.log.append(("malloc", nbytes))
        return HostBuffer(self.get_device(), nbytes)

    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        self.log.append(("memcpy", kind))
        _side(dst, dst_offset, nbytes)[:] = _side(src, src_offset, nbytes)

    def native_array(self, buffer: Any, byte_offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        return buffer.bytes(byte_offset, prod(shape) * dtype.itemsize).view(dtype.numpy).reshape(shape)

    def adopt(self, array: Any) -> tuple[HostBuffer, int]:
        buffer = HostBuffer(self.get_device(), array.nbytes, array)
        return buffer, buffer.lead


def _side(side: Any, offset: int, nbytes: int) -> np.ndarray:
    if isinstance(side, HostBuffer):
        return side.bytes(offset, nbytes)
    return np.frombuffer(side, np.uint8)[offset : offset + nbytes]


def host_backend(
    runtime: DeviceGuardImpl | None = None, *, kernels: Callable[[], Any] | None = None, **fields: Any
) -> Callable[[], None]:
    """Return a function that registers ``testdev``, with array kernels on NumPy, for ``temporary_backend``.

    ``runtime`` is the instance to register, ``kernels`` is called after the array kernels; ``fields`` replace
    those of the registration.
    """
    impl = runtime if runtime is not None else HostRuntime()

    def register_runtime() -> None:
        register_device_guard_impl(DeviceType.PRIVATEUSE1, impl)

    def register_kernels() -> None:
        from .kernels import register_array_kernels

        register_array_kernels(DeviceType.PRIVATEUSE1, "numpy")
        if kernels is not None:
            kernels()

    values: dict[str, Any] = {
        "name": "testdev",
        "contract": CONTRACT,
        "register_runtime": register_runtime,
        "register_kernels": register_kernels,
    }

    def register() -> None:
        register_privateuse1_backend(PrivateUse1BackendRegistration(**values | fields))

    return register


class IdleCcl(CclImpl):
    """Collectives that do nothing but be complete."""

    type = DeviceType.PRIVATEUSE1

    _idle: Any = lambda self, *args: None
    get_unique_id = comm_init_rank = comm_destroy = _idle
    all_reduce = broadcast = all_gather = reduce_scatter = _idle


def refusal(register: Callable[[], object]) -> BackendRegistrationError:
    """Return the error with which a registration is refused. Raises AssertionError when it is not."""
    with temporary_backend():
        try:
            register()
        except BackendRegistrationError as error:
            assert not registration.has_privateuse1_backend(), "a refused registration left something behind"
            return error
    raise AssertionError("the registration was accepted")


def run_python(code: str, *path: str, timeout: float = 60, **env: str) -> str:
    """Run ``code`` in a Python of its own, with folders ``path`` put before sys.path; return what it printed.

    Raises AssertionError with its error output when it fails.
    """
    folders = [*path, *[p for p in sys.path if p]]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
