"""What the device did: kernel calls, transfers and allocations, counted since the start or the last reset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Statistics:
    """Counts, and bytes for each kind of copy. ``d2d`` includes copies between two devices (``peer``)."""

    kernels: Counter[str] = field(default_factory=Counter)
    h2d: int = 0
    h2d_bytes: int = 0
    d2h: int = 0
    d2h_bytes: int = 0
    d2d: int = 0
    d2d_bytes: int = 0
    peer: int = 0
    mallocs: int = 0
    blocks: int = 0
    """Blocks taken from the device; the other mallocs reused a cached one."""

    @property
    def kernel_calls(self) -> int:
        """Kernels run, of all ops."""
        return self.kernels.total()

    def copied(self, kind: str, nbytes: int, peer: bool) -> None:
        """Count one copy; ``kind`` is H2D, D2H or D2D."""
        name = kind.lower()
        setattr(self, name, getattr(self, name) + 1)
        setattr(self, f"{name}_bytes", getattr(self, f"{name}_bytes") + nbytes)
        self.peer += peer

    def snapshot(self) -> Statistics:
        """Return a copy that later work does not change."""
        return Statistics(**{**self.__dict__, "kernels": Counter(self.kernels)})
