"""The CPU's runtime: host memory by NumPy, with glibc's allocator told to keep what it was given back."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..backend.runtime import DeviceGuardImpl, LaunchInfo
from ..device import CPU, Device, DeviceType
from ..dtype import DType
from ..errors import OutOfMemoryError
from . import fast, threads

ALIGNMENT = 64
# mallopt(3) parameters. Large temporaries otherwise go to mmap and come back as fresh pages every time, which
# costs more than the arithmetic. An arena of a thread's own holds no more than 64 MiB in one piece and gives
# the rest to mmap whatever the threshold says (benchmarks/ranks.py), so that all threads share the main one.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8


class HostBuffer:
    """Host memory: bytes of a NumPy array from a 64-byte boundary on."""

    __slots__ = ("_owner", "device", "nbytes", "ptr")

    def __init__(self, owner: np.ndarray, ptr: int, nbytes: int) -> None:
        self._owner, self.ptr, self.nbytes = owner, ptr, nbytes
        self.device = CPU

    def bytes_at(self, offset: int, nbytes: int) -> np.ndarray:
        """Return a uint8 view of part of the buffer."""
        start = self.ptr + offset - _address(self._owner)
        flat = self._owner.reshape(-1).view(np.uint8)
        return flat[start : start + nbytes]


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class CpuRuntime(DeviceGuardImpl):
    """One device, no streams, arrays are NumPy's."""

    host_visible = True
    type = DeviceType.CPU

    def initialize(self, launch: LaunchInfo) -> None:
        """Let malloc reuse freed memory of any size. INFINITRAIN_MALLOPT=0 leaves the process's allocator as it is.

        NumPy's warnings on overflow and NaN are silenced for our kernels alone: they follow IEEE, and the training loop
        is where a non-finite loss is noticed.
        """
        threads.start()
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"infinitrain\.(cpu|kernels)\.")
        if os.environ.get("INFINITRAIN_MALLOPT", "1") != "0":
            mallopt = _libc("mallopt")
            if mallopt is not None:  # glibc; musl has none
                # Before 2.35 glibc takes no more than 32 MiB; the other settings would then freeze its
                # default, 128 KiB, which it otherwise raises by itself.
                _ = mallopt(_M_MMAP_THRESHOLD, 1 << 30) or mallopt(_M_MMAP_THRESHOLD, 32 << 20)
                mallopt(_M_ARENA_MAX, 1)
                mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
                mallopt(_M_TOP_PAD, 64 << 20)

    def empty_cache(self) -> None:
        """Give pages of freed memory back to the system: malloc keeps them all, gaps between live blocks included."""
        trim = _libc("malloc_trim")
        if trim is not None:
            trim(0)

    def device_count(self) -> int:
        return 1

    def get_device(self) -> Device:
        return CPU

    def set_device(self, device: Device) -> None:
        pass

    def describe(self, device: Device) -> str:
        fast.load()
        kernels = f"NumPy kernels ({fast.unavailable()})" if fast.unavailable() else "fast kernels"
        n = threads.get_num_threads()
        return (
            f"{platform.processor() or platform.machine()}, {os.cpu_count()} logical cores, "
            f"NumPy {np.__version__}; {n} thread{'s'[: n > 1]}, {kernels}"
        )

    def malloc(self, nbytes: int, stream: Any = None) -> HostBuffer:
        try:
            owner = np.empty(nbytes + ALIGNMENT, np.uint8)
        except MemoryError:
            raise OutOfMemoryError(CPU, nbytes) from None
        address = _address(owner)
        return HostBuffer(owner, address + -address % ALIGNMENT, nbytes)

    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        np.copyto(_bytes(dst, dst_offset, nbytes), _bytes(src, src_offset, nbytes))

    def native_array(self, buffer: Any, byte_offset: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        owner = buffer._owner
        start = buffer.ptr + byte_offset - _address(owner)
        return np.ndarray(shape, dtype.numpy, owner.reshape(-1).view(np.uint8), start)

    def adopt(self, array: np.ndarray) -> tuple[HostBuffer, int]:
        # The buffer starts at the 64-byte boundary at or below the array; bytes before the array are not its own.
        address = _address(array)
        offset = address % ALIGNMENT
        return HostBuffer(array, address - offset, array.nbytes + offset), offset

    def empty_array(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        try:
            return np.empty(shape, dtype.numpy)
        except MemoryError:
            raise OutOfMemoryError(CPU, int(np.prod(shape)) * dtype.itemsize) from None

    def array_maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], np.ndarray]:
        return partial(np.empty, shape, dtype.numpy)

    def memory_stats(self, device: Device) -> dict[str, int | None]:
        """Resident memory of the process: now, and its peak since ``reset_peak`` where the system tells."""
        status = _proc_status()
        used, peak = status.get("VmRSS"), status.get("VmHWM")
        if peak is None:
            peak = _peak_of_the_run()
        return {"used": used, "reserved": used, "peak_used": peak, "peak_reserved": peak}

    def reset_peak(self, device: Device) -> None:
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            pass  # then the peak is that of the whole run


def _peak_of_the_run() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _libc(name: str) -> Any:
    """Return a function of the C library; None where it has no such (musl, macOS) or is not glibc (Windows)."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def _proc_status() -> dict[str, int]:
    try:
        with open("/proc/self/status") as file:
            rows = [line.split() for line in file if line.startswith(("VmRSS", "VmHWM"))]
    except OSError:
        return {}
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def _bytes(side: Any, offset: int, nbytes: int) -> np.ndarray:
    if isinstance(side, HostBuffer):
        return side.bytes_at(offset, nbytes)
    return np.frombuffer(side, np.uint8)[offset : offset + nbytes]
