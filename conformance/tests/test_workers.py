"""Worker processes: the number changes nothing but the time; crashes and interrupts are seen to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infinitrain_conformance.report import Case, Report, Result, read_journal
from infinitrain_conformance.runner import Run, _SuiteRun, run
from infinitrain_conformance.shares import Shares
from infinitrain_conformance.target import Spec
from infinitrain_conformance.worker import Worker

HERE = Path(__file__).parent
pytestmark = pytest.mark.multiproc


def outcomes(report):
    return {name: (r.outcome, r.message) for name, r in report.results.items()}


def test_groups_have_one_owner(tmp_path):
    one, two, again = Shares(str(tmp_path), 0), Shares(str(tmp_path), 1), Shares(str(tmp_path), 0)
    assert one.takes("L2 A")
    assert not two.takes("L2 A")
    assert two.takes("L1 memory")
    assert [again.takes("L2 A"), again.takes("L1 memory")] == [True, False]  # in a dead process's place
    assert Shares(None, 0).takes("L2 A")


@pytest.fixture
def path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH")))))


def test_results_are_equal_for_any_number(path):
    """Failures included, whose messages hold the numbers of the data."""
    what = {"spec": Spec("toy", "providers:forgets_bias"), "keyword": "Linear or test_parse or base_ops"}
    one, three = (run(Run(**what, workers=n), quiet=True) for n in (1, 3))
    assert outcomes(one) == outcomes(three)
    assert one.cases == three.cases
    assert one.count("failed") > 3
    assert list(one.cases) == list(three.cases)
    assert one.floor == three.floor > 50


def test_crashes_of_several_workers(path):
    """Each crash is its test's; every other test has its result, once."""
    report = run(
        Run(Spec("toy", "providers:aborts"), keyword="Linear and odd and bfloat16", workers=2), quiet=True
    )
    assert len(report.results) == len(report.cases)
    crashed = {r.id for r in report.of("crashed")}
    assert crashed
    assert all("LinearForward" in name for name in crashed)
    for result in report.of("crashed"):
        first, _, second, *_ = result.message.splitlines()
        assert first == "was ended by SIGABRT"
        assert second.endswith("in _aborts")  # the provider's line, of its stack
        assert "_pytest" not in result.message
        assert "pluggy" not in result.message
    assert report.count("passed") == len(report.cases) - len(crashed)
    assert report.exit_code == 1


def test_giving_up_is_said(path, monkeypatch):
    monkeypatch.setattr("infinitrain_conformance.runner.MAX_CRASHES", 2)
    report = run(Run(Spec("toy", "providers:aborts"), keyword="LinearForward and test_values"), quiet=True)
    assert report.count("crashed") == 2
    assert len(report.problems) == 1
    assert report.problems[0].startswith("gave up after 2 crashes")
    assert report.exit_code == 1


def test_no_more_workers_than_groups_and_cpus(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    suite_run = _SuiteRun(Run(Spec("toy"), workers=1000), tmp_path, None, True)
    for i in range(3):
        suite_run.report.cases[f"ops::t{i}"] = Case(f"ops::t{i}", "L2", "4.1", "ABC"[i])
    assert suite_run.sensible() == 3
    for i in range(40):
        suite_run.report.cases[f"f{i}::t"] = Case(f"f{i}::t", "L1", "3.3")
    assert suite_run.sensible() == 8


def test_death_between_tests(tmp_path):
    """A process that dies after a test's end is that test's crash too, and another one goes on."""
    suite_run = _SuiteRun(Run(Spec("toy")), tmp_path, None, True)
    suite_run.report.cases["a::b"] = Case("a::b", "L1", "3.3")
    suite_run.report.results["a::b"] = Result("a::b", "passed")
    worker = Worker(0, tmp_path)
    worker.last_test = ("a::b", time.time())
    assert suite_run.lost(worker, -signal.SIGSEGV)
    (crashed,) = suite_run.report.of("crashed")
    assert crashed.message == "was ended by SIGSEGV right after the test, which passed"
    assert Report().read(read_journal(worker.journal)).results["a::b"] == crashed  # the next process skips it


def test_death_before_any_test_ends_the_run(tmp_path):
    suite_run = _SuiteRun(Run(Spec("toy")), tmp_path, None, True)
    worker = Worker(0, tmp_path)
    worker.output = lambda: "libchip.so: undefined symbol"
    assert not suite_run.lost(worker, 127)
    assert suite_run.report.exit_code == 3
    said = "the suite ended with exit code 127 before its first test:\nlibchip.so: undefined symbol"
    assert suite_run.report.abort == (3, said)


def test_death_after_the_last_test(tmp_path):
    """At exit, when all tests have passed: contract 3.11."""
    suite_run = _SuiteRun(Run(Spec("toy")), tmp_path, None, True)
    worker = Worker(0, tmp_path)
    worker.kinds.add("end")
    assert not suite_run.lost(worker, 0)
    assert suite_run.report.of("crashed") == []
    assert not suite_run.lost(worker, -signal.SIGABRT)
    assert [r.id for r in suite_run.report.of("crashed")] == ["process::exit"]
    assert suite_run.report.exit_code == 1


def test_in_process():
    command = [sys.executable, "-m", "infinitrain_conformance", "--backend", "cpu", "--in_process"]
    command += ["-k", "test_parse or test_prints", "--", "--setup-show"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ran 2 of 2" in done.stdout
    assert "SETUP    F target" in done.stdout  # pytest's own output, for who debugs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_reports_what_ran(number, tmp_path):
    """Ctrl-C ends all workers, the one that hangs too."""
    process = started(tmp_path, "--workers", "2", "-k", "LinearForward-odd-float32 or test_parse")
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "ran 1 of" in out
    assert "interrupted" in out
    with pytest.raises(ProcessLookupError):  # the worker is gone
        os.kill(int((tmp_path / "pids").read_text()), 0)


def started(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command on a provider that hangs, and return once it does."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    env |= {"CONFORMANCE_TEST_PIDS": str(tmp_path / "pids"), "TMPDIR": str(tmp_path)}  # which it leaves there
    command = [sys.executable, "-m", "infinitrain_conformance", "--backend", "toy", *arguments]
    command += ["--backend_module", "providers:hangs_noted"]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return process


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "arguments", [("-k", "LinearForward-odd-float32"), ("--faults", "LinearForward.ignores_bias")]
)
def test_workers_end_with_a_parent_that_is_killed(tmp_path, arguments):
    """Which then can end nobody itself."""
    process = started(tmp_path, *arguments)
    process.kill()
    process.communicate(timeout=30)
    worker, deadline = int((tmp_path / "pids").read_text()), time.monotonic() + 10
    while time.monotonic() < deadline and is_there(worker):
        time.sleep(0.1)
    assert not is_there(worker)


def test_no_limit_is_none(tmp_path):
    """``--timeout 0``: a process that says nothing for long is left alone."""
    worker = Worker(0, tmp_path)
    worker.start([sys.executable, "-c", "import time; time.sleep(60)"], os.environ)
    worker._changed -= 1e6
    assert worker.poll(0) is None
    assert worker.poll(5) == -signal.SIGKILL
    assert worker.was_hanging


def test_empty_report_is_no_success():
    assert Report().exit_code == 4
