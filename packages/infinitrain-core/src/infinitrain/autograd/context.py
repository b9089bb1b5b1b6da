"""What a thread's computation depends on beside its arguments: captured, to compute a part again or elsewhere."""

from __future__ import annotations

from .. import masks, random
from ..device import DeviceType
from ..dtype import DType
from .autocast import Region
from .grad_mode import state


class ComputeContext:
    """``with captured:`` is, on any thread and as often as wanted, what was where ``capture()`` was called.

    That is grad mode; the autocast regions; the ``step_scope`` with the draws it has counted; and where the thread's
    default generators were. A part of a step that is computed again inside it, as activation recomputation does in
    backward, gives the same bits. At the end, after exceptions too, all of it is what it was before: the generators,
    counters and regions outside have not moved. Saved-tensor hooks are no part of it.

    >>> import infinitrain as it
    >>> x = it.ones(3, 4)
    >>> captured = it.autograd.ComputeContext.capture()
    >>> first, second = it.ops.dropout(x), it.ops.dropout(x)
    >>> with captured:
    ...     again = it.ops.dropout(x)
    >>> again.tolist() == first.tolist() != second.tolist()
    True

    A Function that runs ops in its forward to run them again in backward captures there, and is declared with
    ``autocast="inside"``; what records in backward does so in ``with captured, enable_grad():``.
    """

    __slots__ = ("_autocast", "_enabled", "_generators", "_scope")
    _autocast: dict[DeviceType, DType] | None
    _enabled: bool
    _generators: random.DefaultStates
    _scope: masks.StepScope | None

    def __init__(self) -> None:
        raise TypeError("ComputeContext: ComputeContext.capture() makes one")

    @classmethod
    def capture(cls) -> ComputeContext:
        """Return what holds here and now, on this thread."""
        made = cls.__new__(cls)
        made._enabled = state.enabled
        made._autocast = None if state.autocast is None else dict(state.autocast.dtypes)
        scope = masks.current_step()
        made._scope = None if scope is None else scope.copy()
        made._generators = random.default_states()
        return made

    def __enter__(self) -> None:
        outside = state.enabled, state.autocast, random.default_states()
        random.load_default_states(self._generators)
        masks.push(None if self._scope is None else self._scope.copy())
        state.contexts = (*state.contexts, outside)
        state.enabled = self._enabled
        state.autocast = Region(self._autocast, {}) if self._autocast else None

    def __exit__(self, *exc: object) -> None:
        if state.autocast is not None:
            state.autocast.cache.clear()
        *before, outside = state.contexts
        state.contexts = tuple(before)
        state.enabled, state.autocast, generators = outside
        masks.pop()
        random.load_default_states(generators)
