"""The backward pass: nodes in descending order of creation, without recursion."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from ..backend.optable import OPS
from ..backend.storage import copy_between
from ..errors import AutogradError
from ..tensor import Tensor
from .function import _FREED, Node
from .grad_mode import state


def backward(root: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of ``root`` to the leaves that it depends on.

    ``gradient`` has root's shape and dtype; without it root must have one element and 1 is used.
    """
    enabled = state.enabled
    state.enabled = False
    try:
        seed = _seed(root, gradient)
        if root._node is None:
            _deliver(root, seed)
            _finish(root)
            return
        _walk(root, seed, retain_graph)
    finally:
        state.enabled = enabled


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    if not root._requires_grad:
        raise AutogradError("backward() on a tensor that does not require grad and has no graph")
    if gradient is None:
        if root.numel != 1:
            raise AutogradError(
                f"backward() needs a gradient for a tensor of shape {list(root.shape)}, not a scalar"
            )
        return root.new_full(root.shape, 1.0)
    if gradient.shape != root.shape or gradient.dtype is not root.dtype or gradient.device is not root.device:
        raise AutogradError(f"backward(): gradient is {gradient.spec}, the tensor {root.spec}")
    return gradient


def _walk(root: Tensor, seed: Tensor, retain_graph: bool) -> None:
    """Run nodes from the newest to the oldest: a node's consumers are all newer, so its gradient is complete."""
    first = root._node
    arrived: dict[Node, Any] = {}  # node -> its gradient, or a list of one per result
    heap: list[tuple[int, Node]] = []
    owned: set[tuple[int, int]] = (
        set()
    )  # sums made here, which may be added to in place; all others may be shared
    pending = _count_hooked(first) if Tensor._hooked_leaves else None
    _arrive(first, root._index, seed, arrived, heap, owned)
    while heap:
        node = heappop(heap)[1]
        edges = node.edges
        if edges is None:
            raise AutogradError(_FREED.format(node.fn.__name__))
        grads = arrived.pop(node)
        if node.hooks is not None:
            grads = _run_hooks(node, grads)
        results = node.fn.backward(node, *grads) if grads.__class__ is list else node.fn.backward(node, grads)
        if results.__class__ is not tuple:
            results = (results,)
        if len(results) != len(edges):
            raise AutogradError(
                f"{node.fn.__name__}.backward returned {len(results)} gradients for {len(edges)} arguments"
            )
        for edge, grad in zip(edges, results):  # noqa: B905 - equal lengths, checked above
            if edge is None:
                continue
            target, index = edge
            if index < 0:
                if grad is not None and grad is not target._grad:
                    _check(node, target.spec, grad)
                    _deliver(target, grad)
            elif grad is not None:
                if target.n_results == 1 and target not in arrived:
                    arrived[target] = grad
                    heappush(heap, (-target.seq, target))
                else:
                    _arrive(target, index, grad, arrived, heap, owned)
        if pending is not None:
            _finish_edges(edges, results, pending)
        if not retain_graph:
            node._saved, node.edges = (), None
        grads = results = edges = edge = grad = target = None
    if pending is not None:
        for leaf, _, touched in pending.values():  # contributions that were expected and did not come
            if touched:
                _finish(leaf)


def _arrive(
    node: Node, index: int, grad: Tensor, arrived: dict[Node, Any], heap: list[Any], owned: set[Any]
) -> None:
    """Add a gradient to what has arrived for result ``index`` of ``node``."""
    single = node.n_results == 1
    if node not in arrived:
        arrived[node] = grad if single else [None] * node.n_results
        heappush(heap, (-node.seq, node))
        if single:
            return
    held = arrived[node] if single else arrived[node][index]
    if held is None:
        arrived[node][index] = grad
    elif (node.seq, index) in owned:
        OPS["AccumulateGrad"].call(grad, 1.0, held)
    else:
        total = OPS["AddForward"].call(held, grad)
        owned.add((node.seq, index))
        if single:
            arrived[node] = total
        else:
            arrived[node][index] = total


def _count_hooked(first: Node) -> dict[int, list[Any]]:
    """Return, for each leaf below ``first`` with post-accumulate hooks, [leaf, edges that lead to it, written yet]."""
    seen, stack = {first}, [first]
    pending: dict[int, list[Any]] = {}
    while stack:
        for edge in stack.pop().edges or ():
            if edge is None:
                continue
            target, index = edge
            if index >= 0:
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
            elif target._post_hooks:
                pending.setdefault(id(target), [target, 0, False])[1] += 1
    return pending


def _finish_edges(edges: Any, results: Any, pending: dict[int, list[Any]]) -> None:
    for edge, grad in zip(edges, results, strict=True):
        if edge is not None and edge[1] < 0 and id(edge[0]) in pending:
            entry = pending[id(edge[0])]
            entry[1] -= 1
            entry[2] = entry[2] or grad is not None
            if not entry[1]:
                del pending[id(edge[0])]
                if entry[2]:
                    _finish(edge[0])


def _check(node: Node, spec: Any, grad: Any) -> None:
    if not isinstance(grad, Tensor) or grad.shape != spec.shape:
        what = grad.spec if isinstance(grad, Tensor) else repr(grad)
        raise AutogradError(f"{node.fn.__name__}.backward returned {what} as the gradient of {spec}")


def _run_hooks(node: Node, grads: Any) -> Any:
    found = grads if grads.__class__ is list else [grads]
    for index, hook in node.hooks or ():
        if found[index] is not None:
            changed = hook(found[index])
            if changed is not None:
                found[index] = changed
    return found


def _deliver(leaf: Tensor, grad: Tensor) -> None:
    """Write or add a gradient that did not land in the leaf's destination by itself."""
    for hook in leaf._hooks or ():
        changed = hook(grad)
        if changed is not None:
            grad = changed
    destination = leaf._grad if leaf._grad is not None else leaf._new_grad()
    if not leaf._stale:
        OPS["AccumulateGrad"].call(grad, 1.0, destination)
        return
    if grad.dtype is not destination.dtype:
        grad = OPS["Cast"].call(grad, destination.dtype)
    copy_between(destination, grad)
    leaf._stale = False


def _finish(leaf: Tensor) -> None:
    """Call the post-accumulate hooks: once per backward, after the leaf's last contribution [contract 4.5]."""
    for hook in leaf._post_hooks or ():
        hook(leaf)
