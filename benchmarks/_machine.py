"""What a result must say of the machine and the versions that it comes from."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "numba", "tbb", "torch")


def machine(threads: int) -> dict[str, Any]:
    """Return processor, memory, versions, threads and the load of the last minute."""
    return {
        "cpu": _model(),
        "cores": os.cpu_count(),
        "memory_gib": round(_meminfo("MemTotal") / 2**30, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "threads": threads,
        "load_before": round(os.getloadavg()[0], 2),
    }


def available_memory() -> int:
    """Return the bytes that programs can still get without swapping."""
    return _meminfo("MemAvailable")


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/meminfo has no {name}")


def _model() -> str:
    first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    fields = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first.splitlines())
    }
    name = fields.get("model name", platform.machine())
    family = f", family {fields['cpu family']} model {fields['model']}" if "cpu family" in fields else ""
    return name + family


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
