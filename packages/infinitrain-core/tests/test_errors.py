"""The error tree: one root, built-in types besides, fields, and the way between processes."""

import pickle

import pytest

from infinitrain import errors
from infinitrain.device import CPU
from infinitrain.errors import (
    BackendError,
    BackendInitError,
    BackendRegistrationError,
    DeviceError,
    DtypeError,
    InfiniTrainError,
    MissingLibraryError,
    NoSuchDeviceError,
    NotSupportedError,
    OutOfMemoryError,
    ShapeError,
    UnknownDeviceError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)

CLASSES = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)]
EXAMPLES = [
    ShapeError("shapes differ"),
    BackendRegistrationError("maca", ["one", "two"]),
    NoSuchDeviceError(3, 2, "maca"),
    MissingLibraryError("libmc.so", ["/opt/maca", "/usr/lib"]),
    OutOfMemoryError(CPU, 3 << 20, None, 1 << 20),
    DeviceError(719, "illegal address", sticky=True),
    NotSupportedError("no streams", provider="maca", method="wait"),
]


def test_one_root() -> None:
    assert all(issubclass(c, InfiniTrainError) for c in CLASSES)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (DtypeError, TypeError),
        (UnknownDeviceError, ValueError),
        (UnsupportedDtypeError, TypeError),
        (UnsupportedShapeError, ValueError),
        (OutOfMemoryError, MemoryError),
        (BackendError, RuntimeError),
    ],
)
def test_also_a_builtin(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)


def test_fields_become_attributes_and_default_to_none() -> None:
    error = NotSupportedError("no", provider="maca", method="wait")
    assert (error.provider, error.method, error.op, error.device) == ("maca", "wait", None, None)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_errors_travel_between_processes(error: InfiniTrainError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.__dict__ == error.__dict__


def test_registration_error_lists_every_problem() -> None:
    """[contract 2.3]"""
    error = BackendRegistrationError("maca", ["first", "second"])
    assert error.problems == ["first", "second"]
    assert str(error) == "backend 'maca' was not registered:\n  - first\n  - second"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "no device maca:3: there is none"), (2, "no device maca:3: there are 2 (0..1)")]
)
def test_no_such_device(count: int, text: str) -> None:
    """[contract 1.8]"""
    error = NoSuchDeviceError(3, count, "maca")
    assert (error.index, error.count) == (3, count)
    assert text in str(error)


def test_unknown_memory_is_not_zero() -> None:
    """[contract 3.7]"""
    assert "asked for 3.0 MiB, free n/a, held by this process 1.0 MiB" in str(EXAMPLES[4])
    assert errors.mebibytes(None) == "n/a"
    assert errors.mebibytes(0) == "0.0 MiB"


def test_missing_library_says_where_it_looked() -> None:
    """[contract 3.2]"""
    assert "'libmc.so' was not found; searched /opt/maca, /usr/lib" in str(EXAMPLES[3])
    assert "searched" not in str(MissingLibraryError("libmc.so"))


def test_sticky_device_error() -> None:
    """[contract 3.6]"""
    assert "device error 719: illegal address; the device is unusable" in str(EXAMPLES[5])
    assert "unusable" not in str(DeviceError(1, "busy"))


def test_init_errors_are_permanent_only_when_said() -> None:
    """[contract 3.2]"""
    assert not BackendInitError("driver is starting").permanent
    assert BackendInitError("no such chip", permanent=True).permanent
