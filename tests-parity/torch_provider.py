"""A provider whose memory is PyTorch tensors on the CPU, through array-api-compat: two devices, not host-visible.

All ops are core's array kernels. It is no way to use PyTorch: it proves that the kernels need no more than the array
API standard of a library that was not written for it, half precision included.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from infinitrain.backend import (
    Capabilities,
    DeviceGuardImpl,
    PrivateUse1BackendRegistration,
    register_device_guard_impl,
    register_privateuse1_backend,
)
from infinitrain.device import Device, DeviceType
from infinitrain.dtype import DType, bfloat16
from infinitrain.errors import OutOfMemoryError, UnsupportedDtypeError
from infinitrain.kernels import register_array_kernels

if TYPE_CHECKING:  # registration imports nothing heavy [contract 2.9]
    import torch

TYPE = DeviceType.PRIVATEUSE1
ALIGNMENT = 64  # of a buffer's address [contract 3.3]
LACKING = ("uint16", "uint32", "uint64")
"""PyTorch has them in name: most functions raise NotImplementedError."""


class Memory:
    """A Buffer [contract 3.3] over a tensor of bytes, which it keeps alive.

    It starts ``lead`` bytes before the tensor, at a multiple of 64; an adopted tensor may start elsewhere.
    """

    def __init__(self, device: Device, data: torch.Tensor) -> None:
        self.device, self.bytes = device, data
        self.lead = data.data_ptr() % ALIGNMENT if data.numel() else 0
        self.nbytes = self.lead + data.numel()

    @property
    def ptr(self) -> int:
        return self.bytes.data_ptr() - self.lead if self.bytes.numel() else 0

    def part(self, offset: int, nbytes: int) -> torch.Tensor:
        """Return ``nbytes`` bytes from ``offset``."""
        return self.bytes[offset - self.lead :][:nbytes]


class Runtime(DeviceGuardImpl):
    """Synchronous, without streams; the groups identity, memory and arrays."""

    type = TYPE

    def __init__(self) -> None:
        self.thread = threading.local()

    def initialize(self, launch: Any) -> None:
        import torch

        self.torch = torch

    def device_count(self) -> int:
        return 2

    def get_device(self) -> Device:
        return getattr(self.thread, "device", Device(TYPE, 0))

    def set_device(self, device: Device) -> None:
        self.thread.device = device

    def describe(self, device: Device) -> str:
        return f"PyTorch {self.torch.__version__} on the CPU"

    def malloc(self, nbytes: int, stream: Any = None) -> Memory:
        device = self.get_device()
        try:
            whole = self.torch.empty(nbytes + ALIGNMENT, dtype=self.torch.uint8)
        except RuntimeError as error:
            raise OutOfMemoryError(device, nbytes) from error
        start = -whole.data_ptr() % ALIGNMENT
        return Memory(device, whole[start : start + nbytes])

    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        def part(side: Any, offset: int) -> np.ndarray:
            if isinstance(side, Memory):
                return side.part(offset, nbytes).numpy()
            return np.frombuffer(side, np.uint8)[offset : offset + nbytes]

        part(dst, dst_offset)[...] = part(src, src_offset)

    def native_array(
        self, buffer: Memory, byte_offset: int, shape: tuple[int, ...], dtype: DType
    ) -> torch.Tensor:
        if dtype.name in LACKING:
            raise UnsupportedDtypeError(
                f"PyTorch computes nothing in {dtype.name}", device=buffer.device, dtype=dtype
            )
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return buffer.part(byte_offset, count).view(getattr(self.torch, dtype.name)).reshape(shape)

    def adopt(self, array: torch.Tensor) -> tuple[Memory, int]:
        data = array.contiguous().reshape(-1).view(self.torch.uint8)
        memory = Memory(self.get_device(), data)
        return memory, memory.lead


def register_kernels() -> None:
    register_array_kernels(TYPE, "array_api_compat.torch")


def register_runtime() -> None:
    register_device_guard_impl(TYPE, Runtime())


def register_backend() -> None:
    """Register the device ``torch``; again is a no-op."""
    register_privateuse1_backend(
        PrivateUse1BackendRegistration(
            name="torch",
            contract=(1, 0),
            register_runtime=register_runtime,
            register_kernels=register_kernels,
            default_autocast_dtype=bfloat16,
            capabilities=Capabilities(),
        )
    )
