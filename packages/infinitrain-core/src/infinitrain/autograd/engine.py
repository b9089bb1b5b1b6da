"""The backward pass: nodes in descending order of creation, without recursion."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from ..backend.optable import OPS
from ..backend.storage import copy_between
from ..errors import AutogradError
from ..tensor import Tensor
from .function import _FREED, Node
from .grad_mode import state

_by_seq = attrgetter("seq")


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
            raise AutogradError(f"backward() needs a gradient for a tensor of shape {list(root.shape)}, not a scalar")
        return root.new_full(root.shape, 1.0)
    if gradient.shape != root.shape or gradient.dtype is not root.dtype or gradient.device is not root.device:
        raise AutogradError(f"backward(): gradient is {gradient.spec}, the tensor {root.spec}")
    return gradient


def _walk(root: Tensor, seed: Tensor, retain_graph: bool) -> None:
    first = root._node
    nodes, pending = _collect(first)
    nodes.sort(key=_by_seq)
    arrived: dict[Node, list[Tensor | None]] = {first: [None] * first.n_results}
    arrived[first][root._index] = seed
    owned: set[tuple[int, int]] = set()  # slots whose gradient was made by adding here: those are added to in place
    touched: set[int] = set()
    add, accumulate = OPS["AddForward"].call, OPS["AccumulateGrad"].call
    while nodes:
        node = nodes.pop()
        grads = arrived.pop(node, None)
        results: Any = None
        if grads is not None:
            if node.hooks is not None:
                _run_hooks(node, grads)
            results = node.fn.backward(node, *grads)
            if results.__class__ is not tuple:
                results = (results,)
            if len(results) != len(node.edges):
                raise AutogradError(
                    f"{node.fn.__name__}.backward returned {len(results)} gradients for {len(node.edges)} arguments"
                )
        for i, edge in enumerate(node.edges):
            if edge is None:
                continue
            target, index = edge
            grad = None if results is None else results[i]
            if index < 0:
                key = id(target)
                if grad is not None:
                    if grad is not target._grad:
                        _check(node, target.spec, grad)
                        _deliver(target, grad)
                    touched.add(key)
                left = pending[key] - 1
                if left:
                    pending[key] = left
                elif key in touched:
                    _finish(target)
            elif grad is not None:
                slots = arrived.get(target)
                if slots is None:
                    slots = arrived[target] = [None] * target.n_results
                held = slots[index]
                if held is None:
                    slots[index] = grad
                elif (target.seq, index) in owned:
                    accumulate(grad, 1.0, held)
                else:
                    slots[index] = add(held, grad)
                    owned.add((target.seq, index))
        if not retain_graph:
            node._saved = node.edges = ()
            node.released = True
        grads = results = None


def _collect(first: Node) -> tuple[list[Node], dict[int, int]]:
    """Return the nodes below ``first`` and, per leaf, how many edges lead to it."""
    seen, stack, pending = {first}, [first], {}
    while stack:
        node = stack.pop()
        if node.released:
            raise AutogradError(_FREED.format(node.fn.__name__))
        for edge in node.edges:
            if edge is not None:
                target, index = edge
                if index < 0:
                    pending[id(target)] = pending.get(id(target), 0) + 1
                elif target not in seen:
                    seen.add(target)
                    stack.append(target)
    return list(seen), pending


def _check(node: Node, spec: Any, grad: Any) -> None:
    if not isinstance(grad, Tensor) or grad.shape != spec.shape:
        what = grad.spec if isinstance(grad, Tensor) else repr(grad)
        raise AutogradError(f"{node.fn.__name__}.backward returned {what} as the gradient of {spec}")


def _run_hooks(node: Node, grads: list[Any]) -> None:
    for index, hook in node.hooks or ():
        if grads[index] is not None:
            changed = hook(grads[index])
            if changed is not None:
                grads[index] = changed


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
