"""State dicts of modules: checked as a whole, then written."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.spec import TensorSpec
from ..creation import from_numpy
from ..dtype import as_dtype
from ..errors import DtypeError, InfiniTrainError
from ..tensor import Tensor

if TYPE_CHECKING:
    from .module import Module

_SHOWN = 10


class StateDictError(InfiniTrainError, ValueError):
    """A state dict does not fit; ``problems`` lists every reason, and nothing was changed."""

    def __init__(self, owner: str, problems: list[str]) -> None:
        self.problems = list(problems)
        shown = problems[:_SHOWN]
        if len(problems) > _SHOWN:
            shown.append(f"... and {len(problems) - _SHOWN} more")
        lines = "".join(f"\n  - {problem}" for problem in shown)
        super().__init__(f"the state dict does not fit {owner}; nothing was loaded:{lines}")


def read_state(module: Module) -> dict[str, Tensor]:
    """Return path -> detached view, for parameters and persistent buffers in order of registration."""
    return {path: tensor.detach() for path, tensor in _tensors(module).items()}


def load_state(module: Module, state: Mapping[str, Any], strict: bool) -> None:
    """Copy ``state`` into the module's tensors after checking all of it. Raises StateDictError."""
    targets = _tensors(module)
    paths: dict[int, list[str]] = {}
    for path, tensor in targets.items():
        paths.setdefault(id(tensor), []).append(path)
    problems: list[str] = []
    chosen: list[tuple[Tensor, Any]] = []
    for names in paths.values():
        present = [name for name in names if name in state]
        if not present:
            if strict:
                problems.append(f"missing: {' = '.join(names)}")
            continue
        target = targets[present[0]]
        faults = [fault for name in present if (fault := mismatch(name, state[name], target))]
        problems += faults
        if not faults and any(not _equal(state[present[0]], state[other]) for other in present[1:]):
            problems.append(f"tied, but with different values: {' = '.join(present)}")
        chosen.append((target, state[present[0]]))
    if strict:
        for name in state:
            if name not in targets:
                near = get_close_matches(name, targets, 1)
                problems.append(f"unexpected: {name}" + (f" (did you mean {near[0]}?)" if near else ""))
    if problems:
        raise StateDictError(type(module).__name__, problems)
    for target, value in chosen:
        write(target, value)


def mismatch(name: str, value: Any, target: Tensor | TensorSpec) -> str | None:
    """Return what is wrong with ``value`` as the new content of ``target``, or None."""
    if not isinstance(value, Tensor | np.ndarray):
        return f"{name} is a {type(value).__name__}, expected a tensor"
    if tuple(value.shape) != target.shape:
        return f"{name} has shape {list(value.shape)}, expected {list(target.shape)}"
    try:
        dtype = as_dtype(value.dtype)
    except DtypeError as error:
        return f"{name}: {error}"
    return None if dtype is target.dtype else f"{name} has dtype {dtype}, expected {target.dtype}"


def write(target: Tensor, value: Any) -> None:
    """Copy ``value`` (a Tensor on any device, or an array) into ``target``, which may be a parameter."""
    source = value.detach() if isinstance(value, Tensor) else from_numpy(value)
    target.detach().copy_(source)  # the detached view shares the version [contract 4.10]


def _tensors(module: Module) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for name, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and name not in owner._transient:
                found[f"{path}.{name}" if path else name] = tensor
    return found


def _equal(a: Any, b: Any) -> bool:
    if a is b or (
        isinstance(a, Tensor) and isinstance(b, Tensor) and a.device is b.device and a.ptr == b.ptr
    ):
        return True
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()
