"""Providers that declare all that there is, and some that declare what does not work, for --backend_module."""

from __future__ import annotations

from typing import Any

import numpy as np
import providers
from providers import TYPE, Host, kernels

from infinitrain.backend import (
    Capabilities,
    CclImpl,
    Option,
    PrivateUse1BackendRegistration,
    register_ccl_impl,
    register_device_guard_impl,
    register_kernel,
    register_privateuse1_backend,
)


class Capable(Host):
    """Host memory with pinned memory, copies that return an event, and captured fills."""

    def __init__(self) -> None:
        self.recorded: list[Any] | None = None

    def host_alloc(self, nbytes: int) -> memoryview:
        return memoryview(bytearray(nbytes))

    def memcpy_async(self, *args: Any) -> object:
        self.memcpy(*args)
        return object()

    def begin_capture(self, stream: Any) -> None:
        self.recorded = []

    def end_capture(self, stream: Any) -> list[Any]:
        graph, self.recorded = self.recorded or [], None
        return graph

    def replay(self, graph: list[Any], stream: Any) -> None:
        for work in graph:
            work()


class Lying(Capable):
    """Declares what does not work: memory of another size, copies that are lost, work that is not held back."""

    def host_alloc(self, nbytes: int) -> memoryview:
        return memoryview(bytearray(nbytes // 2))

    def memcpy_async(self, *args: Any) -> object:
        return object()

    def replay(self, graph: list[Any], stream: Any) -> None:
        pass

    def memory_stats(self, device: Any) -> dict[str, int | None]:
        return {"used": 0, "reserved": 0, "peak_used": 0, "peak_reserved": 0}


class Silent(Host):
    """Leaves methods out without saying so."""

    def _unsupported(self, method: str) -> Any:
        return RuntimeError(f"{method}?")


class Alone(CclImpl):
    """Collectives among one rank."""

    type = TYPE

    def get_unique_id(self) -> bytes:
        return b"alone"

    def comm_init_rank(self, size: int, id: bytes, rank: int) -> object:
        assert (size, id, rank) == (1, b"alone", 0)
        return self

    def comm_destroy(self, comm: Any) -> None:
        pass

    def _copy(self, send: int, recv: int, count: int, dtype: Any) -> None:
        np.ctypeslib.ctypes.memmove(recv, send, count * dtype.itemsize)

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: Any, op: str, comm: Any, stream: Any
    ) -> None:
        self._copy(send, recv, count, dtype)

    def broadcast(
        self, send: int, recv: int, count: int, dtype: Any, root: int, comm: Any, stream: Any
    ) -> None:
        self._copy(send, recv, count, dtype)

    def all_gather(self, send: int, recv: int, send_count: int, dtype: Any, comm: Any, stream: Any) -> None:
        self._copy(send, recv, send_count, dtype)

    def reduce_scatter(
        self, send: int, recv: int, recv_count: int, dtype: Any, op: str, comm: Any, stream: Any
    ) -> None:
        self._copy(send, recv, recv_count, dtype)


class Halving(Alone):
    """Divides where it should add."""

    def all_reduce(
        self, send: int, recv: int, count: int, dtype: Any, op: str, comm: Any, stream: Any
    ) -> None:
        self._copy(send, recv, count // 2, dtype)


runtime: Any = None


def _register(cls: type, ccl: type | None, capabilities: Capabilities) -> None:
    def register_runtime() -> None:
        global runtime
        runtime = cls()
        register_device_guard_impl(TYPE, runtime)

    def register_ccl() -> None:
        assert ccl is not None
        register_ccl_impl(TYPE, ccl())

    register_privateuse1_backend(
        PrivateUse1BackendRegistration(
            name="toy",
            contract=(1, 0),
            register_runtime=register_runtime,
            register_kernels=capturing_kernels,
            register_ccl=register_ccl if ccl is not None else None,
            capabilities=capabilities,
        )
    )


def capturing_kernels() -> None:
    kernels()
    register_kernel(TYPE, "Fill", _fill)


def _fill(x: Any, value: float) -> None:
    array = x.array  # of host memory, valid at any time

    def work() -> None:
        array[...] = value

    work() if getattr(runtime, "recorded", None) is None else runtime.recorded.append(work)


OPTIONS = (Option("lanes", int, 4, "number of lanes"), Option("mode", str, "quick", "quick or exact"))


def able() -> None:
    """Everything is declared, and works."""
    _register(
        Capable,
        Alone,
        Capabilities(
            host_visible=True,
            options=OPTIONS,
            nondeterministic=("LinearForward",),
            peak_flops=lambda dtype: 1e12 if dtype.is_floating else None,
        ),
    )


def liar() -> None:
    """Everything is declared, nothing works."""
    _register(
        Lying,
        Halving,
        Capabilities(
            host_visible=True,
            options=(Option("lanes", int, 4, ""),),
            nondeterministic=("Cast", "Cast"),
            peak_flops=lambda dtype: 0.0,
        ),
    )


def silent() -> None:
    """Nothing is declared, and asking for it is answered in ways of its own."""
    _register(Silent, None, Capabilities(host_visible=True))


__all__ = ["able", "liar", "providers", "silent"]
