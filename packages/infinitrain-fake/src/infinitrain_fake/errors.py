"""What the strict device refuses. Each error names the op, the buffer and its size."""

from __future__ import annotations

from infinitrain.errors import BackendError


class DeviceMemoryError(BackendError):
    """Device memory was used out of bounds, after its release, released twice, or leaked."""


class RaceError(BackendError):
    """Two accesses to the same bytes that nothing orders: an event wait is missing [contract 3.6]."""
