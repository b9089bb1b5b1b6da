"""What holds per thread: grad mode (whether ops record a graph), saved-tensor hooks, and the autocast region."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any


class _State(threading.local):
    enabled = True
    modes: tuple[bool, ...] = ()  # what the enclosing blocks found, innermost last
    autocast: Any = None  # the Region, see autocast.py; None outside of all
    regions: tuple[Any, ...] = ()
    contexts: tuple[Any, ...] = ()  # what the enclosing ComputeContexts found, innermost last
    saved_hooks: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = ()


state = _State()


def is_grad_enabled() -> bool:
    """Tell whether ops of this thread record a graph."""
    return state.enabled


class _Mode:
    """A context manager and decorator that sets grad mode and restores it, on exceptions too."""

    enabled: bool

    def __enter__(self) -> None:
        state.modes = (*state.modes, state.enabled)
        state.enabled = self.enabled

    def __exit__(self, *exc: object) -> None:
        *before, state.enabled = state.modes
        state.modes = tuple(before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return fn(*args, **kwargs)

        return wrapped


class no_grad(_Mode):
    """``with no_grad():`` records no graph."""

    enabled = False


class enable_grad(_Mode):
    """``with enable_grad():`` records again inside ``no_grad``."""

    enabled = True


class saved_tensors_hooks:
    """``with saved_tensors_hooks(pack, unpack):`` stores ``pack(tensor)`` instead of each tensor saved for backward.

    ``unpack`` gets what ``pack`` returned and returns the tensor. The innermost pair is used, and travels with the
    saved tensor: backward need not run inside the block.
    """

    def __init__(self, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        self.pair = (pack, unpack)

    def __enter__(self) -> None:
        state.saved_hooks = (*state.saved_hooks, self.pair)

    def __exit__(self, *exc: object) -> None:
        state.saved_hooks = state.saved_hooks[:-1]
