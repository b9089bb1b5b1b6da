"""The error tree. Every error carries the fields it talks about and says what to do next.

``InfiniTrainError`` is the root; what a provider or the contract is to blame for is a ``BackendError``.
Errors that Python users expect as a built-in type are that type too: ``ShapeError`` is a ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class InfiniTrainError(Exception):
    """Root of all errors raised by InfiniTrain. Keyword fields become attributes."""

    provider: str | None = None
    op: str | None = None
    device: Any = None
    dtype: Any = None

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Ranks in other processes send their errors home, and constructors take other arguments than args.
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(cls: type[InfiniTrainError], args: tuple[Any, ...], fields: dict[str, Any]) -> InfiniTrainError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class ShapeError(InfiniTrainError, ValueError):
    """Shapes of arguments do not fit an op."""


class DtypeError(InfiniTrainError, TypeError):
    """Data types of arguments do not fit an op."""


class DeviceMismatchError(InfiniTrainError, ValueError):
    """Tensors on two devices met in one op [contract 3.5]."""


class AutogradError(InfiniTrainError, RuntimeError):
    """The graph cannot be built or walked."""


class BackendError(InfiniTrainError, RuntimeError):
    """A device backend (provider) is missing, broken, or asked for something that it cannot do."""


class BackendRegistrationError(BackendError):
    """A registration was refused; ``problems`` lists every reason at once [contract 2.3]."""

    def __init__(self, provider: str, problems: Sequence[str]) -> None:
        self.provider, self.problems = provider, list(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"backend {provider!r} was not registered:{lines}")


class UnknownDeviceError(BackendError, ValueError):
    """A text names no device type [contract 1.7]. ``near`` has the known names that resemble it."""

    text: str = ""
    near: tuple[str, ...] = ()


class BackendNotAvailableError(BackendError):
    """A device type has no runtime in this process [contract 1.8]."""


class NoSuchDeviceError(BackendError):
    """A device index is beyond ``device_count()`` [contract 1.8]."""

    def __init__(self, index: int, count: int, name: str = "device") -> None:
        self.index, self.count = index, count
        have = "there is none" if count == 0 else f"there are {count} (0..{count - 1})"
        super().__init__(f"no device {name}:{index}: {have} [contract 1.8]")


class BackendInitError(BackendError):
    """``initialize`` failed; the next use tries again unless ``permanent`` [contract 3.2]."""

    permanent = False


class NoDeviceError(BackendInitError):
    """The runtime is there, a device is not."""


class MissingLibraryError(BackendInitError):
    """A native library that the provider needs was not found."""

    def __init__(self, library: str, searched: Sequence[str] = ()) -> None:
        self.library, self.searched = library, tuple(searched)
        where = f"; searched {', '.join(self.searched)}" if self.searched else ""
        super().__init__(f"library {library!r} was not found{where} [contract 3.2]")


class NotSupportedError(BackendError):
    """An optional capability that the provider does not have [contract 3.1]; ``method`` names a method."""

    method: str | None = None


class KernelNotFoundError(BackendError):
    """No layer of the provider has a kernel for an op [contract 4.6]; ``composites`` called it, the innermost first."""

    profile: str | None = None
    composites: tuple[str, ...] = ()


class UnsupportedDtypeError(BackendError, TypeError):
    """A kernel does not take this dtype [contract 4.7]."""


class UnsupportedShapeError(BackendError, ValueError):
    """A kernel does not take this shape [contract 4.7]."""


class KernelError(BackendError):
    """A kernel broke its convention: wrong result shape, closed window, aliased output [contract 4.4]."""


class OutOfMemoryError(BackendError, MemoryError):
    """Device memory is exhausted, after the cache was emptied once [contract 3.3]."""

    def __init__(self, device: Any, requested: int, free: int | None = None, held: int | None = None) -> None:
        self.device, self.requested, self.free, self.held = device, requested, free, held
        super().__init__(
            f"out of memory on {device}: asked for {mebibytes(requested)}, free {mebibytes(free)}, "
            f"held by this process {mebibytes(held)}; use a smaller batch or sequence [contract 3.3]"
        )


def mebibytes(nbytes: int | None) -> str:
    """Return a number of bytes for people; an unknown one is "n/a", never 0 [contract 3.7]."""
    return "n/a" if nbytes is None else f"{nbytes / 2**20:.1f} MiB"


class DeviceError(BackendError):
    """An error reported by the device, possibly late [contract 3.6]."""

    def __init__(self, code: int, text: str, sticky: bool = False) -> None:
        self.code, self.text, self.sticky = code, text, sticky
        tail = "; the device is unusable until the process ends" if sticky else ""
        super().__init__(f"device error {code}: {text}{tail} [contract 3.6]")


class ForkError(BackendError):
    """A device that was initialised before ``fork()`` was used in the child [contract 3.8]."""
