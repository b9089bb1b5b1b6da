"""Will the model fit? Asked before it is built, because a machine that swaps answers nobody."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from .config import Config
from .errors import UsageError
from .presets import PRESETS

_BYTES_PER_LAYER = 1 << 16  # Python objects, whatever the width


def check_size(config: Config, *, on_host: bool, available: int | None = None) -> None:
    """Refuse a model that needs more than `available` bytes of host memory (default: what is free now).

    Counted are weights, gradients and what the optimizer keeps, in float32; with `on_host` false only the
    weights, which are made on the host. Activations come on top.

    Raises:
        UsageError: it does not fit.
    """
    model, optimisation = config.model, config.optimisation
    assert model.n_layer is not None
    assert model.n_embd is not None
    assert model.vocab_size is not None
    rows = model.vocab_size + PRESETS[model.model].shape.block_size + 12 * model.n_embd * model.n_layer
    parameters = rows * model.n_embd
    kept = {"adamw": 2, "sgd": 1 if optimisation.momentum else 0}[optimisation.optimizer]
    needed = parameters * 4 * (2 + kept if on_host else 1) + model.n_layer * _BYTES_PER_LAYER
    available = available_memory() if available is None else available
    if available is not None and needed > available:
        raise UsageError(
            f"a model of {parameters / 1e6:.3g} million parameters takes {needed / 2**30:.3g} GiB, "
            f"{available / 2**30:.3g} GiB of memory are free; use a smaller --n_layer, --n_embd or --vocab_size"
        )


def available_memory() -> int | None:
    """Return the bytes that this process can still get, None where the system does not tell (only Linux)."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(int(next(x for x in lines if x.startswith("MemAvailable:")).split()[1]) * 1024)
    with suppress(OSError, ValueError):  # a container's limit; "max" is none
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found, default=None)
