"""Running the suite in a process of its own, so that a crash or hang costs one test, not the report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from . import suite
from .plugin import DEFAULT_TIMEOUT, read_journal
from .report import NO_BACKEND, USAGE, Report, Result
from .target import Spec

SUITE: Final = Path(next(iter(suite.__path__)))
MAX_CRASHES: Final = 8
GRACE: Final = 20.0
"""Seconds that a process gets beyond a test's timeout, and for its exit, before it is killed."""


@dataclass(frozen=True)
class Run:
    """What to run on which backend."""

    spec: Spec
    levels: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    keyword: str | None = None
    first: str | None = None
    exclude: tuple[str, ...] = ()
    seed: int = 0
    timeout: float = DEFAULT_TIMEOUT
    stop_at_failure: bool = False
    pytest_args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, journal: Path) -> list[str]:
        """Return the command of the process that runs the tests."""
        args = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(SUITE / "pytest.ini"),
            "--rootdir",
            str(SUITE),
            str(SUITE),
        ]
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
        if self.keyword is not None:
            args += ["-k", self.keyword]
        if self.stop_at_failure:
            args.append("-x")
        return [*args, *self.pytest_args]


def run(what: Run, *, quiet: bool = False) -> Report:
    """Run the tests and return the report. With ``quiet`` pytest's own output is dropped."""
    with tempfile.TemporaryDirectory(prefix="infinitrain-conformance-") as folder:
        journal, output = Path(folder) / "journal.jsonl", Path(folder) / "output.txt"
        journal.touch()
        for _ in range(MAX_CRASHES):
            code = _run_process(what, journal, output if quiet else None)
            if not _lost(what, journal, code, output.read_text(errors="replace") if quiet else ""):
                break
        return Report().read(read_journal(journal))


def _run_process(what: Run, journal: Path, output: Path | None) -> int:
    # Other plugins that happen to be installed would make two runs of the suite differ.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **what.env}
    env.pop("PYTEST_ADDOPTS", None)
    with open(output, "w") if output is not None else open(os.devnull) as sink:
        streams = {"stdout": sink, "stderr": subprocess.STDOUT} if output is not None else {}
        process = subprocess.Popen(what.arguments(journal), env=env, **streams)  # type: ignore[call-overload]
        try:
            return _wait(process, what, journal)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], what: Run, journal: Path) -> int:
    """Wait for the process; kill it when neither it nor its watchdog ended it in time."""
    changed, size = time.monotonic(), -1
    limit = (what.timeout or DEFAULT_TIMEOUT) + GRACE
    while True:
        try:
            return process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            now = journal.stat().st_size
            if now != size:
                changed, size = time.monotonic(), now
            elif time.monotonic() - changed > limit:
                process.kill()
                return process.wait()


def _lost(what: Run, journal: Path, code: int, output: str) -> bool:
    """Blame the process's death on the test that ran; return whether others are left for a new process."""
    events = read_journal(journal)
    kinds = [event["event"] for event in events]
    if "abort" in kinds or "stopped" in kinds:
        return False
    if "end" in kinds:
        if code < 0 or code not in (0, 1, 5):
            _append(
                journal,
                Result("process::exit", "failed", 0.0, f"[contract 3.11] {_death(code)} after the last test"),
            )
        return False
    started = {event["id"]: event["time"] for event in events if event["event"] == "start"}
    results = Report().read(events).results
    open_tests = [name for name in started if name not in results]
    if not open_tests:
        usage = code == 4  # pytest's code for arguments that it cannot use
        tail = f":\n{output[-2000:]}" if output else ""
        message = (
            "pytest did not accept its arguments"
            if usage
            else f"the suite {_death(code)} before its first test"
        )
        event = {"event": "abort", "code": USAGE if usage else NO_BACKEND, "message": message + tail}
        with open(journal, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
        return False
    name = open_tests[-1]
    seconds = time.time() - started[name]
    hung = what.timeout and seconds >= what.timeout
    why = f"timeout: no result after {what.timeout:g} s, stacks above" if hung else _death(code)
    if what.stop_at_failure:
        _append(journal, Result(name, "failed", seconds, why))
        return False
    _append(journal, Result(name, "failed", seconds, why))
    return True


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _append(journal: Path, result: Result) -> None:
    records: list[dict[str, object]] = []
    if result.id == "process::exit":
        case = {"id": result.id, "level": "L1", "clause": "3.11", "op": None, "floor": False}
        records.append({"event": "selected", "cases": [case]})
    records.append({"event": "result", "result": dict(vars(result))})
    with open(journal, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
