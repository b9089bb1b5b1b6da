"""DeviceTensor: a spec and its memory, as kernels see it [contract 4.4]. The user's Tensor adds autograd to it."""

from __future__ import annotations

from typing import Any

from ..device import Device
from ..dtype import DType
from ..errors import NotSupportedError
from .runtime import (
    D2D,
    D2H,
    H2D,
    Buffer,
    DeviceGuard,
    check_device,
    get_device_guard_impl,
    set_current_device,
)
from .spec import Shape, TensorSpec


class _Array:
    """The ``array`` attribute of a tensor without a cached array: asks the runtime, and caches where that is safe.

    A non-data descriptor: once a tensor's ``__dict__`` holds ``array`` (host-visible devices), Python finds that first.
    """

    def __get__(self, tensor: DeviceTensor | None, owner: type) -> Any:
        if tensor is None:
            return self
        spec = tensor.spec
        runtime = get_device_guard_impl(spec.device.type)
        array = runtime.native_array(tensor._buffer, tensor._offset, spec.shape, spec.dtype)
        if runtime.host_visible:
            tensor.__dict__["array"] = array
        return array


class DeviceTensor:
    """A dense row-major tensor on a device: what kernels get and what the dispatcher creates.

    ``shape``, ``dtype``, ``device``, ``numel``, ``ndim``, ``nbytes``; ``ptr`` (address, offset included), ``array``
    (the provider's array over the same memory), ``buffer`` and ``offset`` (bytes).
    """

    _buffer: Any = None
    _offset: int = 0
    _version: list[Any] | None = None  # [count, name of the last writer]
    array: Any = _Array()

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec

    @property
    def shape(self) -> Shape:
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def device(self) -> Device:
        return self.spec.device

    @property
    def numel(self) -> int:
        return self.spec.numel

    @property
    def ndim(self) -> int:
        return self.spec.ndim

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    @property
    def buffer(self) -> Buffer:
        if self._buffer is None:
            runtime = get_device_guard_impl(self.spec.device.type)
            with DeviceGuard(self.spec.device):  # an array need not know its device
                buffer, self._offset = runtime.adopt(self.__dict__["array"])
            self._buffer = buffer  # last: another thread that sees it finds its offset set
        found: Buffer = self._buffer
        return found

    @property
    def offset(self) -> int:
        """Bytes from the start of the buffer."""
        if self._buffer is None:
            _ = self.buffer
        return self._offset

    @property
    def ptr(self) -> int:
        """The address of the first element, an int; meaningful to the provider only."""
        return self.buffer.ptr + self._offset

    # Versions [contract 4.10] -------------------------------------------------------------------------------------
    @property
    def version(self) -> int:
        """How often the memory was changed in place; shared by views."""
        return 0 if self._version is None else self._version[0]

    def bump_version(self, writer: str = "a write in place") -> None:
        """Note a change in place by ``writer``."""
        if self._version is None:
            self._version = [1, writer]
        else:
            self._version[0] += 1
            self._version[1] = writer

    def view_as(self, spec: TensorSpec, byte_offset: int = 0) -> Any:
        """Return a tensor of the same class over the same memory, with another dense spec, sharing the version."""
        if self._version is None:
            self._version = [0, ""]
        view = type(self).__new__(type(self))
        view.spec = spec
        view._version = self._version
        array = self.__dict__.get("array")
        runtime = get_device_guard_impl(spec.device.type)
        if (
            array is not None
            and self._buffer is None
            and spec.numel == self.spec.numel
            and spec.dtype is self.spec.dtype
        ):
            view.array = array.reshape(spec.shape)
            return view
        view._buffer, view._offset = self.buffer, self._offset + byte_offset
        if runtime.host_visible:
            view.array = runtime.native_array(view._buffer, view._offset, spec.shape, spec.dtype)
        return view


# The class that the dispatcher creates: the user's Tensor once that module is loaded, which is above this one.
tensor_class: Any = DeviceTensor


def from_buffer(spec: TensorSpec, buffer: Buffer, offset: int = 0) -> Any:
    """Return a tensor over device memory."""
    tensor = tensor_class.__new__(tensor_class)
    tensor.spec = spec
    tensor._buffer = buffer
    tensor._offset = offset
    return tensor


def from_array(array: Any, device: Device, dtype: DType | None = None) -> Any:
    """Return a tensor over a dense array of the provider's library, without a copy. For value-style kernels."""
    from ..dtype import as_dtype

    spec = TensorSpec.of(tuple(array.shape), dtype or as_dtype(array.dtype), device)
    return wrap(spec, array, get_device_guard_impl(device.type))


def wrap(spec: TensorSpec, array: Any, runtime: Any) -> Any:
    """Return a tensor over ``array``, which has exactly ``spec``'s shape and dtype."""
    tensor = tensor_class.__new__(tensor_class)
    tensor.spec = spec
    if runtime.host_visible:
        tensor.array = array
    else:
        tensor._buffer, tensor._offset = runtime.adopt(array)
    return tensor


def empty(shape: Shape, dtype: DType, device: Device) -> Any:
    """Return an uninitialised tensor. For core and for value-style kernels."""
    return empty_like_spec(TensorSpec.of(tuple(shape), dtype, device))


def empty_like_spec(spec: TensorSpec) -> Any:
    """Return an uninitialised tensor with ``spec``. Raises NoSuchDeviceError, OutOfMemoryError."""
    runtime = check_device(spec.device)
    with DeviceGuard(spec.device):
        if runtime.host_visible and runtime.has_arrays:
            return wrap(spec, runtime.empty_array(spec.shape, spec.dtype), runtime)
        stream = runtime.current_stream(spec.device) if runtime.has_streams else None
        return from_buffer(spec, runtime.malloc(spec.nbytes, stream))


# Copies across the host boundary ------------------------------------------------------------------------------------


def read_bytes(tensor: DeviceTensor, into: memoryview) -> None:
    """Copy a tensor's bytes to host memory; done when this returns."""
    if tensor.nbytes:
        with DeviceGuard(tensor.device):
            runtime, stream = _runtime_and_stream(tensor.device, tensor)
            runtime.memcpy(into, 0, tensor.buffer, tensor.offset, tensor.nbytes, D2H, stream)


def write_bytes(tensor: DeviceTensor, data: memoryview) -> None:
    """Fill a tensor from host memory, which may be overwritten when this returns."""
    if data.readonly:
        data = memoryview(bytearray(data))  # ctypes gives no address of a read-only view [contract 3.4]
    if tensor.nbytes:
        with DeviceGuard(tensor.device):
            runtime, stream = _runtime_and_stream(tensor.device, tensor)
            runtime.memcpy(tensor.buffer, tensor.offset, data, 0, tensor.nbytes, H2D, stream)
    tensor.bump_version()


def copy_between(dst: DeviceTensor, src: DeviceTensor) -> None:
    """Copy bytes between tensors of equal size on devices of one type or through the host.

    A copy between two devices runs on the destination's current stream, ordered after the source's current stream,
    whose later work is ordered after the copy [contract 3.6].
    """
    from .registration import require_record

    if not dst.nbytes:
        return
    same = dst.device is src.device
    if same or (
        dst.device.type is src.device.type and require_record(dst.device.type).capabilities.peer_copy
    ):
        with DeviceGuard(dst.device):
            if same or not check_device(src.device).has_streams:
                runtime, stream = _runtime_and_stream(dst.device, dst, src)
                runtime.memcpy(dst.buffer, dst.offset, src.buffer, src.offset, dst.nbytes, D2D, stream)
            else:
                _copy_to_peer(dst, src)
        dst.bump_version()
        return
    host = memoryview(bytearray(dst.nbytes))
    read_bytes(src, host)
    write_bytes(dst, host)


def _copy_to_peer(dst: DeviceTensor, src: DeviceTensor) -> None:
    runtime, source = _runtime_and_stream(src.device)
    written = runtime.create_event()
    runtime.record(written, source)
    _, stream = _runtime_and_stream(dst.device, dst, src)
    runtime.wait(stream, written)
    runtime.memcpy(dst.buffer, dst.offset, src.buffer, src.offset, dst.nbytes, D2D, stream)
    copied = runtime.create_event()
    runtime.record(copied, stream)
    runtime.wait(source, copied)


def _runtime_and_stream(device: Device, *used: DeviceTensor) -> tuple[Any, Any]:
    """Make ``device`` current; return its runtime and stream, which the tensors' memory must outlive [contract 3.3]."""
    runtime = check_device(device)
    set_current_device(device)
    if not runtime.has_streams:
        return runtime, None
    stream = runtime.current_stream(device)
    for tensor in used:
        runtime.record_use(tensor.buffer, stream)
    return runtime, stream


def require_arrays(runtime: Any, what: str) -> None:
    """Raise NotSupportedError unless the provider has an array library."""
    if not runtime.has_arrays:
        raise NotSupportedError(
            f"{what} needs native_array and adopt, which the backend does not have [contract 3.1]"
        )
