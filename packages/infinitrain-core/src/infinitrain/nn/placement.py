"""Moving a module's tensors to another device or dtype, each as the same object."""

from __future__ import annotations

from collections.abc import Iterable

from ..backend.runtime import check_device
from ..device import Device
from ..dtype import ALL, DType
from ..errors import DtypeError
from ..tensor import Tensor
from .parameter import repoint

_DTYPES = {d.name: d for d in ALL}


def move(tensors: Iterable[Tensor | None], targets: tuple[Device | DType | str, ...]) -> None:
    """Move tensors in place. Tensors that shared their memory share it afterwards.

    All copies are made before the first tensor changes, so that a failure changes none.
    """
    device, dtype = _parse(targets)
    moved: list[tuple[Tensor, Tensor, Tensor | None]] = []
    made: dict[tuple[Device, int, int], Tensor] = {}
    seen: set[int] = set()
    for tensor in tensors:
        if tensor is None or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        wanted = (
            device or tensor.device,
            dtype if dtype is not None and tensor.dtype.is_floating else tensor.dtype,
        )
        if wanted == (tensor.device, tensor.dtype):
            continue
        key = tensor.device, tensor.ptr, tensor.nbytes
        found = made.get(key) if tensor.nbytes else None
        if found is None:
            found = made[key] = _converted(tensor, *wanted)
        elif found.shape != tensor.shape:
            found = found.view(tensor.shape)
        grad = tensor.grad
        moved.append((tensor, found, None if grad is None else _converted(grad, *wanted)))
    for tensor, source, grad in moved:
        repoint(tensor, source)
        tensor.bump_version("Module.to")  # a graph that saved it would otherwise mix devices or dtypes
        tensor.grad = grad


def _converted(tensor: Tensor, device: Device, dtype: DType) -> Tensor:
    # Cast where the tensor is: its device is known to work.
    return tensor.detach().astype(dtype).to(device)


def _parse(targets: tuple[Device | DType | str, ...]) -> tuple[Device | None, DType | None]:
    device: Device | None = None
    dtype: DType | None = None
    for target in targets:
        if isinstance(target, DType) or (isinstance(target, str) and target in _DTYPES):
            dtype = target if isinstance(target, DType) else _DTYPES[target]
        else:
            device = Device.parse(target)
    if device is not None:
        check_device(device)
    if dtype is not None and not dtype.is_floating:
        raise DtypeError(f"Module.to: parameters have a floating dtype, got {dtype}")
    return device, dtype
