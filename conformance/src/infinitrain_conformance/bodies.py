"""What level L0 runs in fresh processes, where registration and laziness can be seen. One function, one
answer.

Run as ``python -m infinitrain_conformance.bodies BODY SPEC-AS-JSON``; prints the answer as JSON on the last
line. Nothing of infinitrain is imported before a function asks for it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Final

HEAVY: Final = ("cupy", "jax", "matplotlib", "mpi4py", "numba", "tensorflow", "torch")


def _load(spec: dict[str, Any]) -> Any:
    """Register the backend as the suite does, and return its device."""
    from .target import Spec, Target

    return Target(Spec(spec["name"], spec["module"], tuple(map(tuple, spec["options"])))).device


def _watch_runtimes() -> list[str]:
    """Note every call of a runtime's method from now on, of classes that exist and of those to come."""
    from infinitrain.backend import DeviceGuardImpl

    calls: list[str] = []
    names = [
        n for n in vars(DeviceGuardImpl) if not n.startswith("_") and callable(getattr(DeviceGuardImpl, n))
    ]

    def wrap(cls: type) -> None:
        for name in names:
            inner = cls.__dict__.get(name)
            if inner is None or not callable(inner) or getattr(inner, "watched", False):
                continue

            def watched(*args: Any, _inner: Any = inner, _name: str = name, **kwargs: Any) -> Any:
                calls.append(_name)
                return _inner(*args, **kwargs)

            watched.watched = True  # type: ignore[attr-defined]
            setattr(cls, name, watched)

    def on_new(cls: Any, /, **kwargs: Any) -> None:
        wrap(cls)

    pending = list(DeviceGuardImpl.__subclasses__())
    while pending:
        cls = pending.pop()
        wrap(cls)
        pending += cls.__subclasses__()
    DeviceGuardImpl.__init_subclass__ = classmethod(on_new)  # type: ignore[assignment]
    return calls


def core_alone(spec: dict[str, Any]) -> dict[str, Any]:
    """Import core and use the CPU: is the provider's package loaded by that?"""
    import infinitrain as it

    total = float(it.ones(3).numpy().sum())
    packages = {
        e.value.partition(":")[0].partition(".")[0]
        for e in it.backend.installed_backends().get(spec["name"], [])
    }
    return {"sum": total, "loaded": sorted(packages & set(sys.modules)), "heavy": _heavy()}


def _heavy() -> list[str]:
    return sorted(set(HEAVY) & set(sys.modules))


def lazy(spec: dict[str, Any]) -> dict[str, Any]:
    """Register, parse, print: no method of the runtime is called, nothing heavy is imported."""
    import infinitrain as it
    from infinitrain.device import Device

    calls = _watch_runtimes()
    device = _load(spec)
    texts = [str(device), repr(device)]
    for text in (spec["name"], f"{spec['type']}:0", f"{spec['type']}:7"):
        if text.startswith("cpu:7"):
            continue
        texts.append(repr(Device.parse(text)))
    it.backend.has_device_guard_impl(device.type)
    return {"calls": [c for c in calls if c not in ("type",)], "texts": texts, "heavy": _heavy()}


def first_use(spec: dict[str, Any]) -> dict[str, Any]:
    """Eight threads ask for the runtime at once: it is initialised once, before anything else."""
    from infinitrain import backend

    calls = _watch_runtimes()
    device = _load(spec)
    calls.clear()
    gate, found = threading.Barrier(8), []

    def use() -> None:
        gate.wait()
        found.append(backend.get_device_guard_impl(device.type))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "initialised": calls.count("initialize"),
        "first": calls[:1],
        "same": len(set(map(id, found))) == 1,
    }


def twice(spec: dict[str, Any]) -> dict[str, Any]:
    """Register, and register again in the same way."""
    from infinitrain import backend

    device = _load(spec)
    again = 0
    if spec["module"]:
        backend.load_backend_module(spec["module"])
        again += 1
    for entry in backend.installed_backends().get(device_name(device), []):
        entry.load()()
        again += 1
    return {"again": again, "device": str(device)}


def device_name(device: Any) -> str:
    """Return the name of a device's type."""
    return repr(device).removeprefix("Device(").partition(",")[0]


def two_threads(spec: dict[str, Any]) -> dict[str, Any]:
    """Register from four threads at once."""
    import infinitrain  # noqa: F401

    gate, names, errors = threading.Barrier(4), [], []

    def use() -> None:
        gate.wait()
        try:
            names.append(repr(_load(spec)))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"names": sorted(set(names)), "errors": errors}


def intruder(spec: dict[str, Any]) -> dict[str, Any]:
    """Another provider asks for the slot: refused with the holder's name, and nothing changes."""
    from infinitrain import backend
    from infinitrain.errors import BackendRegistrationError

    device = _load(spec)

    def nothing() -> None:
        """A callback that would register nothing."""

    message = ""
    try:
        backend.register_privateuse1_backend(
            backend.PrivateUse1BackendRegistration(
                name="conformance_intruder",
                contract=(1, 0),
                register_runtime=nothing,
                register_kernels=nothing,
            )
        )
    except BackendRegistrationError as error:
        message = str(error)
    return {"message": message, "name": backend.get_privateuse1_backend_name(), "device": repr(device)}


def autoload_off(spec: dict[str, Any]) -> dict[str, Any]:
    """INFINITRAIN_BACKEND_AUTOLOAD=0: the entry point is left alone."""
    os.environ["INFINITRAIN_BACKEND_AUTOLOAD"] = "0"
    import infinitrain as it
    from infinitrain.device import Device

    packages = {
        e.value.partition(":")[0].partition(".")[0]
        for e in it.backend.installed_backends().get(spec["type"], [])
    }
    try:
        Device.parse(spec["type"])
        message = ""
    except ValueError as error:
        message = str(error)
    return {"message": message, "loaded": sorted(packages & set(sys.modules))}


def unknown_device(spec: dict[str, Any]) -> dict[str, Any]:
    """A mistyped name: the error knows the provider, registered or installed."""
    from infinitrain.device import Device

    if spec["module"]:
        _load(spec)
    try:
        Device.parse(spec["type"] + "x")
        message = ""
    except ValueError as error:
        message = str(error)
    return {"message": message, "class": spec["type"]}


def unknown_option(spec: dict[str, Any]) -> dict[str, Any]:
    """An option that the provider does not declare: refused by name, before the device is touched."""
    from infinitrain import backend
    from infinitrain.errors import BackendError

    calls = _watch_runtimes()
    device = _load(spec)
    calls.clear()
    message = ""
    try:
        backend.set_backend_options({"conformance_no_such_option": "1"})
        backend.get_device_guard_impl(device.type)
    except BackendError as error:
        message = str(error)
    return {"message": message, "calls": calls}


def launch_options(spec: dict[str, Any]) -> dict[str, Any]:
    """Start the runtime with the given options: what does ``initialize`` get to see?"""
    from infinitrain import backend
    from infinitrain.backend import registration

    device = _load(spec)
    runtime, seen = type(registration.require_record(device.type).runtime), dict[str, str]()
    inner = runtime.initialize

    def initialize(self: Any, launch: Any) -> None:
        seen.update({name: str(value) for name, value in launch.options.items()})
        inner(self, launch)

    runtime.initialize = initialize
    backend.get_device_guard_impl(device.type)
    return {"options": seen}


def device_count(spec: dict[str, Any]) -> dict[str, Any]:
    """Start the runtime with the given options and count its devices."""
    from infinitrain import backend

    return {"count": backend.get_device_guard_impl(_load(spec).type).device_count()}


def exits(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave the process with memory, streams and unfinished work."""
    import infinitrain as it

    device = _load(spec)
    kept = [it.full((1000 + i,), i, device=device) for i in range(20)]
    exits.kept = kept  # type: ignore[attr-defined]
    runtime = it.backend.get_device_guard_impl(device.type)
    if runtime.has_streams:
        stream = runtime.create_stream()
        with it.backend.stream_scope(stream, device):
            kept.append(it.full((100_000,), 3, device=device))
        kept.append(stream)
    return {"kept": len(kept)}


def forked(spec: dict[str, Any]) -> dict[str, Any]:
    """Use the device, fork, and use it in the child."""
    import infinitrain as it
    from infinitrain.errors import ForkError

    device = _load(spec)
    kept = it.full((100,), 2.5, device=device)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            message = f"sum {float(kept.numpy().sum())}"
        except ForkError as error:
            message = f"ForkError: {error}"
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
        os.write(write, message.encode()[:4000])
        del kept
        os._exit(0)
    os.close(write)
    answer = b""
    while chunk := os.read(read, 4096):
        answer += chunk
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    visible = bool(it.backend.get_device_guard_impl(device.type).host_visible)
    return {
        "child": answer.decode(),
        "status": status,
        "host_visible": visible,
        "parent": float(kept.numpy().sum()),
    }


def main(argv: list[str]) -> None:
    """Run one body."""
    body, spec = argv
    print(json.dumps(globals()[body](json.loads(spec))))


if __name__ == "__main__":
    main(sys.argv[1:])
