"""x[...] and x[...] = value: ints, slices, None, Ellipsis, one tensor of indices; a mask in assignments only."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..backend.optable import broadcast_shapes
from ..dtype import bool_
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor as UserTensor
from .base import Copy, cast, rank, view
from .elementwise import element
from .indexing import WhereForward, index_select
from .shape import Slice, SliceAssign, broadcast_to, permute

Shape = tuple[int, ...]


@dataclass(frozen=True)
class _Region:
    """What an index selects: a slice of each axis, the shape of the result (None adds axes, ints drop theirs), and a
    tensor of indices with the axis of that result whose slices it selects.
    """

    starts: Shape
    ends: Shape
    steps: Shape
    shape: Shape
    index: Any = None
    axis: int = 0
    to_front: bool = False


def getitem(x: Any, index: Any) -> Any:
    """Return x[index] for ints, slices (any step), None, Ellipsis and one tensor of integers, as NumPy selects, copied.

    Raises IndexError out of range; in a tensor of indices negative ones are out of range. Raises TypeError for arrays,
    lists and masks.
    """
    rank("getitem: x", x)
    region = _region(x, index)
    part = Slice.apply(x, region.starts, region.ends, region.steps)
    if part.shape != region.shape:
        part = view(part, region.shape)
    if region.index is None:
        return part
    picked, n = index_select(part, region.axis, region.index), region.index.ndim
    if not region.to_front or not region.axis:
        return picked
    new = tuple(range(region.axis, region.axis + n))
    return permute(picked, (*new, *[i for i in range(picked.ndim) if i not in new]))


def setitem(x: Any, index: Any, value: Any) -> None:
    """Set x[index] in place, for ints, slices, None and Ellipsis, or a bool mask of x's shape.

    ``value`` is a number or a tensor that broadcasts to the region; for a mask a number or a tensor with one element.
    It is cast to x's dtype unless it might not fit: floats into integers, and integers or bools into a dtype that
    cannot hold all of theirs, raise DtypeError, as numbers out of range do. Raises AutogradError where the graph would
    need what x held, or would lose what value came from.
    """
    rank("setitem: x", x)
    x._writable("x[index] = value", value)
    with no_grad():
        value = _value(x, value)
        if isinstance(index, UserTensor) and index.dtype is bool_:
            _set_where(x, index, value)
            return
        region = _region(x, index)
        if region.index is not None:
            raise TypeError(
                "x[tensor] = value is not supported: use scatter or scatter_add of infinitrain.ops, which return a new "
                "tensor"
            )
        if broadcast_shapes(value.shape, region.shape) != region.shape:
            raise ShapeError(f"value of shape {value.shape} does not broadcast to x[index], {region.shape}")
        size = tuple(map(len, map(range, region.starts, region.ends, region.steps)))
        if 0 in size:
            return
        if value.numel == 1:
            value = view(value, ())
        elif region.shape != size:  # None added axes, ints dropped some
            value = view(broadcast_to(value, region.shape), size)
        SliceAssign(x, value, region.starts, region.ends, region.steps)


def _set_where(x: Any, mask: Any, value: Any) -> None:
    if mask.shape != x.shape:
        raise ShapeError(f"x[mask] = value: mask has shape {mask.shape}, x {x.shape}")
    if value.numel != 1:
        raise ShapeError(
            f"x[mask] = value takes one number, got a tensor of shape {value.shape}; how many elements the mask "
            "selects is known to the device only. Use where(mask, value, x) with a value that broadcasts to x"
        )
    Copy(x, WhereForward(mask, view(value, ()), x))


def _value(x: Any, value: Any) -> Any:
    """Return a value as a tensor of x's dtype and device, sharing no memory with x."""
    if not isinstance(value, UserTensor):
        return x.new_full((), element("x[index] = value", value, x))
    if value.dtype is not x.dtype:
        # Values are on the device: what might not fit is refused, where a number is when it does not.
        if not x.dtype.is_floating and not np.can_cast(value.dtype.numpy, x.dtype.numpy):
            raise DtypeError(
                f"x[index] = value: value is {value.dtype}, which might not fit {x.dtype}; use value.astype(x.dtype)"
            )
        return cast(value, x.dtype)
    shared = value is x or (x._version is not None and value._version is x._version)
    return value.clone() if shared else value


def _region(x: Any, index: Any) -> _Region:
    items = _without_ellipsis(x, index if isinstance(index, tuple) else (index,))
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    shape: list[int] = []
    tensor, tensor_axis = None, 0
    pointed: list[int] = []  # places of ints and tensors among the items
    for place, item in enumerate(items):
        if item is None:
            shape.append(1)
            continue
        if item is ...:
            continue
        axis = len(starts)
        n = x.shape[axis]
        if _is_indices(item):
            if tensor is not None:
                raise TypeError(
                    "x[index] takes one tensor of indices, got two; use x[i] and then [:, j] for rows and columns, "
                    "x[i].gather(1, j.unsqueeze(1)).squeeze(1) for the elements (i, j) of a matrix"
                )
            tensor, tensor_axis = item, len(shape)
            pointed.append(place)
            item = builtins.slice(None)
        if isinstance(item, builtins.slice):
            start, end, step = item.indices(n)
            size = len(range(start, end, step))
            shape.append(size)
            starts.append(start if size else 0)
            ends.append(end if size else 0)
            steps.append(step)
            continue
        at = _position(item)
        pointed.append(place)
        if not -n <= at < n:
            raise IndexError(
                f"index {at} is out of range for axis {axis} of size {n} (shape {list(x.shape)})"
            )
        starts.append(at % n)
        ends.append(at % n + 1)
        steps.append(1)
    # NumPy: ints beside a tensor are indices like it, and what a slice, None or Ellipsis separates goes to the front.
    apart = tensor is not None and pointed[-1] - pointed[0] >= len(pointed)
    return _Region(tuple(starts), tuple(ends), tuple(steps), tuple(shape), tensor, tensor_axis, apart)


def _without_ellipsis(x: Any, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return index items for every axis of x: Ellipsis, or the end without one, stands for full slices.

    An Ellipsis for no axis stays, as it separates ints from a tensor like one for some.
    """
    used = len([item for item in items if item is not None and item is not ...])
    if used > x.ndim:
        raise IndexError(f"{used} indices for a tensor with {x.ndim} dimensions (shape {list(x.shape)})")
    places = [i for i, item in enumerate(items) if item is ...]
    if len(places) > 1:
        raise IndexError("an index has at most one Ellipsis (...)")
    at = places[0] if places else len(items)
    full: list[Any] = [builtins.slice(None)] * (x.ndim - used) or [...] * len(places)
    return (*items[:at], *full, *items[at + 1 :])


def _is_indices(item: Any) -> bool:
    return isinstance(item, UserTensor) and item.ndim > 0 and item.dtype.is_integer


def _position(item: Any) -> int:
    if isinstance(item, UserTensor) and item.dtype is bool_:
        raise TypeError(
            "x[mask] would have a shape that depends on the mask's values, and shapes are known before kernels run; "
            "use where(mask, x, 0), masked_fill, or indices: x[it.tensor([...])]. x[mask] = value works"
        )
    if not isinstance(item, bool) and getattr(item, "ndim", 0) == 0 and hasattr(item, "__index__"):
        position: int = item.__index__()
        return position
    raise TypeError(
        f"an index is an int, a slice, None, Ellipsis or a tensor of integers, got {type(item).__name__} {item!r:.60}"
        + ("; use x[infinitrain.tensor(indices)]" if isinstance(item, list | np.ndarray) else "")
    )
