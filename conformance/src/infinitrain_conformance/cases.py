"""A case of an op: how its arguments are made, and what the oracle wants; and how an op is run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from .oracles import Want

HALF_AND_SINGLE: Final = ("float32", "bfloat16", "float16")
PAD: Final = 3
"""Elements before and after a destination inside a larger buffer: a kernel may rely on element alignment
only.
"""


class Data:
    """Random arguments in one dtype. Arrays are float64, already rounded to it."""

    def __init__(self, seed: int, dtype: str) -> None:
        from infinitrain.dtype import as_dtype

        self.rng = np.random.default_rng(seed)
        self.dtype: Any = as_dtype(dtype)

    @property
    def big(self) -> float:
        """A scale that squares without overflow in float32 accumulators, and that float16 can hold."""
        return 40.0 if self.dtype.name == "float16" else 1e4

    def round(self, x: Any) -> np.ndarray:
        """Return x as the dtype can hold it."""
        rounded: np.ndarray = np.asarray(x, np.float64).astype(self.dtype.numpy).astype(np.float64)
        return rounded

    def normal(self, *shape: int, mean: Any = 0.0, scale: Any = 1.0) -> np.ndarray:
        return self.round(mean + scale * self.rng.standard_normal(shape))

    def like(self, x: np.ndarray, strength: float = 0.8) -> np.ndarray:
        """Return a gradient that is correlated with x: an independent one hides a missing term."""
        spread = x.std() or 1.0
        return self.round(
            strength * (x - x.mean()) / spread + (1 - strength) * self.rng.standard_normal(x.shape)
        )


@dataclass(frozen=True)
class Stat:
    """An argument of the statistics' dtype: float32, float64 beside float64."""

    value: np.ndarray


@dataclass(frozen=True)
class Built:
    """Arguments (float64 arrays, ``Stat``, integer arrays, numbers, None) and the oracle over them."""

    args: tuple[Any, ...]
    oracle: Callable[..., dict[str, Want]]


@dataclass(frozen=True)
class OpCase:
    """One way to call an op."""

    op: str
    name: str
    build: Callable[[Data], Built]
    level: str = "L2"
    clause: str = "4.1"
    dtypes: tuple[str, ...] = HALF_AND_SINGLE

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"


def case(
    registry: list[OpCase],
    op: str,
    name: str,
    build: Callable[..., Built],
    *args: Any,
    level: str = "L2",
    clause: str = "4.1",
    dtypes: tuple[str, ...] = HALF_AND_SINGLE,
    **kwargs: Any,
) -> None:
    """Add a case; extra arguments go to ``build`` after the data."""

    def made(data: Data) -> Built:
        return build(data, *args, **kwargs)

    registry.append(OpCase(op, name, made, level, clause, dtypes))


class Call:
    """A case's arguments on the device, and the ways to run the op on them."""

    def __init__(self, op: str, built: Built, data: Data, device: Any) -> None:
        import infinitrain as it
        from infinitrain.backend import OPS
        from infinitrain.dtype import float32, float64

        self.row, self.device, self._it = OPS[op], device, it
        statistics = float64 if data.dtype is float64 else float32
        self.args: list[Any] = []
        self.host: list[Any] = []
        oracle_args: list[Any] = []
        for value in built.args:
            dtype = statistics if isinstance(value, Stat) else data.dtype
            value = value.value if isinstance(value, Stat) else value
            if isinstance(value, np.ndarray):
                array = value.astype(dtype.numpy) if value.dtype == np.float64 else value
                self.args.append(it.from_numpy(array, device))
                self.host.append(array)
                oracle_args.append(array.astype(np.float64) if value.dtype == np.float64 else array)
            else:
                self.args.append(value)
                self.host.append(None)
                oracle_args.append(value)
        self.want = partial(built.oracle, *oracle_args)

    def specs(self) -> list[tuple[tuple[int, ...], Any]]:
        """Return what ``infer`` says of the results."""
        return [(tuple(shape), dtype) for shape, dtype in self.row.infer(*self.args)]

    def run(self, **options: Any) -> dict[str, Any]:
        """Run the op; results by name."""
        got = self.row.call(*self.args, **options)
        return dict(zip(self.row.results, got if isinstance(got, tuple) else (got,), strict=True))

    def into(
        self, prefill: dict[str, np.ndarray] | None = None, dtypes: dict[str, Any] | None = None
    ) -> Destinations:
        """Run the op into views of larger buffers: poisoned ones, or, with ``prefill``, to be added to."""
        targets = Destinations(self, prefill or {}, dtypes or {})
        outs, flags = tuple(targets.views.values()), tuple(name in targets.prefill for name in targets.views)
        if len(outs) == 1:
            got = self.row.call(*self.args, out=outs[0], accumulate=flags[0])
        elif any(flags):
            got = self.row.call(*self.args, out=outs, accumulate=flags)
        else:
            got = self.row.call(*self.args, out=outs)
        targets.returned = got if isinstance(got, tuple) else (got,)
        return targets

    def changed_inputs(self) -> list[str]:
        """Return the names of arguments whose bytes differ from what was given."""
        return [
            p.name
            for p, tensor, array in zip(self.row.params, self.args, self.host, strict=True)
            if array is not None and tensor.numpy().tobytes() != np.ascontiguousarray(array).tobytes()
        ]


def poison(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return what destinations hold before: NaN, or a value that no case produces."""
    fill: Any = np.nan if dtype.is_floating else (True if dtype.name == "bool" else 77)
    return np.full(shape, fill).astype(dtype.numpy)


class Destinations:
    """Views inside larger buffers whose margins must not change."""

    def __init__(self, call: Call, prefill: dict[str, np.ndarray], dtypes: dict[str, Any]) -> None:
        from infinitrain.backend import TensorSpec

        self.prefill, self.views, self._bases = prefill, {}, {}
        self.returned: tuple[Any, ...] = ()
        for name, (shape, dtype) in zip(call.row.results, call.specs(), strict=True):
            dtype = dtypes.get(name, dtype)
            count = int(np.prod(shape, dtype=np.int64))
            host = poison(dtype, (count + 2 * PAD,))
            if dtype.is_floating:
                host[:PAD], host[PAD + count :] = 3.0, 5.0
            if name in prefill:
                host[PAD : PAD + count] = prefill[name].reshape(-1).astype(dtype.numpy)
            base = call._it.from_numpy(host, call.device)
            self._bases[name] = (base, host, count)
            self.views[name] = base.view_as(TensorSpec.of(shape, dtype, call.device), PAD * dtype.itemsize)

    def disturbed(self) -> list[str]:
        """Return which margins were written to."""
        found = []
        for name, (base, host, count) in self._bases.items():
            now = base.numpy()
            if now[:PAD].tobytes() != host[:PAD].tobytes():
                found.append(
                    f"{name}: the {PAD} elements before the destination changed to {now[:PAD].tolist()}"
                )
            if now[PAD + count :].tobytes() != host[PAD + count :].tobytes():
                found.append(
                    f"{name}: the {PAD} elements after the destination changed to "
                    f"{now[PAD + count :].tolist()}"
                )
        return found
