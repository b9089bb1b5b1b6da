"""Who takes part: programs with their options and environments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from _worker import Worker

TUNED = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
"""glibc keeps what is freed and gives it out again."""


@dataclass(frozen=True)
class Contender:
    """A training program. Of those in float32 the losses must agree."""

    program: str
    about: str
    options: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    float32: bool = True

    def start(self, threads: int) -> Worker:
        """Return its process, with a pool of ``threads`` threads."""
        threads = self.options.get("threads", threads)
        env = {**_threads(threads, self.program.endswith("_torch")), **self.env}
        return Worker(self.program, env, {**self.options, "threads": threads})


def _threads(count: int, torch: bool) -> dict[str, str]:
    if torch:
        return {"OMP_NUM_THREADS": str(count), "MKL_NUM_THREADS": str(count)}
    return {"INFINITRAIN_NUM_THREADS": str(count)}


def _tuned(name: str, contender: Contender) -> dict[str, Contender]:
    tuned = Contender(
        contender.program, contender.about + ", tuned allocator", contender.options, TUNED, contender.float32
    )
    return {name: contender, f"{name}-malloc": tuned}


CONTENDERS = {
    "ours": Contender("_ours", "infinitrain"),
    **_tuned("eager", Contender("_torch", "torch eager")),
    **_tuned("compile", Contender("_torch", "torch.compile", {"compile": True})),
    "ours-no-numba": Contender("_ours", "infinitrain without Numba", env={"INFINITRAIN_NUMBA": "0"}),
    **_tuned("bf16", Contender("_torch", "torch eager, bf16 autocast", {"bf16": True}, float32=False)),
}
TORCH = ("eager", "eager-malloc", "compile", "compile-malloc")
"""Those in float32, of which the best counts."""


def disagreement(losses: Mapping[str, list[float]], tolerance: float) -> str | None:
    """Tell which of the first losses differ by more than ``tolerance``, relative to the first contender's."""
    (first, expected), *others = losses.items()
    wrong = [
        f"loss {i}: {name} {b:.7g}, {first} {a:.7g}, relative difference {abs(a - b) / abs(a):.2g}"
        for name, found in others
        for i, (a, b) in enumerate(zip(expected, found, strict=True))
        if not abs(a - b) <= tolerance * abs(a)
    ]
    return "\n".join(wrong) or None


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that no contender has."""
    return [name for name in names if name not in CONTENDERS]
