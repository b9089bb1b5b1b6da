"""What the CPU backend promises against PyTorch, by shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Gate:
    """``least`` (or ``most``) for a value of a result; of a ratio of speeds the lower end of the interval counts."""

    value: str
    least: float | None = None
    most: float | None = None
    goal: float | None = None

    def check(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the gate with what was measured, and whether it is met: None when it was not measured."""
        found = result[self.value]
        if found is not None and self.value in result["interval"] and self.value != "share_of_sgemm_limit":
            found = result["interval"][self.value][0]
        met = None
        if found is not None:
            met = found >= self.least if self.least is not None else found <= self.most
        return {**asdict(self), "measured": found, "met": met}


def _speed(compile: tuple[float, float | None], best: tuple[float, float | None]) -> list[Gate]:
    return [
        Gate("ratio_vs_compile", least=compile[0], goal=compile[1]),
        Gate("ratio_vs_best_torch", least=best[0], goal=best[1]),
    ]


GATES = {
    "gpt2-124m-256": [
        *_speed((1.3, 1.5), (1.05, 1.25)),
        Gate("ratio_rss", most=0.88),
        Gate("share_of_sgemm_limit", least=0.80),
    ],
    "gpt2-124m-1024": [
        *_speed((1.3, 1.5), (1.05, 1.25)),
        Gate("ratio_rss", most=0.90),
        Gate("share_of_sgemm_limit", least=0.88),
    ],
    "llama-125m-512": [*_speed((1.2, 1.4), (1.05, 1.2)), Gate("ratio_rss", most=0.90)],
    "tiny-128": _speed((1.25, 1.5), (1.15, None)),
    "micro": _speed((3, 5), (3, None)),
}
