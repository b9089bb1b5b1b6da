"""Finding installed providers by entry point, and saying what is known when a device text is wrong [contract 2.8]."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from .. import device as _device
from ..device import BUILTIN_NAMES, type_name
from ..errors import BackendError, BackendNotAvailableError, UnknownDeviceError
from . import registration

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

    Raises BackendNotAvailableError, cause chained, when it is installed but does not load; with ``quiet`` the failure
    is recorded only.
    """
    if registration.has_privateuse1_backend() and registration.get_privateuse1_backend_name() == name:
        return True
    if os.environ.get("INFINITRAIN_BACKEND_AUTOLOAD", "1") == "0":
        return False
    entries = installed_backends().get(name, [])
    if not entries:
        return False
    try:
        if len(entries) > 1:
            owners = " and ".join(sorted(_owner(e) for e in entries))
            raise BackendError(f"two distributions provide device {name!r}: {owners}; uninstall one")
        entries[0].load()()
        held = registration.get_privateuse1_backend_name()
        if held != name:
            raise BackendError(f"its entry point registered {held!r} instead of {name!r}")
    except Exception as error:
        _failures[name] = f"{type(error).__name__}: {error}"
        if quiet:
            return False
        raise BackendNotAvailableError(
            f"backend {name!r} ({_owner(entries[0])}) is installed but failed to load: {error} [contract 2.8]",
            provider=name,
        ) from error
    _failures.pop(name, None)
    return True


def _owner(entry: Any) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def load_backend_module(path: str) -> None:
    """Run a registrar ``pkg.mod[:function]`` (default function ``register_backend``), as ``--backend_module`` does.

    Raises BackendNotAvailableError with the cause chained.
    """
    module, _, function = path.partition(":")
    try:
        registrar: Callable[[], Any] = getattr(importlib.import_module(module), function or "register_backend")
        registrar()
    except Exception as error:
        _failures[path] = f"{type(error).__name__}: {error}"
        raise BackendNotAvailableError(
            f"backend module {path!r} failed to register: {type(error).__name__}: {error} [contract 2.8]",
            provider=path,
        ) from error


def situation() -> str:
    """Return one sentence: devices registered, providers installed, providers that failed and why [contract 1.7]."""
    registered = ", ".join(type_name(t) for t in registration.registered_types()) or "none"
    parts = [f"Registered: {registered}"]
    installed: list[str] = []
    with contextlib.suppress(Exception):
        installed = sorted(set(installed_backends()) - {type_name(t) for t in registration.registered_types()})
    if installed:
        parts.append(f"installed, not loaded: {', '.join(installed)}")
    if _failures:
        parts.append("failed to load: " + "; ".join(f"{n} ({why})" for n, why in sorted(_failures.items())))
    return "; ".join(parts) + "."


def _unknown_device(text: str) -> UnknownDeviceError:
    name = text.partition(":")[0]
    known = sorted(set(BUILTIN_NAMES) | {type_name(t) for t in registration.registered_types()})
    with contextlib.suppress(Exception):
        known = sorted({*known, *installed_backends()})
    near = get_close_matches(name, known, 2)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownDeviceError(
        f"unknown device {text!r}.{hint} {situation()} "
        f"Install the package that provides it (entry point group {GROUP!r}) or give --backend_module pkg.mod "
        "[contract 1.7]",
        text=text,
        near=tuple(near),
    )


_device.unknown_device = _unknown_device
_device.load_provider = load_backend
