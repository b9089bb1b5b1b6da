"""A provider whose memory is arrays of array_api_strict, the strict form of the Python array API standard.

Two devices, neither host-visible. All ops are core's array kernels, which may use only what the standard has.
With ``--backend_option simulated=1`` the devices are array_api_strict's own, whose arrays do not mix with
those of another, nor are read by NumPy.
"""

from __future__ import annotations

import threading

import array_api_strict as xp
import numpy as np

from infinitrain.backend import (
    Capabilities,
    DeviceGuardImpl,
    Option,
    PrivateUse1BackendRegistration,
    register_device_guard_impl,
    register_privateuse1_backend,
)
from infinitrain.device import Device, DeviceType
from infinitrain.errors import OutOfMemoryError, UnsupportedDtypeError
from infinitrain.kernels import register_array_kernels

TYPE = DeviceType.PRIVATEUSE1
PLAIN = (xp.Device("CPU_DEVICE"), xp.Device("CPU_DEVICE"))
SIMULATED = (xp.Device("device1"), xp.Device("device2"))
ALIGNMENT = 64  # of a buffer's address [contract 3.3]


def _bytes(array):
    """Return the bytes of a dense array as NumPy sees them: the way by which memcpy reaches the memory."""
    return np.from_dlpack(array).reshape(-1).view(np.uint8)


class Memory:
    """A Buffer [contract 3.3] over a dense array, which it keeps alive.

    It starts ``lead`` bytes before the array, at a multiple of 64; an adopted array may start elsewhere.
    """

    def __init__(self, device, array):
        self.device, self.bytes = device, _bytes(array)
        self.lead = self.bytes.ctypes.data % ALIGNMENT if self.bytes.size else 0
        self.nbytes = self.lead + self.bytes.nbytes

    @property
    def ptr(self):
        return self.bytes.ctypes.data - self.lead if self.bytes.size else 0

    def part(self, offset, nbytes):
        """Return ``nbytes`` bytes from ``offset``."""
        return self.bytes[offset - self.lead :][:nbytes]


class Runtime(DeviceGuardImpl):
    """Synchronous, without streams; the groups identity, memory and arrays."""

    type = TYPE

    def __init__(self):
        self.thread = threading.local()

    def initialize(self, launch):
        self.devices = SIMULATED if launch.options["simulated"] else PLAIN
        xp.set_array_api_strict_flags(
            api_version="2024.12", boolean_indexing=False, data_dependent_shapes=False
        )

    def device_count(self):
        return len(self.devices)

    def get_device(self):
        return getattr(self.thread, "device", Device(TYPE, 0))

    def set_device(self, device):
        self.thread.device = device

    def describe(self, device):
        return f"array_api_strict {xp.__version__}, {self.devices[device.index]}"

    def malloc(self, nbytes, stream=None):
        device = self.get_device()
        try:
            whole = xp.empty(nbytes + ALIGNMENT, dtype=xp.uint8, device=self.devices[device.index])
        except MemoryError as error:
            raise OutOfMemoryError(device, nbytes) from error
        start = -_bytes(whole).ctypes.data % ALIGNMENT
        return Memory(device, whole[start : start + nbytes])

    def memcpy(self, dst, dst_offset, src, src_offset, nbytes, kind, stream=None):
        def part(side, offset):
            if isinstance(side, Memory):
                return side.part(offset, nbytes)
            return np.frombuffer(side, np.uint8)[offset : offset + nbytes]

        part(dst, dst_offset)[...] = part(src, src_offset)

    def native_array(self, buffer, byte_offset, shape, dtype):
        if not hasattr(xp, dtype.numpy.name):
            raise UnsupportedDtypeError(
                f"array_api_strict has no {dtype.name}", device=buffer.device, dtype=dtype
            )
        view = np.ndarray(shape, dtype.numpy, buffer.bytes, byte_offset - buffer.lead)
        return xp.asarray(view, device=self.devices[buffer.device.index], copy=False)

    def adopt(self, array):
        memory = Memory(self.get_device(), xp.reshape(array, (-1,)))  # a copy unless it is dense
        return memory, memory.lead


def register_kernels():
    register_array_kernels(TYPE, xp)


def register_runtime():
    register_device_guard_impl(TYPE, Runtime())


def register_backend():
    """Register the device ``strict``; again is a no-op."""
    register_privateuse1_backend(
        PrivateUse1BackendRegistration(
            name="strict",
            contract=(1, 0),
            register_runtime=register_runtime,
            register_kernels=register_kernels,
            capabilities=Capabilities(options=(Option("simulated", int, 0, "1: devices that do not mix"),)),
        )
    )
