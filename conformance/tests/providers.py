"""Providers for the suite's own tests, given by --backend_module: a right one, and some with one defect each."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np

from infinitrain.backend import (
    Capabilities,
    DeviceGuardImpl,
    PrivateUse1BackendRegistration,
    register_device_guard_impl,
    register_kernel,
    register_privateuse1_backend,
)
from infinitrain.device import Device, DeviceType
from infinitrain.errors import MissingLibraryError, NoDeviceError, OutOfMemoryError
from infinitrain.kernels import register_array_kernels

TYPE = DeviceType.PRIVATEUSE1
DEVICE = Device(TYPE)


class HostBuffer:
    def __init__(self, nbytes: int) -> None:
        raw = np.empty(nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.bytes, self.nbytes, self.device = raw[start : start + nbytes], nbytes, DEVICE
        self.ptr = raw.ctypes.data + start


class ArrayBuffer:
    """The memory of a result that a kernel made."""

    def __init__(self, array: np.ndarray, start: int) -> None:
        self.array, self.ptr, self.device = array, start, DEVICE
        self.nbytes = array.nbytes + array.ctypes.data - start
        self.bytes = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_uint8 * self.nbytes).from_address(start))


class Host(DeviceGuardImpl):
    """One device on host memory, no streams."""

    type = TYPE
    error: Exception | None = None

    def initialize(self, launch: Any) -> None:
        if self.error is not None:
            raise self.error

    def device_count(self) -> int:
        return 1

    def get_device(self) -> Device:
        return DEVICE

    def set_device(self, device: Device) -> None:
        pass

    def malloc(self, nbytes: int, stream: Any = None) -> HostBuffer:
        if nbytes >= 1 << 40:
            raise OutOfMemoryError(DEVICE, nbytes)
        return HostBuffer(nbytes)

    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        to = dst.bytes if hasattr(dst, "bytes") else np.frombuffer(dst, np.uint8)
        of = src.bytes if hasattr(src, "bytes") else np.frombuffer(src, np.uint8)
        to[dst_offset : dst_offset + nbytes] = of[src_offset : src_offset + nbytes].copy()

    def native_array(self, buffer: Any, byte_offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.ndarray(shape, dtype.numpy, buffer.bytes, byte_offset)

    def adopt(self, array: np.ndarray) -> tuple[Any, int]:
        start = array.ctypes.data - array.ctypes.data % 64
        return ArrayBuffer(array, start), array.ctypes.data - start


class NoCard(Host):
    error = NoDeviceError("no card answers on the bus")


class NoLibrary(Host):
    error = MissingLibraryError("libchip.so.3", ["/opt/chip/lib"])


class BrokenStart(Host):
    error = RuntimeError("driver 1.2 is too old for library 3.4")


class DiesAtStart(Host):
    def initialize(self, launch: Any) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class ExitsAtStart(Host):
    def initialize(self, launch: Any) -> None:
        os._exit(9)


class HangsAtStart(Host):
    def initialize(self, launch: Any) -> None:
        time.sleep(3600)


def hangs_at_start() -> None:
    _register(lambda: register_device_guard_impl(TYPE, HangsAtStart()), kernels)


def dies_at_start() -> None:
    _register(lambda: register_device_guard_impl(TYPE, DiesAtStart()), kernels)


def exits_at_start() -> None:
    _register(lambda: register_device_guard_impl(TYPE, ExitsAtStart()), kernels)


def host() -> None:
    register_device_guard_impl(TYPE, Host())


def no_card() -> None:
    register_device_guard_impl(TYPE, NoCard())


def no_library() -> None:
    register_device_guard_impl(TYPE, NoLibrary())


def broken_start() -> None:
    register_device_guard_impl(TYPE, BrokenStart())


def kernels() -> None:
    register_array_kernels(TYPE, "numpy")


def base_kernels() -> None:
    kernels()
    from infinitrain.backend import BASE_OPS
    from infinitrain.backend.registration import building

    table = building("test", TYPE).kernels
    for name in [n for n in table if n not in BASE_OPS]:
        del table[name]


def linear_forgets_bias() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _no_bias)


def _no_bias(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    out.array[...] = x.array.astype(np.float32) @ weight.array.astype(np.float32).T


def linear_writes_beside() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _writes_beside)


def _writes_beside(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    y = x.array.astype(np.float32) @ weight.array.astype(np.float32).T
    out.array[...] = y if bias is None else y + bias.array.astype(np.float32)
    step = out.dtype.itemsize
    end = out.offset + out.nbytes
    out.buffer.bytes[end : end + step] = 0


def linear_aborts() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _aborts)


def _aborts(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    os.abort()


def linear_hangs() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _hangs)


def _hangs(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    time.sleep(3600)


def _register(runtime: Any, kernels: Any, contract: Any = (1, 0)) -> None:
    register_privateuse1_backend(
        PrivateUse1BackendRegistration(
            name="toy",
            contract=contract,
            register_runtime=runtime,
            register_kernels=kernels,
            capabilities=Capabilities(host_visible=True),
        )
    )


def good() -> None:
    _register(host, kernels)


def without_card() -> None:
    _register(no_card, kernels)


def without_library() -> None:
    _register(no_library, kernels)


def does_not_start() -> None:
    _register(broken_start, kernels)


def base_only() -> None:
    _register(host, base_kernels)


def forgets_bias() -> None:
    _register(host, linear_forgets_bias)


def writes_beside() -> None:
    _register(host, linear_writes_beside)


def aborts() -> None:
    _register(host, linear_aborts)


def hangs() -> None:
    _register(host, linear_hangs)


def of_no_contract() -> None:
    _register(host, kernels, contract=None)


def raises() -> None:
    raise ImportError("libchip.so.3: cannot open shared object file")


def hangs_noted() -> None:
    """Hangs, and notes its process, for a test that looks whether it is gone."""
    _register(host, linear_hangs_noted)


def linear_hangs_noted() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _hangs_noted)


def _hangs_noted(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    with open(os.environ["CONFORMANCE_TEST_PIDS"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(3600)


def kernel_without_image() -> None:
    """Half precision fails with a text that starts as the suite's own about a missing kernel."""
    kernels()
    register_kernel(TYPE, "LinearForward", _without_image)


def _without_image(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    if x.dtype.itemsize == 2:
        raise RuntimeError("no kernel image is available for execution on the device")
    y = x.array @ weight.array.T
    out.array[...] = y if bias is None else y + bias.array


def without_image() -> None:
    _register(host, kernel_without_image)


def kernel_skips() -> None:
    kernels()
    register_kernel(TYPE, "LinearForward", _skips)


def _skips(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    import pytest

    pytest.skip("not on this device")


def skips() -> None:
    _register(host, kernel_skips)
