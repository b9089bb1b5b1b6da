"""The pytest plugin: options, the ``contract`` marker, six outcomes, and the journal that the command reads.

Inert in every pytest run that does not give ``--conformance_backend``. Nothing here imports infinitrain at
module level.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import time
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from . import details, summary
from .expected import ExpectedFailures
from .marks import case_of, decline, group_of, is_external, seed_for, test_id
from .options import pytest_addoption, spec_of
from .orphans import end_with_pipe
from .outcomes import NO_KERNEL, declined, failure_text, is_foreign
from .report import NO_BACKEND, UNWRITABLE, USAGE, Case, Report, Result, read_journal
from .shares import Shares
from .target import Broken, NoDevice, NoSuchIndex, NotLoadable, Target

__all__ = ["pytest_addoption"]
_STATE: Final = pytest.StashKey["Recorder"]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "contract(clause, level, op=None, base=False, optional=False, devices=1, hardware=False, half=False, "
        "external=False): what a conformance test checks; ``base`` ops may not be missing, ``optional`` tests may be "
        "declined with NotSupportedError (a name of ``manifest``: unless the provider offers that), tests of several "
        "``devices`` and other ``hardware`` skipped where there is too little, ``half`` ones need half precision, "
        "``external`` ones are for providers outside core",
    )
    if config.getoption("conformance_backend") is not None:
        recorder = Recorder(config)
        config.stash[_STATE] = recorder
        config.pluginmanager.register(recorder, "infinitrain_conformance_recorder")


class Recorder:
    """Selects and orders the tests, translates their outcomes, and writes down what happens."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.target = Target(spec_of(config))
        self.report = Report()
        self.cases: dict[str, Case] = {}
        xfail = config.getoption("conformance_xfail")
        self.expected = ExpectedFailures.load(Path(xfail)) if xfail else ExpectedFailures()
        self.wrong_list: list[str] = []
        share = config.getoption("conformance_share")
        folder, _, worker = share.rpartition(":") if share else ("", "", "0")
        self.shares = Shares(folder or None, int(worker))
        self.journal_path = config.getoption("conformance_journal")
        self.done: set[str] = set()
        if self.journal_path and os.path.exists(self.journal_path):
            earlier = Report().read(read_journal(Path(self.journal_path)))
            self.done = set(earlier.results)
            self.report.no_device = earlier.no_device
        parent = config.getoption("conformance_parent")
        if parent is not None:
            end_with_pipe(parent)
        # A copy of stderr from before the tests' output is captured; for stacks at a timeout or crash.
        self.stderr = os.fdopen(os.dup(sys.__stderr__.fileno()), "w") if sys.__stderr__ else None
        if self.stderr is not None:
            faulthandler.enable(self.stderr)

    def emit(self, event: str, **fields: Any) -> None:
        """Note an event, at once on disk: the process may not live to write another."""
        record = {"event": event, **fields}
        self.report.read([record])
        if self.journal_path:
            try:
                with open(self.journal_path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
            except OSError:
                os._exit(UNWRITABLE)  # nobody would learn of any test

    def emit_selected(self) -> None:
        """Note the tests of this run, with the floor as far as it is known."""
        self.emit("selected", cases=[asdict(case) for case in self.cases.values()])

    # Selection ----------------------------------------------------------------------------------------------
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Before pytest's own -k narrows the list, compare it with what is expected to fail."""
        self.wrong_list = self.expected.check(case for case in map(case_of, items) if case is not None)
        yield
        self.select(config, items)

    def select(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep what the options ask for, levels in order and the tests of a group together."""
        levels, ops = set(config.getoption("conformance_level")), set(config.getoption("conformance_op"))
        first, exclude = config.getoption("conformance_first"), set(config.getoption("conformance_exclude"))
        kept: list[tuple[tuple[Any, ...], pytest.Item]] = []
        dropped = []
        for item in items:
            case = case_of(item)
            if case is None:
                kept.append(((), item))
                continue
            wanted = (not levels or case.level in levels) and (
                not ops or case.op in ops or (case.op is None and "-" in ops)
            )
            if not wanted or case.id in exclude:
                dropped.append(item)
                continue
            self.cases[case.id] = case
            kept.append(
                (
                    (
                        first is not None and case.clause != first,
                        case.level,
                        item.path.stem != "test_capabilities",  # what is declared wrongly fails many others
                        item.path.stem,
                        case.op or "",
                    ),
                    item,
                )
            )
        kept.sort(key=lambda pair: pair[0])  # stable: the order of tests inside a group stays
        items[:] = [item for _, item in kept]
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly:
            return None
        self.emit(
            "facts", facts=self.target.versions() | {"seed": session.config.getoption("conformance_seed")}
        )
        if self.wrong_list:
            self.stop(
                session, USAGE, "\n".join(["the list of expected failures is wrong:", *self.wrong_list])
            )
        try:
            device = self.target.device
        except NotLoadable as error:
            self.emit_selected()
            self.stop(session, NO_BACKEND, f"backend {self.target.name!r} cannot be tested: {error}")
        if device.type.name != "PRIVATEUSE1":
            external = [item for item in session.items if is_external(item)]
            for item in external:
                session.items.remove(item)
                del self.cases[test_id(item)]
        self.refine(session)
        self.emit("facts", facts={"ops": self.target.ops()} | self.target.facts())
        if self.config.getoption("conformance_share") is None:
            return None  # pytest's own loop, with whatever its options do to it
        self.loop(session)
        return True

    def refine(self, session: pytest.Session, devices: int = 1) -> None:
        """Compute the floor anew from what is known of the provider, and note it."""
        offers = self.target.offers()
        found = (case_of(item, devices, offers) for item in session.items)
        self.cases |= {case.id: case for case in found if case is not None}
        self.emit_selected()

    def loop(self, session: pytest.Session) -> None:
        """Run the tests of this worker's groups that have no result yet."""
        ours = (item for item in session.items if self.is_ours(item))
        item = next(ours, None)
        while item is not None:
            following = next(ours, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following

    def is_ours(self, item: pytest.Item) -> bool:
        """Tell whether this worker runs the test."""
        case = self.cases.get(test_id(item))
        return case is None or (case.id not in self.done and self.shares.takes(group_of(case)))

    def stop(self, session: pytest.Session, code: int, message: str) -> NoReturn:
        """End the run with an exit code and what is known."""
        self.emit("abort", code=code, message=message)
        # The parent process prints the message, below the summary.
        pytest.exit("stopped" if self.journal_path else message, returncode=code)

    # One test -----------------------------------------------------------------------------------------------
    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        timeout = self.config.getoption("conformance_timeout")
        if timeout > 0 and self.stderr is not None:
            faulthandler.dump_traceback_later(timeout, exit=True, file=self.stderr)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        case = case_of(item)
        if case is None:
            return
        self.emit("start", id=case.id, time=time.time())
        if case.op is not None:
            from infinitrain.backend import OPS

            if case.op not in OPS:
                decline(f"{NO_KERNEL}{case.op}: this infinitrain-core has no such op")
            missing = self.report.facts.get("missing_kernels", {})
            if any(case.op in ops for profile, ops in missing.items() if profile != "base"):
                decline(f"{NO_KERNEL}{case.op}")
        if case.level != "L0":
            self.start_device(item.session)

    def start_device(self, session: pytest.Session) -> None:
        """Initialise the runtime before the first test that needs it."""
        if self.report.no_device is not None:
            pytest.skip("no device")
        if "runtime" in self.target.__dict__:
            return
        self.emit("initialize")
        try:
            runtime = self.target.runtime
        except NoDevice as error:
            self.emit("no_device", message=str(error))
            pytest.skip("no device")
        except NoSuchIndex as error:
            self.stop(session, USAGE, f"--backend {self.target.spec.name}: {error}")
        except Broken as error:
            cause = error.__cause__.__cause__ if error.__cause__ is not None else None
            because = f"\ncause: {type(cause).__name__}: {cause}" if cause is not None else ""
            self.stop(session, NO_BACKEND, f"backend {self.target.name!r} does not start: {error}{because}")
        finally:
            self.emit("initialized")
        self.emit("facts", facts=self.target.facts())
        self.refine(session, runtime.device_count())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        case = case_of(item)
        if case is None:
            return report
        if report.skipped and call.excinfo is not None and is_foreign(call.excinfo):
            report.outcome = "failed"  # a kernel does not skip the test that runs it
            report.longrepr = (
                f"{self.heading(case, item)}\n  the provider's code raised {call.excinfo.value!r}"
            )
        elif report.failed and call.excinfo is not None:
            why = declined(case, item, call.excinfo.value)
            if why is not None:
                report.outcome = "skipped"
                report.longrepr = (str(item.path), 0, why)
                report.conformance = "unsupported"  # type: ignore[attr-defined]
            elif not isinstance(call.excinfo.value, AssertionError):
                report.sections.insert(0, ("conformance", self.heading(case, item)))
        declines = getattr(report, "conformance", "") == "unsupported"
        if report.failed or declines or (report.passed and report.when == "call"):
            self.judge(case, item, report)
        return report

    def judge(self, case: Case, item: pytest.Item, report: pytest.TestReport) -> None:
        """Let the list of expected failures change the outcome."""
        message = failure_text(report, self.heading(case, item)) if report.failed else ""
        report.conformance_text = message  # type: ignore[attr-defined]
        outcome = getattr(report, "conformance", report.outcome)
        if outcome == "unsupported":
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        result = self.expected.judge(Result(case.id, outcome, 0.0, message), case, self.report.facts)
        if result.outcome == "xfailed":
            report.outcome = "skipped"
            report.wasxfail = result.message  # pytest's own name for it
            report.conformance = "xfailed"  # type: ignore[attr-defined]
        elif result.outcome == "failed" and not report.failed:
            report.outcome, report.longrepr = "failed", result.message
            report.conformance = "failed"  # type: ignore[attr-defined]
        if result.outcome not in ("passed", "unsupported"):
            report.conformance_text = result.message  # type: ignore[attr-defined]

    def heading(self, case: Case, item: pytest.Item) -> str:
        """Return the line that says what was tested on what."""
        what = f" {case.op}" if case.op else ""
        provider = self.report.facts.get("provider", {})
        who = f"{self.target.name} {provider.get('distribution', '')}".strip()
        return (
            f"{case.level}{what} [contract {case.clause}]   provider {who}, "
            f"device {self.target.description}, data seed {seed_of(item)}   test {case.id}"
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ident = _id_of_report(report)
        if ident not in self.cases:
            return
        if report.when == "call" or report.outcome != "passed":
            earlier = self.report.results.get(ident)
            if earlier is not None and earlier.outcome == "failed":
                return  # a teardown that fails as well adds nothing
            outcome = getattr(report, "conformance", report.outcome)
            message = getattr(report, "conformance_text", "")
            if outcome in ("unsupported", "skipped") and isinstance(report.longrepr, tuple):
                message = report.longrepr[2].removeprefix("Skipped: ")
            self.emit("result", result=asdict(Result(ident, outcome, round(report.duration, 4), message)))

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if getattr(report, "conformance", "") == "unsupported":
            return "unsupported", "u", "UNSUPPORTED"
        return None

    # The end ------------------------------------------------------------------------------------------------
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if session.config.option.collectonly:
            return
        if exitstatus in (
            pytest.ExitCode.USAGE_ERROR,
            pytest.ExitCode.INTERNAL_ERROR,
            pytest.ExitCode.INTERRUPTED,
        ):
            return
        stopped = session.shouldfail or session.shouldstop
        self.emit("stopped" if stopped else "end")
        if not self.journal_path:
            self.report.notes = self.expected.off(self.cases.values(), self.report.facts)
            session.exitstatus = self.report.exit_code
            path = self.config.getoption("conformance_json")
            if path:
                self.report.write(Path(path))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        if excinfo.type is KeyboardInterrupt:  # and not pytest's own way to end early
            self.emit("interrupted")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.journal_path or self.config.option.collectonly:
            return
        terminalreporter.section("conformance")
        for line in [*details.groups(self.report), *summary.lines(self.report)]:
            terminalreporter.write_line(line)


def _id_of_report(report: pytest.TestReport) -> str:
    path, _, name = report.nodeid.partition("::")
    return f"{Path(path).stem.removeprefix('test_')}::{name}"


def seed_of(item: pytest.Item) -> int:
    """Return the test's seed: from its id, so that adding a test changes no other's data."""
    return seed_for(test_id(item), item.config.getoption("conformance_seed"))


# Fixtures
# ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    """The backend under test."""
    return request.config.stash[_STATE].target


@pytest.fixture
def heading(request: pytest.FixtureRequest) -> str:
    """What a failure message starts with."""
    recorder, case = request.config.stash[_STATE], case_of(request.node)
    assert case is not None
    return recorder.heading(case, request.node)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this test's data."""
    return seed_of(request.node)
