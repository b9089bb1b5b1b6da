"""Device types, devices, and the one parser of device texts [contract 1]."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

from .errors import UnknownDeviceError

MAX_INDEX: Final = 127
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


class DeviceType(enum.IntEnum):
    """The kinds of device [contract 1.1]. INVALID is never a key and never an index."""

    CPU = 0
    CUDA = 1
    PRIVATEUSE1 = 2
    INVALID = -1


BUILTIN_NAMES: Final = {"cpu": DeviceType.CPU, "cuda": DeviceType.CUDA, "privateuse1": DeviceType.PRIVATEUSE1}

# Installed by infinitrain.backend, which is above this module: the provider's name as the calling thread may
# see it (or None), what loads an installed provider by name, and what explains an unknown text.
provider_name: Callable[[], str | None] = lambda: None  # noqa: E731
load_provider: Callable[[str], object] = lambda name: None  # noqa: E731
unknown_device: Callable[[str], UnknownDeviceError] = lambda text: UnknownDeviceError(  # noqa: E731
    f"unknown device {text!r} [contract 1.4]", text=text
)


def type_name(type: DeviceType) -> str:
    """Return the name that users know: ``cpu``, ``cuda``, or the provider's, else ``privateuse1``."""
    if type is DeviceType.PRIVATEUSE1:
        return provider_name() or "privateuse1"
    return type.name.lower()


class Device:
    """A device: a type and an index in 0..127. Immutable; one object per value, so ``is`` and ``==`` agree.

    >>> Device(DeviceType.CPU)
    Device(cpu, 0)
    >>> Device.parse("cuda:1").index
    1
    """

    __slots__ = ("index", "type")
    type: DeviceType
    index: int
    _all: ClassVar[dict[tuple[DeviceType, int], Device]] = {}

    def __new__(cls, type: DeviceType | str, index: int = 0) -> Device:
        if isinstance(type, str):
            type = cls.parse_type(type)
        if not isinstance(type, DeviceType) or type is DeviceType.INVALID:
            raise ValueError(f"a device needs a valid DeviceType, got {type!r} [contract 1.1]")
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(f"a device index is an int, got {index!r} [contract 1.2]")
        if not 0 <= index <= MAX_INDEX:
            raise ValueError(f"a device index is in 0..{MAX_INDEX}, got {index} [contract 1.2]")
        if type is DeviceType.CPU and index:
            raise ValueError(f"a CPU device has index 0 only, got {index} [contract 1.2]")
        device = cls._all.get((type, index))
        if device is None:
            device = object.__new__(cls)
            object.__setattr__(device, "type", type)
            object.__setattr__(device, "index", index)
            device = cls._all.setdefault((type, index), device)
        return device

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Device is immutable [contract 1.2]")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Device is immutable [contract 1.2]")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Device, (self.type, self.index))

    def __str__(self) -> str:
        name = type_name(self.type)
        return name if self.type is DeviceType.CPU else f"{name}:{self.index}"

    def __repr__(self) -> str:
        return f"Device({type_name(self.type)}, {self.index})"

    @staticmethod
    def parse_type(text: str) -> DeviceType:
        """Return the device type that ``text`` names exactly [contract 1.4].

        A text that equals an installed provider's entry point loads that provider first; nothing is
        initialised. Raises UnknownDeviceError (a ValueError).
        """
        if not isinstance(text, str):
            raise TypeError(f"a device type is named by a string, got {text!r} [contract 1.4]")
        if text in BUILTIN_NAMES:
            return BUILTIN_NAMES[text]
        if text != provider_name():
            load_provider(text)
        if text == provider_name():
            return DeviceType.PRIVATEUSE1
        raise unknown_device(text)

    @staticmethod
    def parse(text: Device | str) -> Device:
        """Return the device that ``text`` (``type`` or ``type:index``) names; a Device is returned as it is.

        Existence is not checked [contract 1.5]. Raises UnknownDeviceError or ValueError.
        """
        if isinstance(text, Device):
            return text
        if not isinstance(text, str):
            raise TypeError(
                f"a device is a Device or a string such as 'cpu' or 'cuda:1', got {text!r} [contract 1.5]"
            )
        name, colon, index = text.partition(":")
        if not colon:
            return Device(Device.parse_type(name))
        if not _INDEX.fullmatch(index) or int(index) > MAX_INDEX:
            raise UnknownDeviceError(
                f"device {text!r}: the index after ':' is a number in 0..{MAX_INDEX} without leading zeros "
                "[contract 1.5]",
                text=text,
            )
        return Device(Device.parse_type(name), int(index))


CPU: Final = Device(DeviceType.CPU)
