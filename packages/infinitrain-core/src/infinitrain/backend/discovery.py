"""Finding installed providers by entry point, and explaining a wrong device text [contract 2.8]."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from .. import device as _device
from ..device import BUILTIN_NAMES, DeviceType, type_name
from ..errors import BackendError, BackendNotAvailableError, BackendRegistrationError, UnknownDeviceError
from . import registration
from .kernels import import_path

GROUP: Final = "infinitrain.backends"
_failures: dict[str, str] = {}


def installed_backends() -> dict[str, list[Any]]:
    """Return the installed providers: name -> entry points (more than one is an error when asked for)."""
    from importlib.metadata import entry_points  # costs 20 ms: only when a name is not built in

    found: dict[str, list[Any]] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, []).append(entry)
    return found


def failed_backends() -> dict[str, str]:
    """Return the providers that failed to load in this process, with the cause as text."""
    return dict(_failures)


def load_backend(name: str, *, quiet: bool = False) -> bool:
    """Load the installed provider ``name`` unless it is registered; return whether it is registered now.

    Raises BackendNotAvailableError, cause chained, when it is installed but does not load; with ``quiet`` the
    failure is recorded only. INFINITRAIN_BACKEND_AUTOLOAD=0 turns entry points off.
    """
    if name in _registered():
        return True
    if not autoload():
        return False
    entries = installed_backends().get(name, [])
    if not entries:
        return False
    try:
        if len(entries) > 1:
            owners = " and ".join(sorted(_owner(e) for e in entries))
            raise BackendError(f"two distributions provide device {name!r}: {owners}; uninstall one")
        entries[0].load()()
        if name not in _registered():
            raise BackendError(f"its entry point {entries[0].value!r} did not register device {name!r}")
    except (Exception, SystemExit) as error:  # a provider must not end the process
        _failures[name] = f"{type(error).__name__}: {error}"
        if quiet:
            return False
        raise BackendNotAvailableError(
            f"backend {name!r} ({_owner(entries[0])}) is installed but failed to load: "
            f"{type(error).__name__}: {error} [contract 2.8]",
            provider=name,
        ) from error
    _failures.pop(name, None)
    return True


def distribution(name: str) -> str | None:
    """Return name and version of the installed package that offers device ``name``, or None."""
    entries = installed_backends().get(name, [])
    return _owner(entries[0]) if entries and entries[0].dist is not None else None


def autoload() -> bool:
    """Tell whether entry points are used at all [contract 2.8]."""
    return os.environ.get("INFINITRAIN_BACKEND_AUTOLOAD", "1") != "0"


def _registered() -> set[str]:
    return {type_name(t) for t in registration.registered_types()}


def _owner(entry: Any) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else str(entry.value)


_registrars: list[str] = []


def load_backend_module(path: str) -> None:
    """Run a registrar ``pkg.mod[:function]`` (default ``register_backend``), as ``--backend_module`` does.

    The module is looked for in the working directory too, after everything that is installed. Raises
    BackendNotAvailableError with the cause chained.
    """
    module, _, function = path.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        registrar: Callable[[], Any] = import_path(f"{module}:{function or 'register_backend'}")
        registrar()
    except (Exception, SystemExit) as error:
        _failures[path] = f"{type(error).__name__}: {error}"
        raise BackendNotAvailableError(
            f"backend module {path!r} failed to register: {type(error).__name__}: {error} [contract 2.8]",
            provider=path,
        ) from error
    _failures.pop(path, None)
    if path not in _registrars:
        _registrars.append(path)


def backend_modules() -> tuple[str, ...]:
    """Return the registrars that ``load_backend_module`` ran: what a spawned rank runs first."""
    return tuple(_registrars)


def registrar_path(registrar: Callable[[], Any]) -> str:
    """Return ``pkg.mod:function`` for ``main(register_backend=...)``, by which spawned ranks find it too.

    Raises BackendRegistrationError for a lambda, a closure, or whatever else cannot be imported by name.
    """
    path = f"{getattr(registrar, '__module__', '?')}:{getattr(registrar, '__qualname__', repr(registrar))}"
    try:
        found = import_path(path)
    except (ImportError, ValueError):
        found = None
    if found is not registrar:
        raise BackendRegistrationError(
            path,
            [
                "spawned ranks import the registrar by name; this one is a closure, a lambda or a method: "
                "give a function at the top level of a module [contract 2.8]"
            ],
        )
    return path


def situation() -> str:
    """Return one sentence: what is registered, what is installed, what failed and why [contract 1.7]."""
    registered = ", ".join(type_name(t) for t in registration.registered_types()) or "none"
    parts = [f"Registered: {registered}"]
    installed: list[str] = []
    with contextlib.suppress(Exception):
        installed = sorted(set(installed_backends()) - _registered())
    if installed:
        off = "" if autoload() else " (INFINITRAIN_BACKEND_AUTOLOAD=0)"
        parts.append(f"installed, not loaded{off}: {', '.join(installed)}")
    if _failures:
        parts.append("failed to load: " + "; ".join(f"{n} ({why})" for n, why in sorted(_failures.items())))
    return "; ".join(parts) + "."


def _unknown_device(text: str) -> UnknownDeviceError:
    name = text.partition(":")[0]
    installed: list[str] = []
    with contextlib.suppress(Exception):
        installed = list(installed_backends())
    if name in installed and not autoload():
        return UnknownDeviceError(
            f"device {name!r} is installed, but INFINITRAIN_BACKEND_AUTOLOAD=0 keeps it from loading: unset "
            "that variable, or give --backend_module pkg.mod [contract 2.8]",
            text=text,
        )
    if not name:
        return UnknownDeviceError(
            f"a device is a name with an optional index, as in cpu or cuda:0, got {text!r} [contract 1.7]",
            text=text,
        )
    known = sorted({*BUILTIN_NAMES, *_registered(), *installed})
    near = (
        [type_name(DeviceType.CUDA)] if name.lower() == "gpu" else get_close_matches(name.lower(), known, 2)
    )
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownDeviceError(
        f"unknown device {text!r}.{hint} {situation()} "
        f"Install the package that provides it, such as infinitrain-{name or 'NAME'} (entry point group {GROUP!r}), "
        "or give --backend_module pkg.mod [contract 1.7]",
        text=text,
        near=tuple(near),
    )


_device.unknown_device = _unknown_device
_device.load_provider = load_backend
