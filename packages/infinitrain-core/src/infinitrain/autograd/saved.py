"""What becomes of tensors that a call saves for its backward: kept, packed by a hook, or left to be made again."""

from __future__ import annotations

from typing import Any

from ..dtype import HALF
from .grad_mode import state


def keep(ctx: Any, results: tuple[Any, ...]) -> None:
    """Note the versions of what was saved; a saved result is kept as an alias, or it would keep its own node alive."""
    saved = ctx._saved
    for r in results:
        for t in saved:
            if t is r:
                saved = tuple([x.view_as(x.spec) if x is t else x for x in saved])
    versions = [0 if t is None or t._version is None else t._version[0] for t in saved]
    if state.saved_hooks:
        saved = _pack(ctx, saved, versions)
    else:
        for i, t in enumerate(saved):
            if t is not None and t._node is not None and t.spec.numel > REBUILD_ABOVE and _is_rebuilt(t):
                saved = (*saved[:i], _Later(t._node, t._index), *saved[i + 1 :])
                versions[i] = -1
                ctx._unpack = _now
    ctx._saved = saved
    ctx._versions = versions


REBUILD_ABOVE = 1 << 19
"""Elements of a result from which on memory counts more than the time to make it again."""


def _is_rebuilt(t: Any) -> bool:
    """Tell whether a result is made again: by a Function that can, from what is there, to the same bits.

    A result that has a version was written to, or has a view through which somebody may have done so. Halves are
    rounded at other places.
    """
    fn, kept = t._node._fn, t._node._saved
    return (
        fn.rebuild is not None
        and t._version is None
        and t.spec.dtype not in HALF
        and kept[fn.rebuilt_from].__class__ is not _Later
    )


class _Later:
    """Stands for a saved result that its own node can make again."""

    __slots__ = ("index", "node")

    def __init__(self, node: Any, index: int) -> None:
        self.node, self.index = node, index


def _now(saved: Any) -> Any:
    if saved.__class__ is not _Later:
        return saved
    rebuild: Any = saved.node._fn.rebuild
    return rebuild(saved.node, saved.index)


def _pack(ctx: Any, saved: tuple[Any, ...], versions: list[int]) -> tuple[Any, ...]:
    """Return what the innermost saved-tensor hook makes of ``saved``; hooks neither record nor see themselves."""
    hooks, enabled = state.saved_hooks, state.enabled
    pack, ctx._unpack = hooks[-1]
    state.saved_hooks, state.enabled = (), False
    try:
        packed = tuple([None if t is None else pack(t) for t in saved])
    finally:
        state.saved_hooks, state.enabled = hooks, enabled
    for i, (p, t) in enumerate(zip(packed, saved, strict=True)):
        if p is not t:
            versions[i] = -1  # a copy, or something else: changes of the original do not matter
    return packed
