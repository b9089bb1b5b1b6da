"""How a tensor prints: its values by NumPy's rules, then what differs from the default."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import DeviceType
from .dtype import float32


def tensor_repr(tensor: Any) -> str:
    """Return ``tensor([...], dtype=..., device=..., requires_grad=True)``."""
    array = tensor.numpy()
    if tensor.dtype.is_floating and tensor.dtype.itemsize < 4:
        array = array.astype(np.float32)
    body = np.array2string(array, separator=", ", prefix="tensor(", precision=4, threshold=1000, edgeitems=3)
    parts = [f"tensor({body}"]
    if tensor.dtype is not float32:
        parts.append(f"dtype={tensor.dtype}")
    if tensor.device.type is not DeviceType.CPU:
        parts.append(f"device={str(tensor.device)!r}")
    if tensor._node is not None:
        parts.append(f"grad_fn={tensor._node.name}")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    return ", ".join(parts) + ")"
