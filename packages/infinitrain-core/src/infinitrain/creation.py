"""Functions that make tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._methods import Scalar, shape_of
from .backend import storage
from .backend.arguments import check_shape
from .backend.runtime import check_device
from .backend.spec import TensorSpec
from .device import CPU, Device, DeviceType
from .dtype import DType, as_dtype, float32, int64, uint64
from .errors import DtypeError, ShapeError
from .ops.base import Fill, real
from .ops.elementwise import bounds, element
from .tensor import Tensor

DeviceLike = Device | str


def from_numpy(array: np.ndarray, device: DeviceLike = CPU, *, requires_grad: bool = False) -> Tensor:
    """Return a tensor with a copy of ``array`` (any strides and byte order; its dtype is kept).

    Raises TypeError for what is no array, and for masked arrays, whose masks would be lost.
    """
    if not isinstance(array, np.ndarray | np.generic) or isinstance(array, np.ma.MaskedArray):
        hint = "; fill it first: array.filled(value)" if isinstance(array, np.ma.MaskedArray) else ""
        raise TypeError(
            f"from_numpy: array is a NumPy array, got {type(array).__name__} {array!r:.60}"
            f"{hint or '; infinitrain.tensor takes numbers, lists and tensors'}"
        )
    try:
        dtype = as_dtype(array.dtype.newbyteorder("="))
    except DtypeError as error:
        raise DtypeError(f"from_numpy: array: {error}") from None
    check_shape("from_numpy: array", array.shape, dtype)
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

    Python floats become float32, ints int64 (uint64 when only that holds them); arrays keep their dtype.
    """
    if isinstance(data, Tensor):
        made = data.detach().clone().to(Device.parse(device))
        made = made if dtype is None else made.astype(dtype)
        made.requires_grad = requires_grad
        return made
    try:
        array = np.asanyarray(data)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype in (np.float64, object) and not isinstance(data, np.ndarray | np.generic):
        array = _integers(data, array)
    if array.dtype == object:
        raise ShapeError(
            f"tensor(): rows of different lengths, or elements that are no numbers: {data!r:.80}"
        )
    if dtype is not None:
        array = _converted(array, as_dtype(dtype))
    elif array.dtype == np.float64 and not isinstance(data, np.ndarray | np.generic):
        array = array.astype(np.float32)
    return from_numpy(array, device, requires_grad=requires_grad)


def _integers(data: Any, array: np.ndarray) -> np.ndarray:
    """Return ints of which NumPy made floats, or objects, as int64 or uint64; ``array`` where not all are ints."""
    try:
        each = np.array(data, object)
    except ValueError:
        return array
    if not each.size or not all(isinstance(v, int | np.integer) for v in each.flat):
        return array
    low, high = int(min(each.flat)), int(max(each.flat))
    for dtype in (int64, uint64):
        if bounds(dtype)[0] <= low and high <= bounds(dtype)[1]:
            return each.astype(dtype.numpy)
    raise DtypeError(f"tensor: ints from {low} to {high} fit neither int64 nor uint64; make them floats")


def _converted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return numbers in another dtype. Raises DtypeError for what no number of that dtype is."""
    if array.dtype.kind in "cSUmM":
        raise DtypeError(f"tensor: data has dtype {array.dtype}, which is no {dtype}")
    if dtype.is_integer and array.size and array.dtype.kind != "b":
        low, high = bounds(dtype)
        wide = array if array.dtype.kind in "iu" else array.astype(np.float64)
        least, most = np.min(wide).item(), np.max(wide).item()  # Python compares floats with ints exactly
        if not (least >= low and most <= high):  # so that NaN fails
            raise DtypeError(f"tensor: data from {least} to {most} does not fit {dtype} ({low}..{high})")
    with np.errstate(over="ignore"):  # to infinity
        return array.astype(dtype.numpy)


def empty(
    *shape: int | Sequence[int],
    dtype: DType | str = float32,
    device: DeviceLike = CPU,
    requires_grad: bool = False,
) -> Tensor:
    """Return an uninitialised tensor."""
    return _empty("empty", shape_of(shape, "empty"), dtype, device, requires_grad)


def _empty(
    what: str,
    sizes: tuple[int, ...],
    dtype: DType | str = float32,
    device: DeviceLike = CPU,
    requires_grad: bool = False,
) -> Tensor:
    kept = as_dtype(dtype)
    check_shape(what, sizes, kept)
    made: Tensor = storage.empty_like_spec(TensorSpec.of(sizes, kept, Device.parse(device)))
    made.requires_grad = requires_grad
    return made


def full(shape: Sequence[int], value: Scalar, **options: Any) -> Tensor:
    """Return a tensor of ``shape`` filled with ``value``; options as ``empty``."""
    return _full("full", shape_of((shape,), "full"), value, **options)


def _full(what: str, sizes: tuple[int, ...], value: Scalar, **options: Any) -> Tensor:
    requires_grad = options.pop("requires_grad", False)
    made = _empty(what, sizes, **options)
    Fill(made, element(f"{what}: value", value, made))
    made.requires_grad = requires_grad
    return made


def zeros(*shape: int | Sequence[int], **options: Any) -> Tensor:
    """Return zeros; options as ``empty``."""
    return _full("zeros", shape_of(shape, "zeros"), 0, **options)


def ones(*shape: int | Sequence[int], **options: Any) -> Tensor:
    """Return ones; options as ``empty``."""
    return _full("ones", shape_of(shape, "ones"), 1, **options)


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
    given = {"start": start, "stop": stop, "step": step}
    for name, value in given.items():
        if not abs(real(f"arange: {name}", value)) < 2**63:
            raise ValueError(f"arange: {name}={value} is not finite, or does not fit int64")
    if not step:
        raise ValueError(f"arange: step={step} leads nowhere")
    if (float(stop) - float(start)) / float(step) >= 2**59:
        raise ShapeError(f"arange: start={start}, stop={stop}, step={step} are 2**59 values or more")
    array = np.arange(start, stop, step)
    return tensor(array, dtype or (float32 if array.dtype.kind == "f" else "int64"), device)


def from_dlpack(source: Any) -> Tensor:
    """Return a CPU tensor over the memory of ``source``, any object with ``__dlpack__``.

    Strided or read-only memory is copied. Raises DtypeError for what is not on the host.
    """
    try:
        array = np.from_dlpack(source)
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        raise DtypeError(f"from_dlpack: {error}; only host memory can be exchanged") from error
    dense = array if array.flags["C_CONTIGUOUS"] and array.flags["WRITEABLE"] else array.copy()
    spec = TensorSpec.of(dense.shape, as_dtype(dense.dtype), CPU)
    made: Tensor = storage.wrap(spec, dense, check_device(CPU))
    return made
