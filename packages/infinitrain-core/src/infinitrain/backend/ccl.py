"""The collectives half of a provider: ``CclImpl`` [contract 6.1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..device import DeviceType, type_name
from ..errors import NotSupportedError


class CclImpl(ABC):
    """A collective library. Core does not call it yet: data parallelism arrives with clauses 6 and 7.

    Registration accepts and checks it already, so that a provider with collectives registers unchanged later.
    """

    @property
    @abstractmethod
    def type(self) -> DeviceType:
        """The device type served."""

    def get_unique_id(self) -> bytes:
        """Return an identifier that rank 0 shares with the other ranks of a communicator."""
        raise self._unsupported("get_unique_id")

    def comm_init_rank(self, size: int, id: bytes, rank: int) -> Any:
        """Return this rank's communicator on the current device."""
        raise self._unsupported("comm_init_rank")

    def comm_destroy(self, comm: Any) -> None:
        """Release a communicator."""
        raise self._unsupported("comm_destroy")

    def _unsupported(self, method: str) -> NotSupportedError:
        name = type_name(self.type)
        return NotSupportedError(
            f"backend {name!r} does not support CclImpl.{method} [contract 6.1]", provider=name, method=method
        )
