"""What a registered backend is and has: for ``infinitrain ops``, the conformance suite, and tools of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..device import Device, DeviceType, type_name
from ..dtype import DType
from .capabilities import Capabilities, Option
from .discovery import distribution
from .dispatch import COMPOSITES, unmet
from .guard_impl import GROUPS, DeviceGuardImpl
from .kernels import LAYERS, Kernel, describe_callable
from .optable import DTYPES, OPS, PROFILES
from .optext import dotted
from .registration import BackendRecord, require_record
from .runtime import is_initialized

BLOCKS: Final = {
    "base": "everything: core registers no backend without them [contract 2.3]",
    "training": "dense models, such as GPT-2 and LLaMA, that call one of them",
    "moe": "mixture-of-experts models, such as Mixtral",
    "parallel": "tensor parallelism: layers that are split over several devices",
    "fused": "nothing: core composes a fused op from others, which is slower and takes more memory",
    "extra": "only what calls one of them",
}
"""What does not run where ops of a profile are missing [contract 4.2, 4.6]."""


@dataclass(frozen=True)
class KernelLayer:
    """A kernel that is there for an op: ``explicit``, ``array`` or ``composite`` [contract 4.3].

    ``dtypes`` are the names to which the provider limits it, None where it takes whatever the op takes. ``functions``
    are its kernels, ``module:name``, in the order in which they are asked whether they take a call.
    """

    name: str
    dtypes: tuple[str, ...] | None = None
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class OpSupport:
    """What a backend has for one op; ``layers`` from the highest down.

    A call gets the first of them that takes its dtypes, among those that ``INFINITRAIN_KERNELS`` does not hide.
    """

    name: str
    profile: str
    layers: tuple[KernelLayer, ...]
    needs: tuple[str, ...] = ()
    """The missing ops without which the composite, the only layer, cannot run."""

    @property
    def missing(self) -> bool:
        """True when no layer has a kernel."""
        return not self.layers

    @property
    def composed(self) -> bool:
        """True when only core's composite is there."""
        return bool(self.layers) and self.layers[0].name == "composite"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The names of the op's dtypes that some layer declares to take; a kernel may still refuse one."""
        names = [d.name for d in DTYPES[OPS[self.name].dtypes]]
        return tuple(n for n in names if any(k.dtypes is None or n in k.dtypes for k in self.layers))

    def __str__(self) -> str:
        """Return the layers, each with the dtypes to which it is limited; "-" when there is none."""
        limits = [f"({','.join(k.dtypes)})" if k.dtypes is not None else "" for k in self.layers]
        return "+".join(k.name + limit for k, limit in zip(self.layers, limits, strict=True)) or "-"


@dataclass(frozen=True)
class BackendDescription:
    """A registered backend, as far as it is known without its device."""

    name: str
    slot: DeviceType
    contract: tuple[int, int]
    """The version that it was written for."""
    distribution: str | None
    """Name and version of the installed package that offers it; None when it is built in or was injected."""
    capabilities: Capabilities | None
    """None where the provider tells only once its device is initialised [contract 2.1]."""
    options: tuple[Option, ...]
    default_autocast_dtype: DType | None
    groups: tuple[str, ...]
    """The groups of [contract 3.1] of which the runtime implements a method."""
    methods: tuple[str, ...]
    """The optional methods of the runtime that it implements."""
    collectives: bool
    ops: tuple[OpSupport, ...]
    """One for each op of the table, in its order."""

    def op(self, name: str) -> OpSupport:
        """Return what there is for op ``name``. Raises KeyError."""
        for support in self.ops:
            if support.name == name:
                return support
        raise KeyError(name)

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """The ops that no layer has, by profile; a profile of which nothing is missing is left out."""
        found = {p: tuple(o.name for o in self.ops if o.profile == p and o.missing) for p in PROFILES}
        return {profile: names for profile, names in found.items() if names}

    @property
    def blocked(self) -> dict[str, tuple[str, ...]]:
        """The ops whose only layer is a composite that cannot run, with the missing ops that it needs."""
        return {o.name: o.needs for o in self.ops if o.needs}

    @property
    def blocks(self) -> dict[str, str]:
        """What the missing ops block, in words, by profile."""
        return {profile: BLOCKS[profile] for profile in self.missing}

    @property
    def trains(self) -> bool:
        """True when nothing of the profiles ``base`` and ``training`` is missing."""
        return not {"base", "training"} & self.missing.keys()

    def as_dict(self) -> dict[str, Any]:
        """Return the description for machines: nothing but JSON's types."""
        capabilities = None
        if self.capabilities is not None:
            c = self.capabilities
            capabilities = {
                "host_visible": c.host_visible,
                "peer_copy": c.peer_copy,
                "thread_ranks": c.thread_ranks,
                "nondeterministic": list(c.nondeterministic),
            }
        autocast = self.default_autocast_dtype
        return {
            "name": self.name,
            "slot": self.slot.name,
            "contract": dotted(self.contract),
            "distribution": self.distribution,
            "capabilities": capabilities,
            "options": [
                {"name": o.name, "default": None if o.default is None else str(o.default), "help": o.help}
                for o in self.options
            ],
            "default_autocast_dtype": None if autocast is None else autocast.name,
            "groups": list(self.groups),
            "methods": list(self.methods),
            "collectives": self.collectives,
            "trains": self.trains,
            "missing": {profile: list(names) for profile, names in self.missing.items()},
            "blocks": self.blocks,
            "blocked": {op: list(needs) for op, needs in self.blocked.items()},
            "ops": {
                o.name: [
                    {"layer": k.name, "dtypes": k.dtypes and list(k.dtypes), "functions": list(k.functions)}
                    for k in o.layers
                ]
                for o in self.ops
            },
        }


def describe_backend(device: DeviceType | Device | str) -> BackendDescription:
    """Return what the backend of ``device`` (a type, a device, or a text such as ``"fake"``) is and has.

    A text that names an installed provider loads it. Kernels given as import paths are not imported, and the
    device is not initialised [contract 3.2]. Raises UnknownDeviceError for a text that names no device,
    BackendNotAvailableError for one without a backend or whose provider does not load.
    """
    type = device if isinstance(device, DeviceType) else Device.parse(device).type
    record = require_record(type)
    known = isinstance(record.registration.capabilities, Capabilities) or is_initialized(type)
    methods = [m for names in GROUPS.values() for m in names if _implements(record.runtime, m)]
    return BackendDescription(
        name=type_name(type),
        slot=type,
        contract=record.contract,
        distribution=distribution(type_name(type)),
        capabilities=record.capabilities if known else None,
        options=record.capabilities.options,
        default_autocast_dtype=record.registration.default_autocast_dtype,
        groups=tuple(group for group, names in GROUPS.items() if set(names) & set(methods)),
        methods=tuple(m for m in methods if not getattr(_base(m), "__isabstractmethod__", False)),
        collectives=record.ccl is not None,
        ops=tuple(
            OpSupport(
                row.name,
                row.profile,
                _layers(record, row.name),
                unmet(row.name, record.kernels.keys()) if row.name in COMPOSITES else (),
            )
            for row in OPS.values()
        ),
    )


def _base(method: str) -> Any:
    return getattr(DeviceGuardImpl, method)


def _implements(runtime: Any, method: str) -> bool:
    """Tell whether a runtime has a method of its own; it may also be set on the instance [contract 3.3]."""
    return getattr(runtime.__class__, method) is not _base(method) or method in vars(runtime)


def _layers(record: BackendRecord, op: str) -> tuple[KernelLayer, ...]:
    layers = record.kernels.get(op, {}) | ({"composite": (COMPOSITES[op],)} if op in COMPOSITES else {})
    return tuple(
        KernelLayer(name, _dtypes(layers[name]), tuple(describe_callable(k.fn) or "?" for k in layers[name]))
        for name in LAYERS
        if name in layers
    )


def _dtypes(kernels: tuple[Kernel, ...]) -> tuple[str, ...] | None:
    """Return what the kernels of a layer take between them; None is everything."""
    if any(kernel.dtypes is None for kernel in kernels):
        return None
    return tuple(dict.fromkeys(name for kernel in kernels for name in kernel.dtypes or ()))
