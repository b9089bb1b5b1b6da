"""Planting each known defect of a device in the fake backend: a suite that does not see it would not see it in a real
one. Each gets the suite in a process of its own, unless it sits in a kernel and a test of the matrix sees it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from .generated.hunting import Bench, Verdict, device_process, this_target
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
    """Return the verdict of each fault: those of kernels in one process first, all that these leave in their own."""
    found: dict[str, Verdict] = {}
    names = [fault.name for fault in faults if fault.kind == "kernels"]
    if names:
        with device_process(Spec(BACKEND)) as pool:
            found = {v.fault: v for v in pool.submit(_examine_kernels, names, seed).result()}
    rest = [fault for fault in faults if fault.name not in found]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
        found |= {v.fault: v for v in threads.map(lambda fault: examine(fault, healthy, seed, timeout), rest)}
    return [found[fault.name] for fault in faults]


def _examine_kernels(names: Sequence[str], seed: int) -> list[Verdict]:
    """Return the verdicts of the faults that a test of the matrix sees, planted in the kernels of this process."""
    target = this_target()
    benches: dict[str, Bench] = {}
    found = []
    for name in names:
        fault, started = catalogue().FAULTS[name], time.monotonic()
        bench = benches.setdefault(fault.op, Bench(target, fault.op, seed))
        for test in sorted(bench.tests(), key=lambda test: test.clause != fault.clause):
            heading = f"{fault.level} {fault.op} [contract {test.clause}]   fault {name}   test {test.id}"
            try:
                with _in_kernels(target.record.kernels, fault):
                    bench.run(test, None, heading)
            except AssertionError:
                seconds = time.monotonic() - started
                found.append(
                    Verdict(name, fault.kind, fault.level, "caught", fault.clause, test.id, seconds=seconds)
                )
                break
            except Exception:  # what an error means is decided where the whole suite runs
                continue
    return found


@contextmanager
def _in_kernels(kernels: dict[str, dict[str, Any]], fault: Any) -> Iterator[None]:
    from infinitrain.backend import dispatch

    before = {op: dict(layers) for op, layers in kernels.items()}
    fault.install(kernels)
    dispatch.clear_plans()
    try:
        yield
    finally:
        kernels.clear()
        kernels.update(before)
        dispatch.clear_plans()


def healthy_report(seed: int, timeout: float) -> Report:
    """Run the suite without any fault."""
    workers = min(4, os.cpu_count() or 1)
    return run(Run(Spec(BACKEND), seed=seed, timeout=timeout, workers=workers), quiet=True)


def _loads(seed: int, timeout: float) -> bool:
    """Tell whether the backend registers and starts without a fault, now."""
    report = run(
        Run(Spec(BACKEND), keyword="test_count_and_description", seed=seed, timeout=timeout), quiet=True
    )
    return report.count("passed") == 1
