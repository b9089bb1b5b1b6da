"""The collectives half of a provider: ``CclImpl`` [contract 6.1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from ..device import DeviceType, type_name
from ..dtype import DType
from ..errors import NotSupportedError

SUM: Final = "SUM"
AVG: Final = "AVG"
MIN: Final = "MIN"
MAX: Final = "MAX"
PROD: Final = "PROD"


class CclImpl(ABC):
    """A collective library. Core does not call it yet: data parallelism arrives with clauses 6 and 7.

    Registration accepts and checks it already, so that a provider with collectives registers unchanged later.
    ``send`` and ``recv`` are addresses (``ptr``), ``count`` counts elements, ``op`` is SUM, AVG, MIN, MAX or
    PROD. The methods up to ``reduce_scatter`` are required when a CCL is offered; the others raise
    NotSupportedError.
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

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: DType, op: str, comm: Any, stream: Any
    ) -> None:
        """Reduce over all ranks into every rank's ``recv``."""
        raise self._unsupported("all_reduce")

    def broadcast(
        self, send: int, recv: int, count: int, dtype: DType, root: int, comm: Any, stream: Any
    ) -> None:
        """Copy ``root``'s ``send`` to every rank's ``recv``."""
        raise self._unsupported("broadcast")

    def all_gather(self, send: int, recv: int, send_count: int, dtype: DType, comm: Any, stream: Any) -> None:
        """Put all ranks' ``send``, in the order of ranks, into every rank's ``recv``."""
        raise self._unsupported("all_gather")

    def reduce_scatter(
        self, send: int, recv: int, recv_count: int, dtype: DType, op: str, comm: Any, stream: Any
    ) -> None:
        """Reduce over all ranks; rank r gets the r-th part, of ``recv_count`` elements."""
        raise self._unsupported("reduce_scatter")

    def reduce(
        self, send: int, recv: int, count: int, dtype: DType, op: str, root: int, comm: Any, stream: Any
    ) -> None:
        """Reduce over all ranks into ``root``'s ``recv``."""
        raise self._unsupported("reduce")

    def send(self, send: int, count: int, dtype: DType, peer: int, comm: Any, stream: Any) -> None:
        """Send to rank ``peer``."""
        raise self._unsupported("send")

    def recv(self, recv: int, count: int, dtype: DType, peer: int, comm: Any, stream: Any) -> None:
        """Receive from rank ``peer``."""
        raise self._unsupported("recv")

    def comm_abort(self, comm: Any) -> None:
        """End a communicator whose peers may be gone, without waiting for them."""
        raise self._unsupported("comm_abort")

    def _unsupported(self, method: str) -> NotSupportedError:
        name = type_name(self.type)
        return NotSupportedError(
            f"backend {name!r} does not support CclImpl.{method} [contract 6.1]", provider=name, method=method
        )


REQUIRED: Final = (
    "get_unique_id", "comm_init_rank", "comm_destroy",
    "all_reduce", "broadcast", "all_gather", "reduce_scatter",
)  # fmt: skip


def ccl_problems(ccl: CclImpl) -> list[str]:
    """Return what an offered CCL lacks [contract 6.1]."""
    missing = [name for name in REQUIRED if getattr(type(ccl), name) is getattr(CclImpl, name)]
    return [f"the ccl does not implement {', '.join(missing)} [contract 6.1]"] if missing else []
