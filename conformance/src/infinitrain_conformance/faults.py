"""Planting each known defect in the fake backend: a suite that does not see it would not see it in a real
one.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from .report import FAILURES, NO_BACKEND, USAGE, Report
from .runner import Run, run
from .target import Spec

BACKEND: Final = "fake"


@dataclass(frozen=True)
class Verdict:
    """What became of one fault: ``test`` is the id of the test that saw it, None when none did."""

    fault: str
    level: str
    clause: str
    test: str | None
    seconds: float
    note: str = ""


def catalogue() -> Any:
    """Return the fake's faults module. Raises ImportError."""
    from infinitrain_fake import faults  # type: ignore[import-not-found, unused-ignore]

    return faults


def main(names: Sequence[str], *, seed: int = 0, timeout: float = 60.0) -> int:
    """Run the faults (all when none is named); print what caught each; return the exit code."""
    try:
        faults = catalogue()
    except ImportError as error:
        need = f"planted faults need the fake backend: pip install infinitrain-fake ({error})"
        print(f"infinitrain-conformance: {need}", file=sys.stderr)
        return NO_BACKEND
    for name in names:
        if name not in faults.FAULTS:
            near = get_close_matches(name, faults.FAULTS, 2)
            hint = (
                f"; did you mean {' or '.join(near)}?"
                if near
                else f"; known: {', '.join(sorted(faults.FAULTS))}"
            )
            print(f"infinitrain-conformance: no planted fault {name!r}{hint}", file=sys.stderr)
            return USAGE
    chosen = [faults.FAULTS[name] for name in names or faults.FAULTS]
    absent = [fault.name for fault in chosen if not faults.usable(fault)]
    chosen = [fault for fault in chosen if faults.usable(fault)]

    started = time.monotonic()
    healthy = run(Run(Spec(BACKEND), seed=seed, timeout=timeout), quiet=True)
    if healthy.abort is not None:
        print(f"infinitrain-conformance: {healthy.abort[1]}", file=sys.stderr)
        return NO_BACKEND
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        verdicts = list(pool.map(lambda fault: examine(fault, healthy, seed, timeout), chosen))
    return _print(verdicts, absent, healthy, time.monotonic() - started)


def selections(fault: Any, healthy: Report, seed: int, timeout: float) -> list[Run]:
    """Return what to run, narrow first: the fault's op or level, its clause before others; then all."""
    common: dict[str, Any] = {
        "seed": seed, "timeout": timeout, "first": fault.clause, "stop_at_failure": True,
        "exclude": tuple(r.id for r in healthy.results.values() if r.outcome == "failed"),
        "env": {"INFINITRAIN_FAKE_FAULT": fault.name},
    }  # fmt: skip
    spec = Spec(BACKEND)
    narrow = Run(spec, ops=(fault.op,), **common) if fault.op else Run(spec, levels=(fault.level,), **common)
    return [narrow, Run(spec, **common)]


def examine(fault: Any, healthy: Report, seed: int, timeout: float) -> Verdict:
    """Run the suite against one fault until a test that passes without it fails."""
    started = time.monotonic()
    for selection in selections(fault, healthy, seed, timeout):
        report = run(selection, quiet=True)
        if report.abort is not None:
            # Refused at registration or start, with the cause; unless the fault itself could not be planted.
            text = " ".join(report.abort[1].split())
            planted = f"fault {fault.name}" not in text and "no planted fault" not in text
            if planted and _loads(seed, timeout):
                test = f"refused: {text.partition('cannot be tested: ')[2] or text}"
                return Verdict(fault.name, fault.level, fault.clause, test, time.monotonic() - started)
            return Verdict(fault.name, fault.level, fault.clause, None, time.monotonic() - started, text)
        failed = [r for r in report.results.values() if r.outcome == "failed"]
        if failed:
            seen = failed[0]
            return Verdict(
                fault.name, fault.level, fault.clause, seen.id, time.monotonic() - started, seen.message
            )
        below = [name for name in report.below_floor if name not in healthy.below_floor]
        if report.finished and below:
            declined = f"below the floor: {below[0]} and {len(below) - 1} more"
            return Verdict(fault.name, fault.level, fault.clause, declined, time.monotonic() - started)
    return Verdict(fault.name, fault.level, fault.clause, None, time.monotonic() - started)


def _loads(seed: int, timeout: float) -> bool:
    """Tell whether the backend registers and starts without a fault, now."""
    report = run(
        Run(Spec(BACKEND), keyword="test_count_and_description", seed=seed, timeout=timeout), quiet=True
    )
    return report.count("passed") == 1


def _print(verdicts: list[Verdict], absent: list[str], healthy: Report, seconds: float) -> int:
    width = max((len(v.fault) for v in verdicts), default=0)
    for v in verdicts:
        seen = textwrap.shorten(v.test, 150) if v.test else f"NOT CAUGHT {v.note}".rstrip()
        print(f"{v.fault:{width}}  {v.level}  [contract {v.clause}]  {v.seconds:5.1f} s  {seen}")
    missed = [v.fault for v in verdicts if v.test is None]
    if absent:
        print(f"not planted, as this infinitrain-core has no such op: {', '.join(absent)}")
    broken = healthy.count("failed")
    print(
        f"{len(verdicts) - len(missed)} of {len(verdicts)} planted faults caught in {seconds:.0f} s"
        + (f"; not caught: {', '.join(missed)}" if missed else "")
        + (f"; without any fault {broken} tests fail: run --backend {BACKEND}" if broken else "")
    )
    return FAILURES if missed or broken or not verdicts else 0
