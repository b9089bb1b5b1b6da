"""Flat buffers: many parameters in one long tensor, and their gradients in another.

An optimizer step or a gradient norm over one long tensor costs one pass over memory; over fifty small tensors
it costs fifty kernel calls. Nothing else changes: a parameter is the same object, its gradient is None until
written, and each keeps its own version [contract 4.5, 4.10]. Whoever computes on the long tensors does so by
*runs*: stretches of neighbours that all have a gradient, so that a stale one is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..backend.runtime import get_device_guard_impl
from ..backend.spec import TensorSpec
from ..backend.storage import copy_between
from ..creation import zeros
from ..device import Device
from ..dtype import DType
from ..nn.parameter import Parameter, repoint
from ..tensor import Tensor

ALIGNMENT = 64  # bytes, the least that a runtime's malloc gives [contract 3.3]; gaps hold zeros


class FlatBuffer:
    """Parameters of one device and dtype, one after the other in ``data``, their gradients likewise in
    ``grad``.

    ``starts`` has the first element of each parameter, and ``numel`` is the length of the whole.
    """

    def __init__(self, params: Sequence[Parameter]) -> None:
        first = params[0]
        self.device, self.dtype = first.device, first.dtype
        self.params = tuple(params)
        step = max(1, ALIGNMENT // self.dtype.itemsize)
        self.starts: list[int] = []
        self.numel = 0
        for p in params:
            self.starts.append(self.numel)
            self.numel += -(-p.numel // step) * step
        self.data = self.new()
        self.grad = self.new()
        self.grads = [self.part(self.grad, i) for i in range(len(params))]
        for i, p in enumerate(params):
            target = self.part(self.data, i)
            copy_between(target, p)
            grad = p.grad
            repoint(p, target)
            p._flat = (self, i)
            if grad is None:
                p._grad, p._stale = self.grads[i], True
            else:
                copy_between(self.grads[i], grad)
                p._grad = self.grads[i]

    def new(self, dtype: DType | None = None) -> Tensor:
        """Return zeros of the layout of ``data``, in a dtype of its own if given: an optimizer's state."""
        return zeros(self.numel, dtype=dtype or self.dtype, device=self.device)

    def part(self, flat: Tensor, index: int) -> Tensor:
        """Return parameter ``index``'s view of a tensor of this layout, with a version of its own."""
        spec = TensorSpec.of(self.params[index].shape, flat.dtype, self.device)
        view: Tensor = flat.view_as(spec, self.starts[index] * flat.dtype.itemsize)
        view._version = None
        return view

    def run(self, flat: Tensor, start: int, stop: int) -> Tensor:
        """Return the 1-d view of a tensor of this layout from parameter ``start`` to before ``stop``."""
        if start == 0 and stop == len(self.params):
            return flat
        end = self.starts[stop] if stop < len(self.params) else self.numel
        spec = TensorSpec.of((end - self.starts[start],), flat.dtype, self.device)
        view: Tensor = flat.view_as(spec, self.starts[start] * flat.dtype.itemsize)
        return view


def flatten(params: Iterable[Parameter]) -> list[FlatBuffer]:
    """Move parameters into flat buffers, one for each device and dtype, in the order given; return all that
    hold them.

    Parameters that are in one already stay there, so that a reducer and an optimizer can share buffers:
    whoever comes first decides the order. Left alone are frozen parameters, empty ones, those whose gradient
    destination somebody gave (``set_grad_destination``), and those that share
    memory with another (a tied parameter is one object and no such case). Views taken before, such as a state
    dict, keep the old memory.
    """
    found: list[FlatBuffer] = []
    loose: dict[tuple[Device, DType], list[Parameter]] = {}
    unique = list({id(p): p for p in params}.values())
    owners: dict[tuple[Device, int], int] = {}
    for p in unique:
        if p.numel:
            key = p.device, p.ptr
            owners[key] = owners.get(key, 0) + 1
    for p in unique:
        if p._flat is not None:
            if p._flat[0] not in found:
                found.append(p._flat[0])
        elif p.requires_grad and p.numel and owners[p.device, p.ptr] == 1 and not p._pinned:
            loose.setdefault((p.device, p.dtype), []).append(p)
    found += [FlatBuffer(group) for group in loose.values()]
    for type in {device.type for device, _ in loose}:
        get_device_guard_impl(type).empty_cache()  # the parameters' old memory is in many pieces
    return found


@dataclass
class Run:
    """Neighbours ``start`` .. ``stop - 1`` of ``flat``, or one parameter that is in no buffer (None)."""

    flat: FlatBuffer | None
    start: int
    stop: int
    params: list[Parameter]


def runs_with_gradient(params: Iterable[Parameter]) -> list[Run]:
    """Return the parameters that have a gradient, neighbours in a flat buffer merged.

    A parameter whose gradient is not where its buffer wants it stands alone.
    """
    runs: list[Run] = []
    last: dict[int, Run] = {}  # by buffer: matrices and vectors, which take turns in a model, may be in two
    for p in params:
        if not isinstance(p, Parameter):
            raise TypeError(
                f"params are Parameters, such as model.parameters(), got {type(p).__name__} {p!r:.60}"
            )
        if p._stale or p._grad is None:
            continue
        place = p._flat
        if place is None or p._grad is not place[0].grads[place[1]]:
            runs.append(Run(None, 0, 1, [p]))
            continue
        flat, index = place
        run = last.get(id(flat))
        if run is not None and run.stop == index:
            run.stop = index + 1
            run.params.append(p)
        else:
            run = last[id(flat)] = Run(flat, index, index + 1, [p])
            runs.append(run)
    return runs


def gradients(runs: Iterable[Run]) -> list[Tensor]:
    """Return one tensor for each run: its gradients."""
    return [_grad(r.params[0]) if r.flat is None else r.flat.run(r.flat.grad, r.start, r.stop) for r in runs]


def bump(runs: Iterable[Run], writer: str, *, gradients: bool) -> None:
    """Note a write through the long tensors in every parameter, or in every gradient, of ``runs``."""
    for r in runs:
        if r.flat is not None:  # a single tensor was bumped by the op itself
            for p in r.params:
                (_grad(p) if gradients else p).bump_version(writer)


def _grad(param: Parameter) -> Tensor:
    assert param._grad is not None, "a run has parameters with a gradient"
    return param._grad
