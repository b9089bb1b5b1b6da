"""The two places where a fault acts: on the arguments before the op sees them, on the results after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ..call import Call
from .fault import NotHere

Change = Callable[[np.ndarray], np.ndarray]
Spoil = Callable[[str, np.ndarray, np.ndarray | None], np.ndarray]
"""Gets a result's name, what the op wrote there, and what was there before (None in fresh memory)."""


def host(tensor: Any) -> np.ndarray:
    """Return a copy of a tensor's elements."""
    return np.array(tensor.numpy())


def write(tensor: Any, array: np.ndarray) -> None:
    """Put elements into a tensor's memory, past every op."""
    from infinitrain.backend.storage import write_bytes

    dense = np.ascontiguousarray(array, dtype=tensor.dtype.numpy)
    write_bytes(tensor, memoryview(bytearray(dense.tobytes())))


def tensor_params(row: Any) -> Iterator[tuple[int, Any]]:
    """Yield index and parameter of the tensor arguments of an op."""
    for index, p in enumerate(row.params):
        if p.kind in ("tensor", "optional", "list"):
            yield index, p


def takes(row: Any, dtype: str) -> bool:
    """Tell whether an op takes a dtype."""
    from infinitrain.backend.optable import DTYPES

    return any(d.name == dtype for d in DTYPES[row.dtypes])


def is_read(call: Call, index: int) -> bool:
    """Tell whether an argument that the op writes decides anything: by what the oracle makes of other elements."""
    args = call.want.args
    given = args[index]
    if index not in call.row.write_index or given is None:
        return True
    other = tuple(np.zeros_like(a) for a in given) if isinstance(given, tuple) else np.zeros_like(given)
    found = call.want.of(*args[:index], other, *args[index + 1 :])
    return any(found[name].value.tobytes() != want.value.tobytes() for name, want in call.want().items())


def changed(call: Call, index: int, change: Change, *, every: bool = False) -> Any:
    """Return an argument's host array after ``change``; of a list, the last that differs is changed, or ``every`` one.

    Raises NotHere when there is no argument, or no difference.
    """
    given, name = call.host[index], call.row.params[index].name
    if given is None:
        raise NotHere(f"{name} is not given")
    arrays = list(given) if isinstance(given, tuple) else [given]
    if not is_read(call, index):
        raise NotHere(f"{name} is only written", by_rule=True)
    here: NotHere | None = NotHere(f"{name} has these values already")
    for at in reversed(range(len(arrays))):
        try:
            new = np.ascontiguousarray(change(arrays[at]), dtype=arrays[at].dtype).reshape(arrays[at].shape)
        except NotHere as why:
            here = here and why
            continue
        if new.tobytes() != np.ascontiguousarray(arrays[at]).tobytes():
            arrays[at], here = new, None
            if not every:
                break
    if here is not None:
        raise here
    return tuple(arrays) if isinstance(given, tuple) else arrays[0]


def with_arguments(call: Call, replaced: Mapping[int, Any]) -> Callable[..., Any]:
    """Return the op with other arguments: host arrays by index, or values that are no tensors.

    What the op writes in place gets its new elements where it lies.
    """
    import infinitrain as it

    right, row = call.op, call.row

    def op(*args: Any, **options: Any) -> Any:
        given = list(args)
        for index, value in replaced.items():
            many = isinstance(given[index], tuple | list) and row.params[index].kind == "list"
            if index in row.write_index:
                for tensor, array in (
                    zip(given[index], value, strict=True) if many else [(given[index], value)]
                ):
                    write(tensor, array)
            elif many:
                given[index] = tuple(it.from_numpy(array, call.device) for array in value)
            else:
                given[index] = it.from_numpy(value, call.device) if isinstance(value, np.ndarray) else value
        return right(*given, **options)

    return op


def targets(call: Call, result: str) -> list[str]:
    """Return the names under which a call knows a declared result or written parameter: one, or a list's."""
    names = call.names() if call.row.results else list(call.written())
    base = result.removeprefix("*")
    return [name for name in names if name == base or name.startswith(f"{base}[")]


def sizes(call: Call) -> dict[str, int]:
    """Return the number of elements of each result or written parameter."""
    if not call.row.results:
        return {name: tensor.numel for name, tensor in call.written().items()}
    return {n: int(np.prod(s, dtype=np.int64)) for n, (s, _) in zip(call.names(), call.specs(), strict=True)}


def dtypes_of(call: Call, result: str) -> list[Any]:
    """Return the dtypes of a declared result or written parameter: one, or a list's."""
    if not call.row.results:
        return [call.written()[name].dtype for name in targets(call, result)]
    kinds = {name: dtype for name, (_, dtype) in zip(call.names(), call.specs(), strict=True)}
    return [kinds[name] for name in targets(call, result)]


def last_target(call: Call, result: str) -> str:
    """Return the last of a result's tensors that has elements. Raises NotHere."""
    counts = sizes(call)
    found = [name for name in targets(call, result) if counts[name]]
    if not found:
        raise NotHere(f"{result.removeprefix('*')} is empty")
    return found[-1]


def with_result(call: Call, name: str, spoil: Spoil) -> Callable[..., Any]:
    """Return the op with one result spoilt: in its destination, or in a new tensor where there is none."""
    import infinitrain as it

    right, row = call.op, call.row

    def op(*args: Any, out: Any = None, **options: Any) -> Any:
        if not row.results:
            tensor = call.written()[name]
            before = host(tensor)
            right(*args, **options)
            return write(tensor, spoil(name, host(tensor), before))
        at = call.names().index(name)
        if out is not None:
            tensor = out[at] if isinstance(out, tuple) else out
            before = host(tensor)
            got = right(*args, out=out, **options)
            write(tensor, spoil(name, host(tensor), before))
            return got
        got = right(*args, **options)
        many = got if isinstance(got, tuple) else (got,)
        new = it.from_numpy(spoil(name, host(many[at]), None), call.device)
        return (*many[:at], new, *many[at + 1 :]) if isinstance(got, tuple) else new

    return op


def flip_bit(array: np.ndarray, position: int) -> np.ndarray:
    """Return a copy in which the lowest bit of one element is the other."""
    new = np.array(array, order="C")
    new.reshape(-1).view(np.uint8)[position * new.itemsize] ^= 1
    return new
