"""Function: a differentiable op, and the graph node that remembers one call of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ..errors import AutogradError
from ..tensor import Tensor
from .grad_mode import state

_sequence = count().__next__


class Node:
    """One recorded call, and the ``ctx`` of its Function. Forward may set any attribute on it for backward.

    ``edges`` has one entry per argument of ``apply``: None where no gradient is wanted, else (node, result index), or
    (leaf tensor, -1); the whole is None once the graph is freed. ``seq`` grows with creation, so that descending order
    is a topological order.
    """

    # What every call sets has a slot (loads and stores of slots are several times cheaper); the rest has a default.
    __slots__ = ("__dict__", "__weakref__", "_saved", "_versions", "edges", "fn", "seq")
    fn: type[Function]
    seq: int
    edges: Any
    _saved: tuple[Any, ...]
    _versions: list[int]
    n_results = 1
    hooks: list[tuple[int, Callable[..., Any]]] | None = None
    _unpack: Callable[..., Any] | None = None

    def __init__(self, edges: Any = None) -> None:
        self.edges = edges
        self._saved = ()

    @property
    def released(self) -> bool:
        """True once a backward has freed this node."""
        return self.edges is None

    def save(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward; call once, in forward. Results may be among them."""
        self._saved = tensors

    @property
    def saved(self) -> tuple[Any, ...]:
        """The saved tensors. Raises AutogradError when one was changed in place since [contract 4.10]."""
        if self.edges is None:
            raise AutogradError(_FREED.format(self.fn.__name__))
        unpack = self._unpack
        if unpack is not None:
            return tuple([None if t is None else unpack(t) for t in self._saved])
        for tensor, version in zip(self._saved, self._versions):  # noqa: B905 - made together in _keep
            if tensor is not None:
                now = tensor._version
                if now is not None and now[0] != version:
                    raise AutogradError(
                        f"{self.fn.__name__} saved {tensor.name or 'a tensor'} {list(tensor.shape)} for backward at "
                        f"version {version}; {now[1]} has changed it since (version {now[0]}). "
                        "Run backward before changing it, or change a copy [contract 4.10]"
                    )
        return self._saved

    def needs(self, index: int) -> bool:
        """Tell whether argument ``index`` of ``apply`` wants a gradient."""
        return self.edges[index] is not None

    def into(self, index: int, op: Callable[..., Any], *args: Any) -> Tensor | None:
        """Run a one-result gradient op for argument ``index``, straight into a leaf's destination where there is one.

        Returns None without running when no gradient is wanted [contract 4.5].
        """
        edge = self.edges[index]
        if edge is None:
            return None
        leaf, result = edge
        if result >= 0 or leaf._hooks is not None:
            return op(*args)
        destination = leaf._grad
        if destination is None:
            destination = leaf._new_grad()
        if leaf._stale:
            op(*args, out=destination)
            leaf._stale = False
        elif op.op.accumulates:  # type: ignore[attr-defined]
            op(*args, out=destination, accumulate=True)
        else:
            return op(*args)
        return destination

    def into_all(self, indices: tuple[int, ...], op: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        """As ``into`` for an op with several results, result k being the gradient of argument ``indices[k]``."""
        edges, accumulates = self.edges, op.op.accumulates_index  # type: ignore[attr-defined]
        outs: list[Tensor | None] = []
        flags: list[bool] = []
        leaves: list[Tensor] = []
        for k, index in enumerate(indices):
            edge = edges[index]
            if edge is not None and edge[1] < 0 and k in accumulates and edge[0]._hooks is None:
                leaf = edge[0]
                for (
                    taken
                ) in leaves:  # a leaf that is two arguments takes one result; the engine adds the other
                    if taken is leaf:
                        break
                else:
                    outs.append(leaf._grad if leaf._grad is not None else leaf._new_grad())
                    flags.append(not leaf._stale)
                    leaves.append(leaf)
                    continue
            outs.append(None)
            flags.append(False)
        if not leaves:
            return op(*args)
        got = op(*args, out=tuple(outs), accumulate=tuple(flags))
        for leaf in leaves:
            leaf._stale = False
        return got


_FREED = (
    "{}: the graph was freed by an earlier backward; give retain_graph=True there to walk it again, "
    "or run the forward again"
)


class _NoGraph(Node):
    """The ctx of calls that are not recorded: saving costs nothing and keeps nothing."""

    def save(self, *tensors: Tensor | None) -> None:
        pass

    def needs(self, index: int) -> bool:
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        pass


_NO_GRAPH: Node = _NoGraph()


class Function:
    """A differentiable op: ``forward(ctx, *args)`` returns a tensor or a tuple, ``backward(ctx, *grads)`` one gradient
    (or None) per argument of forward.

    Tensors are passed flat, never inside lists. Forward calls ops of the table and saves what backward needs with
    ``ctx.save``; both run without recording. Call it with ``apply``.

    >>> import infinitrain as it
    >>> class Double(it.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x + x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2.0
    >>> x = it.tensor([1.0, 3.0], requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("a Function defines forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("a Function defines backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward and, when grad mode is on and an argument requires grad, record it."""
        if not state.enabled:
            return cls.forward(_NO_GRAPH, *args)
        edges = [
            None
            if not isinstance(a, Tensor) or not a._requires_grad
            else ((a, -1) if a._node is None else (a._node, a._index))
            for a in args
        ]
        recorded = any(edges)
        ctx = Node(edges) if recorded else _NO_GRAPH
        state.enabled = False
        try:
            result = cls.forward(ctx, *args)
        finally:
            state.enabled = True
        if not recorded:
            return result
        ctx.fn = cls
        ctx.seq = _sequence()
        results = result if result.__class__ is tuple else (result,)
        if ctx._saved:
            _keep(ctx, results)
        if len(results) > 1:
            ctx.n_results = len(results)
        for index, r in enumerate(results):
            if r.spec.is_floating:
                r._node = ctx
                r._requires_grad = True
                if index:
                    r._index = index
        return result


def _keep(ctx: Node, results: tuple[Any, ...]) -> None:
    """Note the versions of what was saved; a saved result is kept as an alias, or it would keep its own node alive."""
    versions = []
    saved = ctx._saved
    for t in saved:
        if t is None:
            versions.append(0)
            continue
        for r in results:
            if r is t:
                saved = tuple([x.view_as(x.spec) if x is t else x for x in saved])
        version = t._version
        versions.append(0 if version is None else version[0])
    if state.saved_hooks:
        pack, ctx._unpack = state.saved_hooks[-1]
        ctx._saved = tuple([None if t is None else pack(t) for t in saved])
        return
    ctx._saved = saved
    ctx._versions = versions
