"""What a run found: outcomes, counts, floors and exit codes, as text and as JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

LEVELS: Final = {
    "L0": "registration, names, parsing, laziness",
    "L1": "runtime: memory, copies, streams, threads; base ops",
    "L2": "forward ops",
    "L3": "gradients and optimizer steps",
}
OUTCOMES: Final = ("passed", "failed", "unsupported", "skipped")

CONFORMANT: Final = 0
FAILURES: Final = 1
USAGE: Final = 2
NO_BACKEND: Final = 3
NOTHING_RAN: Final = 4
NO_DEVICE: Final = 6
SCHEMA: Final = 1
"""Version of the JSON report; raised when a field changes its meaning or goes away."""


@dataclass(frozen=True)
class Case:
    """One test as selected: ``floor`` is True where no provider may decline it."""

    id: str
    level: str
    clause: str
    op: str | None = None
    floor: bool = False


@dataclass(frozen=True)
class Result:
    """What became of one test. ``message`` is the failure, or why it was unsupported or skipped."""

    id: str
    outcome: str
    seconds: float = 0.0
    message: str = ""


@dataclass
class Report:
    """Everything that a run found."""

    facts: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, Case] = field(default_factory=dict)
    results: dict[str, Result] = field(default_factory=dict)
    abort: tuple[int, str] | None = None  # exit code and what is known
    no_device: str | None = None
    finished: bool = False

    def read(self, events: Iterable[Mapping[str, Any]]) -> Report:
        """Add the events of a journal; returns itself."""
        for event in events:
            kind = event["event"]
            if kind == "facts":
                self.facts |= event["facts"]
            elif kind == "selected":
                self.cases |= {case["id"]: Case(**case) for case in event["cases"]}
            elif kind == "result":
                self.results[event["result"]["id"]] = Result(**event["result"])
            elif kind == "abort":
                self.abort = (event["code"], event["message"])
            elif kind == "no_device":
                self.no_device = event["message"]
            elif kind == "end":
                self.finished = True
        return self

    def count(self, outcome: str, level: str | None = None) -> int:
        """Return how many tests had ``outcome``."""
        return sum(
            result.outcome == outcome and (level is None or self.cases[result.id].level == level)
            for result in self.results.values()
        )

    @property
    def ran(self) -> int:
        """Tests that were executed to an answer: neither unsupported nor skipped."""
        return self.count("passed") + self.count("failed")

    @property
    def floor(self) -> int:
        """Tests of the selection that every provider has to run."""
        return sum(case.floor for case in self.cases.values())

    @property
    def below_floor(self) -> list[str]:
        """Ids of tests that no provider may decline, and that were not executed."""
        done = {r.id for r in self.results.values() if r.outcome in ("passed", "failed")}
        return [case.id for case in self.cases.values() if case.floor and case.id not in done]

    @property
    def exit_code(self) -> int:
        if self.abort is not None:
            return self.abort[0]
        if self.count("failed"):
            return FAILURES
        if self.no_device is not None:
            return NO_DEVICE
        if not self.ran:
            return NOTHING_RAN
        return FAILURES if self.below_floor else CONFORMANT

    def lines(self) -> list[str]:
        """Return the summary for people."""
        facts = self.facts
        provider = facts.get("provider", {})
        out = [
            f"infinitrain-conformance {facts.get('suite', '?')}, infinitrain-core {facts.get('core', '?')} "
            f"(contract {facts.get('core_contract', '?')}), Python {facts.get('python', '?')}, "
            f"NumPy {facts.get('numpy', '?')}",
        ]
        if provider:
            host = ", host memory" if provider.get("host_visible") else ""
            out.append(
                f"provider {provider['name']} ({provider.get('distribution', 'built in')}), "
                f"slot {provider['slot']}, contract {provider.get('contract', '?')}, "
                f"device {provider.get('describe', 'not touched')}{host}"
            )
        if self.abort is not None:
            return [*out, *self.abort[1].splitlines()]
        out += self._declined()
        out.append(f"{'level':6} {'passed':>7} {'failed':>7} {'unsupported':>12} {'skipped':>8}")
        for level, text in LEVELS.items():
            if any(case.level == level for case in self.cases.values()):
                passed, failed, unsupported, skipped = (self.count(o, level) for o in OUTCOMES)
                out.append(f"{level:6} {passed:7} {failed:7} {unsupported:12} {skipped:8}   {text}")
        if self.no_device is not None:
            out.append(f"no device: {self.no_device}")
        if self.below_floor and not self.no_device:
            out += [f"not run, and no provider may decline it: {name}" for name in self.below_floor[:5]]
            if len(self.below_floor) > 5:
                out.append(f"... and {len(self.below_floor) - 5} more; --json FILE has all of them")
        out.append(
            f"ran {self.ran} of {len(self.cases)} (floor {self.floor}), {self.count('failed')} failed, "
            f"seed {facts.get('seed', 0)}: {self._verdict()}"
        )
        return out

    def _declined(self) -> list[str]:
        missing = self.facts.get("missing_kernels", {})
        if not any(case.op for case in self.cases.values()):
            return []  # no test of an op was asked for
        return [f"no kernel in profile {profile}: {', '.join(ops)}" for profile, ops in missing.items()]

    def _verdict(self) -> str:
        return {
            CONFORMANT: "conformant on what it ran",
            FAILURES: "not conformant",
            NO_DEVICE: "no device, so L0 only",
            NOTHING_RAN: "nothing ran, which proves nothing",
        }.get(self.exit_code, "stopped")

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable report."""
        levels = {case.level for case in self.cases.values()}
        tests = []
        for name, case in self.cases.items():
            result = self.results.get(name, Result(name, "skipped", 0.0, "not run"))
            tests.append(asdict(case) | asdict(result))
        return {
            "schema": SCHEMA,
            **self.facts,
            "summary": {
                "ran": self.ran,
                "selected": len(self.cases),
                "floor": self.floor,
                "below_floor": self.below_floor,
                "levels": {lv: {o: self.count(o, lv) for o in OUTCOMES} for lv in LEVELS if lv in levels},
                "no_device": self.no_device,
                "abort": self.abort[1] if self.abort else None,
                "exit_code": self.exit_code,
            },
            "tests": tests,
        }

    def write(self, path: Path) -> None:
        """Write the JSON report: the whole of it, or the old file stays."""
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self.to_json(), file, indent=1)
                file.write("\n")
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
