"""A case's arguments on the device, and the ways to run its op on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .cases import As, Built, Data, Stat
from .oracles import Want

PAD: Final = 3
"""Elements before and after a tensor inside a larger buffer: a kernel may rely on element alignment only."""


class Wanted:
    """What the oracle wants of a call: asked once, as it may cost more than the op."""

    def __init__(self, oracle: Callable[..., dict[str, Want]], args: tuple[Any, ...]) -> None:
        self.of, self.args = oracle, args
        self._found: dict[str, Want] | None = None

    def __call__(self) -> dict[str, Want]:
        """Return a copy, whose entries may be replaced."""
        if self._found is None:
            self._found = self.of(*self.args)
        return dict(self._found)


class Call:
    """A case on the device. ``op`` runs it; a test of the suite itself may put something wrong there.

    With ``offset`` every argument is a view that starts ``PAD`` elements into a larger buffer.
    """

    def __init__(self, op: str, built: Built, data: Data, device: Any, *, offset: bool = False) -> None:
        from infinitrain.backend import OPS

        self.row, self.data, self.device, self.built = OPS[op], data, device, built
        self.op: Callable[..., Any] = self.row.call
        self.offset = offset
        self._bases: list[tuple[str, Any, np.ndarray]] = []
        self.args: list[Any] = []
        self.host: list[Any] = []
        oracle_args: list[Any] = []
        for p, value in zip(self.row.params, built.args, strict=True):
            parts = value if isinstance(value, tuple) and any(map(_is_array, value)) else (value,)
            made = [self._place(p.name, part) for part in parts]
            device_side, host_side, oracle_side = ([m[i] for m in made] for i in range(3))
            is_list = parts is value
            self.args.append(tuple(device_side) if is_list else device_side[0])
            self.host.append(tuple(host_side) if is_list else host_side[0])
            oracle_args.append(tuple(oracle_side) if is_list else oracle_side[0])
        self.want = Wanted(built.oracle, tuple(oracle_args))

    def _place(self, name: str, value: Any) -> tuple[Any, Any, Any]:
        """Return an argument for the device, the host's copy of it, and what the oracle gets."""
        import infinitrain as it
        from infinitrain.backend import TensorSpec
        from infinitrain.dtype import as_dtype, float32, float64

        dtype = self.data.dtype
        if isinstance(value, Stat):
            value, dtype = value.value, float64 if dtype is float64 else float32
        elif isinstance(value, As):
            value, dtype = value.value, as_dtype(value.dtype)
        if not isinstance(value, np.ndarray):
            return value, None, value
        array = value.astype(dtype.numpy) if value.dtype == np.float64 else value
        oracle = array.astype(np.float64) if value.dtype == np.float64 else array
        if not self.offset:
            return it.from_numpy(array, self.device), array, oracle
        kind = as_dtype(array.dtype)
        whole = poison(kind, (array.size + 2 * PAD,))
        whole[PAD : PAD + array.size] = array.reshape(-1)
        base = it.from_numpy(whole, self.device)
        self._bases.append((name, base, whole))
        spec = TensorSpec.of(array.shape, kind, self.device)
        return base.view_as(spec, PAD * kind.itemsize), array, oracle

    def specs(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return what ``infer`` says of the results."""
        return [(tuple(shape), dtype) for shape, dtype in self.row.infer(*self.args)]

    def names(self) -> list[str]:
        """Return the names of the results."""
        return [self.row.result_name(i) for i in range(len(self.specs()))]

    def run(self, **options: Any) -> dict[str, Any]:
        """Run the op; results by name, or what it wrote in place."""
        got = self.op(*self.args, **options)
        if not self.row.results:
            return self.written()
        return dict(zip(self.names(), got if isinstance(got, tuple) else (got,), strict=True))

    def written(self) -> dict[str, Any]:
        """Return the arguments that the op writes, by name."""
        found: dict[str, Any] = {}
        for index in self.row.write_index:
            name, value = self.row.param_names[index], self.args[index]
            if isinstance(value, tuple):
                found |= {f"{name}[{i}]": t for i, t in enumerate(value)}
            else:
                found[name] = value
        return found

    def into(
        self,
        prefill: dict[str, np.ndarray] | None = None,
        dtypes: dict[str, Any] | None = None,
        only: str | None = None,
    ) -> Destinations:
        """Run the op into views of larger buffers: poisoned ones, or, with ``prefill``, to be added to.

        ``only`` one result gets a destination, and ``accumulate=True`` is said of all.
        """
        targets = Destinations(self, prefill or {}, dtypes or {})
        if only is not None:
            alone = tuple(view if name == only else None for name, view in targets.views.items())
            targets.returned = self.op(*self.args, out=alone, accumulate=True)
            return targets
        outs, flags = tuple(targets.views.values()), tuple(name in targets.prefill for name in targets.views)
        if len(outs) == 1:
            got = self.op(*self.args, out=outs[0], accumulate=flags[0])
        elif any(flags):
            got = self.op(*self.args, out=outs, accumulate=flags)
        else:
            got = self.op(*self.args, out=outs)
        targets.returned = got if isinstance(got, tuple) else (got,)
        return targets

    def changed_inputs(self) -> list[str]:
        """Return the names of arguments that the op may not write, and whose bytes differ from what was given; and
        what was written beside any argument.
        """
        changed = []
        for index, (p, given, host) in enumerate(zip(self.row.params, self.args, self.host, strict=True)):
            if index in self.row.write_index:
                continue
            pairs = zip(given, host, strict=True) if isinstance(host, tuple) else [(given, host)]
            for tensor, array in pairs:
                if array is not None and tensor.numpy().tobytes() != np.ascontiguousarray(array).tobytes():
                    changed.append(p.name)
        for name, base, whole in self._bases:
            now = base.numpy()
            if any(now[m].tobytes() != whole[m].tobytes() for m in (slice(PAD), slice(-PAD, None))):
                changed.append(f"{name} (memory beside it)")
        return changed


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | Stat | As)


def poison(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return what destinations hold before: NaN, or a value that no case produces."""
    fill: Any = np.nan if dtype.is_floating else (True if dtype.name == "bool" else 77)
    return np.full(shape, fill).astype(dtype.numpy)


class Destinations:
    """Views inside larger buffers whose margins must not change."""

    def __init__(self, call: Call, prefill: dict[str, np.ndarray], dtypes: dict[str, Any]) -> None:
        import infinitrain as it
        from infinitrain.backend import TensorSpec

        self.prefill, self.views, self._bases = prefill, {}, {}
        self.returned: tuple[Any, ...] = ()
        for name, (shape, dtype) in zip(call.names(), call.specs(), strict=True):
            dtype = dtypes.get(name, dtype)
            count = int(np.prod(shape, dtype=np.int64))
            host = poison(dtype, (count + 2 * PAD,))
            if dtype.is_floating:
                host[:PAD], host[PAD + count :] = 3.0, 5.0
            if name in prefill:
                host[PAD : PAD + count] = prefill[name].reshape(-1).astype(dtype.numpy)
            base = it.from_numpy(host, call.device)
            self._bases[name] = (base, host, count)
            self.views[name] = base.view_as(TensorSpec.of(shape, dtype, call.device), PAD * dtype.itemsize)

    def disturbed(self) -> list[str]:
        """Return which margins were written to."""
        found = []
        for name, (base, host, count) in self._bases.items():
            now = base.numpy()
            for where, part in (("before", slice(PAD)), ("after", slice(PAD + count, None))):
                if now[part].tobytes() != host[part].tobytes():
                    found.append(
                        f"{name}: the {PAD} elements {where} the destination changed to {now[part].tolist()}"
                    )
        return found
