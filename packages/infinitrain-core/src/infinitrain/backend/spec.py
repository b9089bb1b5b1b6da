"""TensorSpec: what is known of a tensor without its memory. Shapes are inferred, cached and compared as these."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from ..device import Device
from ..dtype import DType

Shape = tuple[int, ...]


class TensorSpec:
    """Shape, dtype and device of a dense row-major tensor, with ``numel``, ``ndim`` and ``nbytes`` precomputed.

    Specs are interned by ``of``, so that the dispatcher's caches compare them by identity. The table is emptied when it
    has grown large; two equal specs that are not identical then cost a cache miss, never a wrong answer.
    """

    __slots__ = ("__weakref__", "device", "dtype", "is_floating", "nbytes", "ndim", "numel", "shape")
    _interned: ClassVar[dict[tuple[Shape, DType, Device], TensorSpec]] = {}

    def __init__(self, shape: Shape, dtype: DType, device: Device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.is_floating = dtype.is_floating
        self.ndim = len(shape)
        self.numel = prod(shape)
        self.nbytes = self.numel * dtype.itemsize

    @classmethod
    def of(cls, shape: Shape, dtype: DType, device: Device) -> TensorSpec:
        """Return the spec for these values."""
        key = (shape, dtype, device)
        spec = cls._interned.get(key)
        if spec is None:
            if len(cls._interned) > 50_000:
                cls._interned.clear()
            spec = cls._interned.setdefault(key, cls(shape, dtype, device))  # another thread may be first
        return spec

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}@{self.device}"
