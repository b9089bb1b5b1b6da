"""Autocast: in a region, ops compute in the precision that suits them, whatever dtype their inputs have [contract 5].

Function.apply asks ``cast_arguments`` once per call. A cast is no graph node: the graph's edges come from the original
arguments, and the engine returns gradients in the arguments' own dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final
from weakref import ref

from ..backend import registration
from ..backend.optable import OPS
from ..device import Device, DeviceType, type_name
from ..dtype import DType, as_dtype, bfloat16, float16, float32, float64
from ..errors import DtypeError
from ..tensor import Tensor
from .grad_mode import state

DTYPES: Final = (float16, bfloat16, float32)
CASTING: Final = ("lower", "float32")
"""The policies that cast. ``widest`` is what such an op does by itself, in and out of a region."""
_DEFAULTS: Final = {DeviceType.CPU: bfloat16, DeviceType.CUDA: float16}


class Region:
    """What holds on a thread: the dtype of each device type that is on, and the casts of weights made so far."""

    __slots__ = ("cache", "dtypes")

    def __init__(self, dtypes: Mapping[DeviceType, DType], cache: dict[Any, Any]) -> None:
        self.dtypes, self.cache = dtypes, cache

    def cast(self, x: Tensor, dtype: DType) -> Any:
        """Return x in ``dtype``, outside the graph; of a weight once per version."""
        # Leaves only: another tensor's cast would live as long as the tensor. A frozen parameter wants no gradient.
        if x._node is not None or not (x._requires_grad or x.__class__ is not Tensor):
            return OPS["Cast"].call(x, dtype)
        key, version = (id(x), dtype), x.version
        held = self.cache.get(key)
        if held is not None and held[1] == version:
            return held[2]
        made, cache = OPS["Cast"].call(x, dtype), self.cache
        cache[key] = (ref(x, lambda _: cache.pop(key, None)), version, made)
        return made


def cast_arguments(
    region: Region, policy: str, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], list[DType | None] | None]:
    """Return a call's arguments as its op's policy wants them, and what dtype each one had that was cast (or None).

    A call with a float64 argument is left as it is: float64 is never cast, and would not go with the others.
    """
    for a in args:
        if isinstance(a, Tensor) and a.spec.dtype is float64:
            return args, None
    was: list[DType | None] | None = None
    given: list[Any] = []
    for i, a in enumerate(args):
        if isinstance(a, Tensor) and a.spec.is_floating:
            dtype = region.dtypes.get(a.spec.device.type)
            if dtype is not None:
                dtype = dtype if policy == "lower" else float32
                if a.spec.dtype is not dtype:
                    if was is None:
                        was, given = [None] * len(args), list(args)
                    was[i], given[i] = a.spec.dtype, region.cast(a, dtype)
    return (args, None) if was is None else (tuple(given), was)


class autocast:
    """``with autocast("cpu"):`` lets ops on that type of device compute in ``dtype`` where precision allows it.

    ``device_type`` is a device, a device type, or the text of one (an index is accepted, its type counts). ``dtype`` is
    float16, bfloat16 or float32 (ops of the lower class then compute in float32 even of half-precision weights);
    without it CPU uses bfloat16, CUDA float16, a provider's device what the provider declared. ``enabled=False`` turns
    autocast off inside. Works as a decorator, nests, and holds for this thread. Each op's class is in docs/ops.md.

    Run forward and loss inside, ``backward()`` outside or inside: it is never autocast. Raises DtypeError,
    UnknownDeviceError.

    >>> import infinitrain as it
    >>> weight = it.ones(3, 2, requires_grad=True)
    >>> with it.autocast("cpu"):
    ...     y = it.ops.linear(it.ones(4, 2), weight)
    >>> y.dtype
    bfloat16
    >>> y.sum().backward()
    >>> weight.grad.dtype
    float32
    """

    def __init__(
        self,
        device_type: Device | DeviceType | str,
        dtype: DType | str | None = None,
        enabled: bool = True,
    ) -> None:
        self.type = _type_of(device_type)
        self.dtype = None if not enabled else _checked(dtype) if dtype is not None else _default(self.type)

    def __enter__(self) -> None:
        outside = state.autocast
        if outside is None:
            inside = Region(self._inside({}), {})
        else:
            inside = Region(self._inside(outside.dtypes), outside.cache)
        state.regions = (*state.regions, outside)
        state.autocast = inside

    def __exit__(self, *exc: object) -> None:
        *before, outside = state.regions
        if outside is None and state.autocast is not None:
            state.autocast.cache.clear()
        state.regions, state.autocast = tuple(before), outside

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fn(*args, **kwargs)

        return wrapped

    def _inside(self, outside: Mapping[DeviceType, DType]) -> Mapping[DeviceType, DType]:
        others = {type: dtype for type, dtype in outside.items() if type is not self.type}
        return others if self.dtype is None else {**others, self.type: self.dtype}


def is_autocast_enabled(device_type: Device | DeviceType | str) -> bool:
    """Tell whether autocast is on for a type of device, on this thread."""
    return state.autocast is not None and _type_of(device_type) in state.autocast.dtypes


def _type_of(device: Device | DeviceType | str) -> DeviceType:
    if isinstance(device, DeviceType):
        return Device(device).type  # which refuses INVALID
    return Device.parse(device).type


def _checked(dtype: DType | str) -> DType:
    found = as_dtype(dtype)
    if found not in DTYPES:
        raise DtypeError(f"autocast: dtype is float16, bfloat16 or float32, got {found} [contract 5.2]")
    return found


def _default(type: DeviceType) -> DType:
    found = _DEFAULTS.get(type)
    if found is None:
        record = registration.find_record(type)
        found = None if record is None else record.registration.default_autocast_dtype
    if found is None:
        name = type_name(type)
        raise DtypeError(
            f"autocast: device {name!r} requires an explicit dtype, as its provider declares no default: write "
            f'autocast("{name}", "bfloat16"), or give default_autocast_dtype at registration [contract 5.2]'
        )
    return found
