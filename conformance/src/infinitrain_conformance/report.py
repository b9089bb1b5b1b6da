"""What a run found: outcomes, counts, floors and exit codes, as text and as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
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
OUTCOMES: Final = ("passed", "failed", "crashed", "xfailed", "unsupported", "skipped")
RAN: Final = ("passed", "failed", "crashed", "xfailed")
"""Outcomes of tests that were executed to an answer; ``unsupported`` and ``skipped`` are none."""

CONFORMANT: Final = 0
FAILURES: Final = 1
USAGE: Final = 2
NO_BACKEND: Final = 3
NOTHING_RAN: Final = 4
NO_DEVICE: Final = 6
INTERRUPTED: Final = 130
UNWRITABLE: Final = 74
"""What a worker ends with that cannot write its journal; the command then ends with USAGE."""
SCHEMA: Final = 2
"""Version of the JSON report; raised when a field changes its meaning or goes away."""


@dataclass(frozen=True)
class Case:
    """One test as selected. ``floor`` is True where this provider may not decline it, ``base`` for tests of base
    ops; ``dtype`` is that of an op's test.
    """

    id: str
    level: str
    clause: str
    op: str | None = None
    floor: bool = False
    base: bool = False
    dtype: str | None = None


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
    interrupted: bool = False
    problems: list[str] = field(default_factory=list)
    """What makes the run fail beside its tests: skips that nobody listed, processes that could not go on."""
    notes: list[str] = field(default_factory=list)
    """What is worth knowing and makes nothing fail, such as expected failures that do not count on this machine."""

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
            elif kind == "interrupted":
                self.interrupted = True
        return self

    def reason(self, result: Result) -> str:
        """Return why a test did not run, on one line and without the name of its op: equal where the cause is."""
        text = " ".join((result.message or "not run").partition("\n")[0].split())
        op = self.cases[result.id].op
        return re.sub(rf"\b{op}\b", "the op", text) if op else text

    def count(self, outcome: str, level: str | None = None) -> int:
        """Return how many tests had ``outcome``."""
        return sum(
            result.outcome == outcome and (level is None or self.cases[result.id].level == level)
            for result in self.results.values()
        )

    def of(self, *outcomes: str) -> list[Result]:
        """Return the results with one of the outcomes, in the order of the tests."""
        found = [self.results[name] for name in self.cases if name in self.results]
        return [result for result in found if result.outcome in outcomes]

    @property
    def ran(self) -> int:
        """Tests that were executed to an answer: neither unsupported nor skipped."""
        return sum(self.count(outcome) for outcome in RAN)

    @property
    def floor(self) -> int:
        """Tests of the selection that this provider has to run: by the contract, its devices and what it declares."""
        return sum(case.floor for case in self.cases.values())

    @property
    def below_floor(self) -> list[str]:
        """Ids of tests that this provider may not decline, and that were not executed."""
        done = {r.id for r in self.results.values() if r.outcome in RAN}
        return [case.id for case in self.cases.values() if case.floor and case.id not in done]

    @property
    def lost(self) -> list[str]:
        """Ids of tests that were selected, and of which nothing is known."""
        return [ident for ident in self.cases if ident not in self.results]

    @property
    def exit_code(self) -> int:
        if self.interrupted:
            return INTERRUPTED
        if self.abort is not None:
            return self.abort[0]
        if self.count("failed") or self.count("crashed") or self.problems:
            return FAILURES
        if self.no_device is not None:
            return NO_DEVICE
        if not self.ran:
            return NOTHING_RAN
        return FAILURES if self.below_floor or self.lost else CONFORMANT

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable report."""
        from .matrix import coverage, matrix

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
                "outcomes": {o: self.count(o) for o in OUTCOMES},
                "levels": {lv: {o: self.count(o, lv) for o in OUTCOMES} for lv in LEVELS if lv in levels},
                "problems": self.problems,
                "notes": self.notes,
                "no_device": self.no_device,
                "abort": self.abort[1] if self.abort else None,
                "exit_code": self.exit_code,
            },
            "coverage": coverage(self),
            "matrix": matrix(self),
            "tests": tests,
        }

    def write(self, path: Path) -> None:
        """Write the JSON report: the whole of it, or the old file stays."""
        write_whole(path, json.dumps(self.to_json(), indent=1) + "\n")


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the events of a journal; a line that was cut off is left out."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError):
            events.append(json.loads(line))
    return events


def write_whole(path: Path, text: str) -> None:
    """Write a file: the whole of it, or the old one stays. A link is followed; a pipe or device is written to."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
