"""Running the suite's checks on a fault until one of them fails."""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from ..call import Call, Wanted
from ..cases import Built, Data, OpCase
from ..checks import CHECKS, Make, planned
from ..families import level_of
from ..marks import seed_for
from ..orphans import end_with_parent
from ..target import Broken, NoDevice, NotLoadable, Spec, Target
from .fault import Fault, NotHere, OtherTest, Swap
from .table import EQUIVALENT, faults_of


@dataclass(frozen=True)
class Test:
    """One test of the suite's matrix."""

    check: str
    case: OpCase
    dtype: str

    @property
    def id(self) -> str:
        return f"{CHECKS[self.check].file}::test_{self.check}[{self.case}-{self.dtype}]"

    @property
    def clause(self) -> str:
        return CHECKS[self.check].clause or self.case.clause


@dataclass(frozen=True)
class Verdict:
    """What became of one fault: ``test`` is the id of the test that saw it; ``why`` says why none did.

    ``outcome``: caught; missed; rule (it does what the op does, by a rule); listed (the same, by the table).
    """

    fault: str
    kind: str
    level: str
    outcome: str
    clause: str = ""
    test: str = ""
    why: str = ""
    seconds: float = 0.0


@dataclass
class Bench:
    """The tests of one op on one device; cases are made, and oracles asked, once for all faults."""

    target: Target
    op: str
    seed: int = 0
    broken: list[str] = field(default_factory=list)
    """Tests that fail without any fault: they say nothing about one."""
    _made: dict[Test, tuple[Built, Data, Wanted]] = field(default_factory=dict)
    _passing: list[Test] | None = None

    def run(self, test: Test, swap: Swap | None, heading: str) -> None:
        """Run a test with a fault in the op's place. Raises NotHere, or what the test raises."""
        excuses: list[NotHere | None] = []
        CHECKS[test.check].run(self._make(test, swap, excuses), heading)
        if excuses and all(excuses):
            raise next(here for here in excuses if here)

    def _make(self, test: Test, swap: Swap | None, excuses: list[NotHere | None]) -> Make:
        """Return the function that puts the test's case on the device, with the fault in the op's place.

        A test that changes the arguments goes on where the fault says that it is not in what they became.
        """

        def make(*, change: Callable[[Built], Built] | None = None, **options: Any) -> Call:
            if test not in self._made:
                data = Data(seed_for(test.id, self.seed), test.dtype)
                built = test.case.build(data)
                self._made[test] = built, data, Call(self.op, built, data, self.target.device).want
            built, data, want = self._made[test]
            call = Call(
                self.op, built if change is None else change(built), data, self.target.device, **options
            )
            if change is None:
                call.want = want
            if swap is None:
                return call
            try:
                call.op = swap(call)
                excuses.append(None)
            except NotHere as here:
                if change is None:
                    raise
                excuses.append(here)
            return call

        return make

    def tests(self) -> list[Test]:
        """Return the tests that pass here without a fault."""
        if self._passing is None:
            self._passing = [test for test in suite_tests(self.op) if self._passes(test)]
        return self._passing

    def _passes(self, test: Test) -> bool:
        if test.check == "repeats" and self.op in self.target.record.capabilities.nondeterministic:
            return False
        from infinitrain.errors import KernelNotFoundError, UnsupportedDtypeError, UnsupportedShapeError

        try:
            self.run(test, None, test.id)
        except (KernelNotFoundError, UnsupportedDtypeError, UnsupportedShapeError):
            return False  # the backend declines the op or the dtype
        except Exception as error:
            self.broken.append(f"{test.id} ({str(error).splitlines()[-1].strip()})")
            return False
        return True


@cache
def _tests_by_op() -> dict[str, list[Test]]:
    found: dict[str, list[Test]] = {}
    for check in CHECKS:
        for case, dtype in planned(check):
            found.setdefault(case.op, []).append(Test(check, case, dtype))
    return found


def suite_tests(op: str) -> list[Test]:
    """Return the tests of the suite's matrix that are about an op."""
    return _tests_by_op().get(op, [])


def hunt(fault: Fault, bench: Bench) -> Verdict:
    """Run the op's tests against a fault, those of its kind's check first."""
    started, level = time.monotonic(), level_of(fault.op)
    reasons: Counter[str] = Counter()
    rules, ran, decides = 0, 0, 0

    def verdict(outcome: str, **more: Any) -> Verdict:
        return Verdict(
            str(fault), fault.kind.name, level, outcome, seconds=time.monotonic() - started, **more
        )

    if not bench.tests():
        return verdict("rule", why="none of the op's tests runs and passes on this backend")
    for test in sorted(bench.tests(), key=lambda test: test.check != fault.kind.check):
        heading = f"{level} {fault.op} [contract {test.clause}]   fault {fault}   test {test.id}"
        try:
            bench.run(test, fault.swap, heading)
            ran += 1
        except OtherTest as other:
            reasons[str(other)] += 1
        except NotHere as here:
            rules, decides = rules + here.by_rule, decides + 1
            reasons[str(here)] += 1
        except AssertionError as error:
            if not str(error).startswith(heading):
                raise AssertionError(
                    f"{test.id} failed without naming op and clause: {str(error)[:200]}"
                ) from error
            if str(fault) in EQUIVALENT:
                why = "a test sees it: take it off EQUIVALENT"
                return verdict("missed", test=test.id, clause=test.clause, why=why)
            return verdict("caught", test=test.id, clause=test.clause)
        except Exception as error:
            if isinstance(error, IndexError) and "[contract" in str(error):  # which fails a test as well
                return verdict("caught", test=test.id, clause=test.clause)
            decides += 1
            reasons[f"{type(error).__name__}: {str(error)[:100]}"] += 1
    if str(fault) in EQUIVALENT:
        return verdict("listed", why=EQUIVALENT[str(fault)])
    why = "; ".join(f"{reason} ({n} tests)" for reason, n in reasons.most_common(3))
    if rules and rules == decides and not ran:
        return verdict("rule", why=why)
    return verdict("missed", why=f"{ran} tests passed" + (f"; {why}" if why else ""))


def hunt_op(
    target: Target, op: str, names: frozenset[str] | None, seed: int
) -> tuple[list[Verdict], list[str]]:
    """Return the verdicts of an op's faults (of those named), and the tests that fail without one."""
    bench = Bench(target, op, seed)
    chosen = [m for m in faults_of(op) if names is None or str(m) in names]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [hunt(fault, bench) for fault in chosen], bench.broken


_worker: list[Target | Exception] = []


def device_process(spec: Spec, workers: int = 1) -> ProcessPoolExecutor:
    """Return processes that have the backend loaded; this one stays as it is."""
    return ProcessPoolExecutor(workers, get_context("spawn"), _start, (spec,))


def _start(spec: Spec) -> None:
    end_with_parent()
    try:
        target = Target(spec)
        _ = target.runtime
        _worker.append(target)
    except (NotLoadable, NoDevice, Broken) as error:
        _worker.append(
            error
        )  # raised by the first task: an error here would only say that the pool is broken


def this_target() -> Target:
    """Return the backend that this process has loaded. Raises NotLoadable."""
    target = _worker[0]
    if isinstance(target, Exception):
        raise NotLoadable(str(target))
    return target


def _work(op: str, names: frozenset[str] | None, seed: int) -> tuple[list[Verdict], list[str]]:
    return hunt_op(this_target(), op, names, seed)


def hunt_all(
    spec: Spec, ops: Sequence[str], names: frozenset[str] | None = None, *, seed: int = 0
) -> tuple[list[Verdict], list[str]]:
    """Hunt the faults of several ops (those named), in processes beside this one. Raises NotLoadable.

    Returns the verdicts, and the tests that fail without any fault.
    """
    workers = min(4, os.cpu_count() or 1, 1 + len(ops) // 20)
    with device_process(spec, workers) as pool:
        found = list(pool.map(_work, ops, [names] * len(ops), [seed] * len(ops)))
    return [v for verdicts, _ in found for v in verdicts], [test for _, broken in found for test in broken]
