"""Planting each known defect of a device in the fake backend, in processes of their own: a suite that does not see it
would not see it in a real one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .mutants.hunt import Verdict
from .report import Report
from .runner import Run, run
from .target import Spec

BACKEND: Final = "fake"


def catalogue() -> Any:
    """Return the fake's faults module. Raises ImportError."""
    from infinitrain_fake import faults  # type: ignore[import-not-found, unused-ignore]

    return faults


def selections(fault: Any, healthy: Report, seed: int, timeout: float) -> list[Run]:
    """Return what to run, narrow first: the fault's op or level, its clause before others; then all."""
    common: dict[str, Any] = {
        "seed": seed, "timeout": timeout, "first": fault.clause, "stop_at_failure": True,
        "exclude": tuple(r.id for r in healthy.results.values() if r.outcome in ("failed", "crashed")),
        "env": {"INFINITRAIN_FAKE_FAULT": fault.name},
    }  # fmt: skip
    spec = Spec(BACKEND)
    narrow = Run(spec, ops=(fault.op,), **common) if fault.op else Run(spec, levels=(fault.level,), **common)
    return [narrow, Run(spec, **common)]


def examine(fault: Any, healthy: Report, seed: int, timeout: float) -> Verdict:
    """Run the suite against one fault until a test that passes without it fails."""
    started = time.monotonic()

    def verdict(outcome: str, test: str = "", why: str = "") -> Verdict:
        seconds = time.monotonic() - started
        return Verdict(fault.name, fault.kind, fault.level, outcome, fault.clause, test, why, seconds)

    for selection in selections(fault, healthy, seed, timeout):
        report = run(selection, quiet=True)
        if report.abort is not None:
            # Refused at registration or start, with the cause; unless the fault itself could not be planted.
            text = " ".join(report.abort[1].split())
            planted = f"fault {fault.name}" not in text and "no planted fault" not in text
            if planted and _loads(seed, timeout):
                return verdict("caught", f"refused: {text.partition('cannot be tested: ')[2] or text}")
            return verdict("missed", why=text)
        failed = [r for r in report.results.values() if r.outcome in ("failed", "crashed")]
        if failed:
            return verdict("caught", failed[0].id)
        below = [name for name in report.below_floor if name not in healthy.below_floor]
        if report.finished and below:
            return verdict("caught", f"below the floor: {below[0]} and {len(below) - 1} more")
    return verdict("missed", why="no test failed")


def examine_all(faults: Sequence[Any], healthy: Report, seed: int, timeout: float) -> list[Verdict]:
    """Return the verdict of each fault."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda fault: examine(fault, healthy, seed, timeout), faults))


def healthy_report(seed: int, timeout: float) -> Report:
    """Run the suite without any fault."""
    return run(Run(Spec(BACKEND), seed=seed, timeout=timeout), quiet=True)


def _loads(seed: int, timeout: float) -> bool:
    """Tell whether the backend registers and starts without a fault, now."""
    report = run(
        Run(Spec(BACKEND), keyword="test_count_and_description", seed=seed, timeout=timeout), quiet=True
    )
    return report.count("passed") == 1
