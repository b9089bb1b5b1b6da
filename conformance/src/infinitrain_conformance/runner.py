"""Running the suite in processes of its own, so that a crash or hang costs one test, not the report.

Each worker is a pytest that takes groups of tests (``shares``) and writes a journal, event by event. The parent reads
the journals, puts a new process in a dead one's place, and blames the death on the test that had begun.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from . import stacks, suite
from .expected import ExpectedFailures
from .marks import group_of
from .options import DEFAULT_TIMEOUT
from .output import writing
from .report import NO_BACKEND, RAN, UNWRITABLE, USAGE, Report, Result, read_journal
from .target import Spec
from .worker import Worker, death

SUITE: Final = Path(next(iter(suite.__path__)))
MAX_CRASHES: Final = 16
MAX_WORKERS: Final = 4
"""As many as are started unasked; ``--workers`` may say more."""
MOST_FOR_A_CPU: Final = 4
"""However many workers are asked for."""
WORTH_A_WORKER: Final = 200
"""Tests below which another process costs more than it brings."""
SIMULATED: Final = ("cpu", "fake")
"""Devices that are host memory although they do not say so: processes do not fight over a card."""


@dataclass(frozen=True)
class Run:
    """What to run on which backend. ``workers`` None: by the device and the number of tests."""

    spec: Spec
    levels: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    keyword: str | None = None
    first: str | None = None
    exclude: tuple[str, ...] = ()
    seed: int = 0
    timeout: float = DEFAULT_TIMEOUT
    stop_at_failure: bool = False
    workers: int | None = 1
    xfail: Path | None = None
    pytest_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """True when nothing narrows the selection."""
        narrowing = (
            self.levels,
            self.ops,
            self.keyword,
            self.exclude,
            self.pytest_args,
            self.stop_at_failure,
        )
        return not any(narrowing)

    def arguments(self, journal: Path) -> list[str]:
        """Return pytest's arguments for a process that runs the tests."""
        args = ["-c", str(SUITE / "pytest.ini"), "--rootdir", str(SUITE), str(SUITE)]
        # The entry point would load the plugin a second time under another name.
        args += ["-p", "infinitrain_conformance.plugin", "-p", "no:infinitrain_conformance"]
        args += ["--conformance_backend", self.spec.name, "--conformance_journal", str(journal)]
        args += ["--conformance_seed", str(self.seed), "--conformance_timeout", str(self.timeout)]
        if self.spec.module:
            args += ["--conformance_module", self.spec.module]
        for key, value in self.spec.options:
            args += ["--conformance_option", f"{key}={value}"]
        for level in self.levels:
            args += ["--conformance_level", level]
        for op in self.ops:
            args += ["--conformance_op", op]
        for name in self.exclude:
            args += ["--conformance_exclude", name]
        if self.first is not None:
            args += ["--conformance_first", self.first]
        if self.xfail is not None:
            args += ["--conformance_xfail", str(self.xfail)]
        if self.keyword is not None:
            args += ["-k", self.keyword]
        if self.stop_at_failure:
            args.append("-x")
        return [*args, *self.pytest_args]


def run(what: Run, *, quiet: bool = False, show: Callable[[Report, Result], None] | None = None) -> Report:
    """Run the tests and return the report. ``show`` is called with each result; with ``quiet`` what the processes
    write to stderr is dropped.
    """
    with _temporary_files(), tempfile.TemporaryDirectory(prefix="infinitrain-conformance-") as folder:
        suite_run = _SuiteRun(what, Path(folder), show, quiet)
        try:
            suite_run.go()
        except KeyboardInterrupt:
            suite_run.report.interrupted = True
        finally:
            suite_run.end()
        return suite_run.report


def _temporary_files() -> contextlib.AbstractContextManager[None]:
    return writing("temporary files", "; free space, or set TMPDIR to another folder")


def run_in_process(what: Run) -> Report:
    """Run the tests in this process, for a debugger; a crash ends it."""
    import pytest

    with (
        _temporary_files(),
        tempfile.TemporaryDirectory(prefix="infinitrain-conformance-") as folder,
        _environment(what.env),
    ):
        journal = Path(folder) / "journal.jsonl"
        journal.touch()
        code = pytest.main(what.arguments(journal))
        report = Report().read(read_journal(journal))
    if what.xfail is not None:
        report.notes = ExpectedFailures.load(what.xfail).off(report.cases.values(), report.facts)
    if code == pytest.ExitCode.USAGE_ERROR and report.abort is None:
        report.abort = (USAGE, "pytest did not accept its arguments")
    elif not (report.finished or report.results or report.abort or report.interrupted):
        report.abort = (NO_BACKEND, f"the suite ended with exit code {int(code)} before its first test")
    return report


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment(more))
    os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment: other plugins that happen to be installed would make two runs differ."""
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **more}
    env.pop("PYTEST_ADDOPTS", None)
    return env


class _SuiteRun:
    """One run: its workers, and the report that grows from their journals."""

    def __init__(
        self, what: Run, folder: Path, show: Callable[[Report, Result], None] | None, quiet: bool
    ) -> None:
        self.what, self.folder, self.show, self.quiet = what, folder, show, quiet
        self.report = Report()
        # Its problems are told by the worker, which knows the tests; here it judges crashes.
        self.expected = ExpectedFailures.load(what.xfail) if what.xfail else ExpectedFailures()
        self.workers: list[Worker] = []
        self.crashes = 0
        self.told: set[str] = set()
        (folder / "shares").mkdir()

    def go(self) -> None:
        self.start()
        while any(worker.running for worker in self.workers):
            time.sleep(0.05)
            for worker in self.workers:
                if worker.running and self.attend(worker):
                    return
            if len(self.workers) == 1:
                for _ in range(self.sensible() - 1):
                    self.start()

    def start(self) -> None:
        """Start another worker."""
        number = len(self.workers)
        worker = Worker(number, self.folder, shown=bool(self.what.pytest_args))
        self.workers.append(worker)
        self.launch(worker)

    def launch(self, worker: Worker) -> None:
        args = [*self.what.arguments(worker.journal), "--conformance_share"]
        args.append(f"{self.folder / 'shares'}:{worker.number}")
        worker.start([sys.executable, "-m", "pytest", *args], environment(self.what.env))

    def sensible(self) -> int:
        """Return the number of workers, once the device and the tests are known."""
        if self.what.workers is not None:
            groups = len({group_of(case) for case in self.report.cases.values()})
            return min(self.what.workers, groups, (os.cpu_count() or 1) * MOST_FOR_A_CPU)
        provider = self.report.facts.get("provider")
        if provider is None:
            return 1
        hosted = self.report.facts["capabilities"]["host_visible"] or provider["name"] in SIMULATED
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cpus, MAX_WORKERS, 1 + len(self.report.cases) // WORTH_A_WORKER) if hosted else 1

    def attend(self, worker: Worker) -> bool:
        """Read what a worker wrote, and see to its end. Return True when the whole run is over."""
        code = worker.poll(self.what.timeout)
        for event in worker.news():
            self.report.read([event])
            if event["event"] == "result" and self.show is not None:
                self.show(self.report, self.report.results[event["result"]["id"]])
        if code is None:
            return self.over(worker)
        if code == UNWRITABLE or (code not in (0, 1, 5) and worker.last_test is None):
            self.probe(code)
        if not self.quiet:
            self.tell(stacks.split(worker.stderr())[0])
        if not self.over(worker) and self.lost(worker, code):
            self.launch(worker)
        return self.over(worker)

    def probe(self, code: int) -> None:
        """Tell whether a process ended for want of room; by now its own files may have made some. Raises OSError."""
        (self.folder / "probe").write_bytes(bytes(1 << 16))
        if code == UNWRITABLE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def over(self, worker: Worker) -> bool:
        """Tell whether the run ends for all: it was stopped at a failure, or cannot go on."""
        return self.report.abort is not None or "stopped" in worker.kinds

    def lost(self, worker: Worker, code: int) -> bool:
        """Say what a process's end means; return whether another one has to take its place."""
        stack = "".join(f"\n  {line}" for line in stacks.split(worker.stderr())[1])
        if "end" in worker.kinds:
            if code < 0 or code not in (0, 1, 5):
                self.blame(
                    worker, "process::exit", f"[contract 3.11] {death(code)} after the last test{stack}"
                )
            return False
        if worker.last_test is None:
            self.give_up(worker, code)
            return False
        name, began = worker.last_test
        seconds = time.time() - began
        if name in self.report.results:
            why = f"{death(code)} right after the test, which {self.report.results[name].outcome}"
        elif worker.was_hanging or (self.what.timeout and seconds >= self.what.timeout):
            why = f"timeout: no result after {self.what.timeout:g} s"
        else:
            why = death(code)
        if worker.initializing:
            what = "did not end" if why.startswith("timeout") else "ended the process"
            self.no_start(f"the runtime's initialize {what}: {why}{stack}")
            return False
        self.blame(worker, name, why + stack, seconds)
        self.crashes += 1
        if self.crashes >= MAX_CRASHES:
            left = len(self.report.cases) - len(self.report.results)
            others = [text for text in self.report.problems if not text.startswith("gave up")]
            said = f"gave up after {self.crashes} crashes; {left} tests were not run"
            self.report.problems = [*others, said]
            return False
        return not self.what.stop_at_failure

    def blame(self, worker: Worker, name: str, why: str, seconds: float = 0.0) -> None:
        """Note a crash, in the journal too: the next process must not run the test again."""
        if name not in self.report.cases:
            case = {"id": name, "level": "L1", "clause": "3.11"}
            worker.note({"event": "selected", "cases": [case]})
            self.report.read([{"event": "selected", "cases": [case]}])
        result = Result(name, "crashed", round(seconds, 4), why)
        result = self.expected.judge(result, self.report.cases[name], self.report.facts)
        worker.note({"event": "result", "result": asdict(result)})
        self.report.results[name] = result
        worker.last_test = None
        if self.show is not None:
            self.show(self.report, result)

    def no_start(self, why: str) -> None:
        """Tell once that the device did not start: every test that needs it would say the same."""
        if any(self.report.cases[r.id].level != "L0" for r in self.report.of(*RAN)):
            left = len(self.report.cases) - len(self.report.results)
            self.report.problems.append(f"{why}\n{left} tests had no result then")
        else:
            self.report.abort = (NO_BACKEND, f"backend {self.what.spec.name!r} does not start: {why}")

    def give_up(self, worker: Worker, code: int) -> None:
        """End the run: a process died that had run no test."""
        if code == 4:  # pytest's code for arguments that it cannot use
            said = [line for line in worker.stderr().splitlines() if "error:" in line.lower()]
            self.report.abort = (USAGE, "\n".join(["pytest did not accept its arguments", *said]))
            return
        text = worker.output() if self.quiet else ""
        tail = f":\n{text[-2000:]}" if text.strip() else ""
        when = "before its first test" if not self.report.results else "before its next test"
        self.report.abort = (NO_BACKEND, f"the suite {death(code)} {when}{tail}")

    def tell(self, text: str) -> None:
        """Pass on what a process wrote to stderr; several say the same about wrong arguments."""
        if text.strip() and text not in self.told:
            self.told.add(text)
            print(text, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Stop the workers that still run, and read what they wrote."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            self.report.read(worker.news())
        self.report.notes = self.expected.off(self.report.cases.values(), self.report.facts)
