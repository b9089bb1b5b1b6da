"""Functions that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._methods import Scalar, shape_of
from .backend import storage
from .backend.runtime import check_device
from .backend.spec import TensorSpec
from .device import CPU, Device, DeviceType
from .dtype import DType, as_dtype, float32
from .errors import DtypeError, ShapeError
from .ops.base import Fill
from .tensor import Tensor

DeviceLike = Device | str


def from_numpy(array: np.ndarray, device: DeviceLike = CPU, *, requires_grad: bool = False) -> Tensor:
    """Return a tensor with a copy of ``array`` (any strides; its dtype is kept)."""
    dtype = as_dtype(array.dtype)
    spec = TensorSpec.of(array.shape, dtype, Device.parse(device))
    dense = np.array(array, dtype.numpy, order="C")  # a copy, native byte order
    made: Tensor
    if spec.device.type is DeviceType.CPU:
        made = storage.wrap(spec, dense, check_device(spec.device))
    else:
        made = storage.empty_like_spec(spec)
        storage.write_bytes(made, memoryview(dense.reshape(-1).view(np.uint8).data))
    made.requires_grad = requires_grad
    return made


def tensor(
    data: Any, dtype: DType | str | None = None, device: DeviceLike = CPU, *, requires_grad: bool = False
) -> Tensor:
    """Return a tensor with a copy of ``data`` (numbers, nested sequences, an array, a tensor).

    Python floats become float32, ints int64; arrays keep their dtype.
    """
    if isinstance(data, Tensor):
        made = data.detach().clone().to(Device.parse(device))
        made = made if dtype is None else made.astype(dtype)
        made.requires_grad = requires_grad
        return made
    array = np.asarray(data)
    if array.dtype == object:
        raise ShapeError(
            f"tensor(): rows of different lengths, or elements that are no numbers: {data!r:.80}"
        )
    if dtype is not None:
        array = array.astype(as_dtype(dtype).numpy)
    elif array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
        array = array.astype(np.float32)
    return from_numpy(array, device, requires_grad=requires_grad)


def empty(
    *shape: int | Sequence[int],
    dtype: DType | str = float32,
    device: DeviceLike = CPU,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialised tensor."""
    sizes = shape_of(shape)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"a shape has no negative sizes, got {sizes}")
    made: Tensor = storage.empty_like_spec(TensorSpec.of(sizes, as_dtype(dtype), Device.parse(device)))
    made.requires_grad = requires_grad
    return made


def full(shape: Sequence[int], value: Scalar, **options: Any) -> Tensor:
    """Return a tensor of ``shape`` filled with ``value``; options as ``empty``."""
    requires_grad = options.pop("requires_grad", False)
    made = empty(tuple(shape), **options)
    Fill(made, value)
    made.requires_grad = requires_grad
    return made


def zeros(*shape: int | Sequence[int], **options: Any) -> Tensor:
    """Return zeros; options as ``empty``."""
    return full(shape_of(shape), 0, **options)


def ones(*shape: int | Sequence[int], **options: Any) -> Tensor:
    """Return ones; options as ``empty``."""
    return full(shape_of(shape), 1, **options)


def arange(
    start: Scalar,
    stop: Scalar | None = None,
    step: Scalar = 1,
    *,
    dtype: DType | str | None = None,
    device: DeviceLike = CPU,
) -> Tensor:
    """Return evenly spaced values, as NumPy's ``arange``; int64 for ints, float32 for floats."""
    start, stop = (0, start) if stop is None else (start, stop)
    array = np.arange(start, stop, step)
    return tensor(array, dtype or (float32 if array.dtype.kind == "f" else "int64"), device)


def from_dlpack(source: Any) -> Tensor:
    """Return a CPU tensor over the memory of ``source``, any object with ``__dlpack__``.

    Strided or read-only memory is copied. Raises DtypeError for what is not on the host.
    """
    try:
        array = np.from_dlpack(source)
    except (BufferError, RuntimeError, TypeError) as error:
        raise DtypeError(f"from_dlpack: {error}; only host memory can be exchanged") from error
    dense = array if array.flags["C_CONTIGUOUS"] and array.flags["WRITEABLE"] else array.copy()
    spec = TensorSpec.of(dense.shape, as_dtype(dense.dtype), CPU)
    made: Tensor = storage.wrap(spec, dense, check_device(CPU))
    return made
