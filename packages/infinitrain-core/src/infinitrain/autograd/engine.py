"""The backward pass: nodes in descending order of creation, without recursion."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from ..backend.optable import OPS
from ..backend.storage import copy_between
from ..errors import AutogradError
from ..tensor import Tensor
from .function import FREED, LANDED, Node
from .grad_mode import state
from .streams import StreamFollower


def backward(root: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of ``root`` to the leaves that it depends on.

    ``gradient`` has root's shape and dtype; without it root must have one element and 1 is used.
    """
    enabled, region = state.enabled, state.autocast
    state.enabled, state.autocast = False, None
    try:
        seed = _seed(root, gradient)
        if root._node is None:
            _finish(root, _hooked(root, seed), True)
        else:
            _Walk(root, seed, retain_graph).run()
    finally:
        state.enabled, state.autocast = enabled, region


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    if not root._requires_grad:
        raise AutogradError("backward() on a tensor that does not require grad and has no graph")
    if gradient is None:
        if root.numel != 1:
            raise AutogradError(
                f"backward() needs a gradient for a tensor of shape {list(root.shape)}, not a scalar"
            )
        return root.new_full(root.shape, 1.0)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"backward(): gradient is a Tensor, got {type(gradient).__name__} {gradient!r:.60}")
    if gradient.shape != root.shape or gradient.dtype is not root.dtype or gradient.device is not root.device:
        raise AutogradError(f"backward(): gradient is {gradient.spec}, the tensor {root.spec}")
    return gradient.clone()  # it may be the memory of a gradient that this very pass writes


class _Walk:
    """One backward pass: from the newest node to the oldest, so that a node's gradient is complete when it runs."""

    def __init__(self, root: Tensor, seed: Tensor, retain_graph: bool) -> None:
        self.retain_graph = retain_graph
        self.arrived: dict[Node, Any] = {}  # node -> its gradient, or a list of one for each result
        self.heap: list[tuple[int, Node]] = []
        # Slots whose gradient is a sum made here, which may be added to in place; all others may be shared.
        self.owned: set[tuple[int, int]] = set()
        self.leaves = _count_hooked(root._node) if Tensor._hooked_leaves else None
        self.streams: StreamFollower | None = None
        self.arrive(root._node, root._index, seed)

    def run(self) -> None:
        try:
            self.walk()
        finally:
            if self.streams is not None:
                self.streams.join()
        for leaf, _, total, landed in (
            self.leaves or {}
        ).values():  # contributions that were expected in vain
            _finish(leaf, total, landed)

    def walk(self) -> None:
        heap, arrived, leaves = self.heap, self.arrived, self.leaves
        while heap:
            node = heappop(heap)[1]
            edges = node._edges
            if edges is None:
                raise AutogradError(FREED.format(node.name))
            grads = arrived.pop(node)
            if node._stream is not None:
                self.streams = self.streams or StreamFollower()
                self.streams.enter(*node._stream)
            if node._hooks is not None:
                grads = _run_hooks(node, grads)
            backward_of = node._fn.backward
            results = backward_of(node, *grads) if grads.__class__ is list else backward_of(node, grads)
            if results.__class__ is not tuple:
                results = (results,)
            if len(results) != len(edges):
                raise AutogradError(
                    f"{node.name}.backward returned {len(results)} gradients for {len(edges)} arguments"
                )
            if node._cast is not None:
                results = _uncast(node._cast, results)
            for edge, grad in zip(edges, results):  # noqa: B905 - equal lengths, checked above
                if edge is None:
                    continue
                target, index = edge
                if index < 0:
                    if leaves is not None and id(target) in leaves:
                        self.contribute(node, target, grad)
                    elif grad is not None and grad is not LANDED:
                        _check(node, target.spec, grad)
                        _deliver(target, grad)
                elif grad is not None:
                    if target._n_results == 1 and target not in arrived:
                        arrived[target] = grad
                        heappush(heap, (-target._seq, target))
                    else:
                        self.arrive(target, index, grad)
            if not self.retain_graph:
                node.free()
            grads = results = edges = edge = grad = target = None

    def arrive(self, node: Node, index: int, grad: Tensor) -> None:
        """Add a gradient to what has arrived for result ``index`` of ``node``."""
        arrived, single = self.arrived, node._n_results == 1
        if node not in arrived:
            arrived[node] = grad if single else [None] * node._n_results
            heappush(self.heap, (-node._seq, node))
            if single:
                return
        held = arrived[node] if single else arrived[node][index]
        if held is None:
            arrived[node][index] = grad
        elif (node._seq, index) in self.owned:
            OPS["AccumulateGrad"].call(grad, 1.0, held)
        else:
            total = OPS["AddForward"].call(held, grad)
            self.owned.add((node._seq, index))
            if single:
                arrived[node] = total
            else:
                arrived[node][index] = total

    def contribute(self, node: Node, leaf: Tensor, grad: Any) -> None:
        """Take one of the contributions that a leaf with hooks waits for; after the last one call its hooks."""
        assert self.leaves is not None
        entry = self.leaves[id(leaf)]
        entry[1] -= 1
        if grad is LANDED:
            entry[3] = True
        elif grad is not None:
            _check(node, leaf.spec, grad)
            if leaf._hooks:  # they see the whole gradient, once
                entry[2] = grad if entry[2] is None else OPS["AddForward"].call(entry[2], grad)
            else:
                _deliver(leaf, grad)
                entry[3] = True
        if not entry[1]:
            del self.leaves[id(leaf)]
            _finish(leaf, _hooked(leaf, entry[2]), entry[3])


def _uncast(cast: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return gradients in the dtypes that the arguments had before autocast."""
    return tuple(
        [
            g if was is None or g is None or g is LANDED or g.dtype is was else OPS["Cast"].call(g, was)
            for was, g in zip(cast, grads, strict=True)
        ]
    )


def _count_hooked(first: Node) -> dict[int, list[Any]]:
    """Return, for each leaf below ``first`` with hooks, [leaf, edges that lead to it, sum so far, landed yet]."""
    seen, stack = {first}, [first]
    leaves: dict[int, list[Any]] = {}
    while stack:
        for edge in stack.pop()._edges or ():
            if edge is None:
                continue
            target, index = edge
            if index >= 0:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
            elif target._post_hooks or target._hooks:
                leaves.setdefault(id(target), [target, 0, None, False])[1] += 1
    return leaves


def _check(node: Node, spec: Any, grad: Any) -> None:
    if not isinstance(grad, Tensor) or grad.shape != spec.shape:
        what = grad.spec if isinstance(grad, Tensor) else repr(grad)
        raise AutogradError(f"{node.name}.backward returned {what} as the gradient of {spec}")


def _run_hooks(node: Node, grads: Any) -> Any:
    found = grads if grads.__class__ is list else [grads]
    for index, hook in tuple(node._hooks or ()):
        if found[index] is not None:
            changed = hook(found[index])
            if changed is not None:
                _check(node, found[index].spec, changed)
                found[index] = changed
    return found


def _hooked(leaf: Tensor, grad: Tensor | None) -> Tensor | None:
    """Return a leaf's whole gradient as its hooks leave it."""
    if grad is not None:
        for hook in tuple(leaf._hooks or ()):
            changed = hook(grad)
            grad = grad if changed is None else changed
    return grad


def _deliver(leaf: Tensor, grad: Tensor) -> None:
    """Write or add a gradient that did not land in the leaf's destination by itself."""
    destination = leaf._grad if leaf._grad is not None else leaf._new_grad()
    if not leaf._stale:
        OPS["AccumulateGrad"].call(grad, 1.0, destination)
        leaf._stale = False
        return
    if grad.dtype is not destination.dtype:
        grad = OPS["Cast"].call(grad, destination.dtype)
    copy_between(destination, grad)
    leaf._stale = False


def _finish(leaf: Tensor, grad: Tensor | None, landed: bool) -> None:
    """Deliver what hooks made of the gradient, then call the post-accumulate hooks: once per backward, after the
    leaf's last contribution [contract 4.5].
    """
    if grad is not None:
        _deliver(leaf, grad)
    if landed or grad is not None:
        for hook in tuple(leaf._post_hooks or ()):
            hook(leaf)
