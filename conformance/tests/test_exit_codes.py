"""Exit codes, and that each says why on one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest


def test_conformant(command):
    got = command("--backend", "cpu", "-k", "test_parse or test_fill")
    assert got.code == 0, got.out
    assert got.report["summary"]["ran"] == got.report["summary"]["selected"] > 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give --backend NAME"),
        (("--backend", "cpu", "--level", "L9"), "--level 'L9': one of L0"),
        (("--backend", "CPU"), "--backend 'CPU' is no device text"),
        (("--backend", "cpu", "--backend_option", "x"), "'x' is not of the form name=value"),
        (("--backend", "cpu", "--nonsense"), "unrecognized arguments: --nonsense"),
        (("--level", "L0", "--faults"), "--faults takes names of faults"),
        (("--backend", "cpu", "--workers", "0"), "--workers 0: 1 or more"),
        (("--backend", "cpu", "--timeout", "nan"), "--timeout: 'nan': seconds from 0"),
        (("--backend", "cpu", "--timeout", "inf"), "--timeout: 'inf': seconds from 0"),
        (("--backend", "cpu", "--timeout=-1"), "--timeout: '-1': seconds from 0"),
        (("--backend", "cpu", "--timeout", "soon"), "--timeout: 'soon': seconds from 0"),
        (("--backend", "cpu", "--workers", "-1"), "--workers -1: 1 or more"),
        (
            ("--backend", "cpu", "--op", "RmsNormForwrd"),
            "'RmsNormForwrd' is no op; did you mean 'RmsNormForward'?",
        ),
        (("--backend", "cpu", "--op", "Qqq"), "'Qqq' is no op; docs/ops.md lists them"),
        (("--backend", "cpu", "-k", "foo and"), "-k 'foo and': expected not OR left parenthesis"),
        (("--backend", "cpu", "--workers", "2", "--in_process"), "drop --workers"),
        (("--backend", "cpu", "--xfail", "/no/such.toml"), "--xfail /no/such.toml: there is no such file"),
        (("--backend", "cpu", "--known_skips", "x.toml"), "--known_skips x.toml: there is no such file"),
        (("--backend", "cpu", "--op", "Cast", "--write_known_skips", "x.toml"), "drop what narrows it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_usage(command, arguments, said):
    got = command(*arguments, json=False)
    assert got.code == 2
    assert said in got.err
    assert len(got.err.strip().splitlines()) == 1


def test_what_pytest_refuses_is_usage(command):
    got = command("--backend", "cpu", "--", "--no-such-flag")
    assert got.code == 2
    assert "unrecognized arguments: --no-such-flag" in got.out + got.err
    assert "?" not in got.out


@pytest.mark.multiproc
def test_wrong_index_is_usage(toy, command):
    got = toy("good", "--level", "L1", "-k", "test_malloc")
    assert got.code == 0
    got = command("--backend", "toy:7", "--backend_module", "providers:good", "-k", "test_malloc")
    assert got.code == 2
    assert "--backend toy:7: toy has 1 device, toy:0" in got.out


@pytest.mark.multiproc
@pytest.mark.parametrize("registrar", ["dies_at_start", "exits_at_start"])
def test_death_in_initialize_is_told_once(toy, registrar):
    got = toy(registrar, "--workers", "2", "-k", "test_prints or test_malloc or LinearForward-odd")
    assert got.code == 3
    assert got.crashed() == []
    assert got.out.count("the runtime's initialize ended the process") == 1
    assert ("was ended by SIGSEGV" if registrar == "dies_at_start" else "ended with exit code 9") in got.out
    if registrar == "dies_at_start":
        assert "in initialize" in got.out


def test_json_folder_is_checked_first(command):
    got = command("--backend", "cpu", "--json", "/no/such/folder/x.json", json=False)
    assert got.code == 2
    assert "/no/such/folder" in got.err


@pytest.mark.multiproc
def test_not_installed(command):
    got = command("--backend", "no_such_chip")
    assert got.code == 3
    assert "no_such_chip" in got.out
    assert "Registered: cpu" in got.out
    assert got.report["summary"]["exit_code"] == 3


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("registrar", "cause"),
    [
        ("raises", "libchip.so.3: cannot open shared object file"),
        ("of_no_contract", "contract=None"),
        ("no_such_function", "no_such_function"),
    ],
)
def test_does_not_register(toy, registrar, cause):
    got = toy(registrar, "--level", "L0")
    assert got.code == 3
    assert cause in got.out


@pytest.mark.multiproc
def test_does_not_start(toy):
    got = toy("does_not_start", "-k", "test_name or test_malloc")
    assert got.code == 3
    assert "driver 1.2 is too old" in got.out


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("registrar", "cause"), [("without_card", "no card answers"), ("without_library", "libchip.so.3")]
)
def test_no_device(toy, registrar, cause):
    """L0 runs and is reported, the rest is skipped."""
    got = toy(registrar, "-k", "test_prints or test_malloc or LinearForward-odd")
    assert got.code == 6, got.out
    assert cause in got.out
    assert got.report["summary"]["levels"]["L0"]["passed"] > 0
    assert "no device, so L0 only" in got.out
    assert {t["outcome"] for t in got.tests.values() if t["level"] != "L0"} == {"skipped"}


@pytest.mark.multiproc
def test_hang_in_initialize_is_told_once(toy):
    got = toy("hangs_at_start", "--timeout", "2", "--level", "L1", "-k", "test_malloc")
    assert got.code == 3
    assert "the runtime's initialize did not end: timeout: no result after 2 s" in got.out
    assert "in initialize" in got.out


@pytest.mark.multiproc
def test_no_device_and_no_test_of_l0(toy):
    got = toy("without_card", "--level", "L1", "-k", "test_malloc")
    assert got.code == 6
    assert "L0 only" not in got.out


def test_nothing_ran(command):
    got = command("--backend", "cpu", "-k", "no_test_is_called_so")
    assert got.code == 4
    assert "nothing ran" in got.out


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_imports_no_core(arguments):
    """Neither help nor usage errors import infinitrain, let alone touch a device."""
    code = (
        "import sys\nfrom infinitrain_conformance.cli import main\n"
        f"try: main({list(arguments)!r})\nexcept SystemExit: pass\n"
        "assert 'infinitrain' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SMALL_RUN = [sys.executable, "-m", "infinitrain_conformance", "--backend", "cpu", "-k", "test_parse"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
@pytest.mark.parametrize(
    ("where", "said"),
    [("/dev/full", "cannot write to stdout: No space left on device"), (None, "stdout is closed")],
)
def test_stdout_that_takes_nothing(where, said):
    if where is None:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *SMALL_RUN]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    else:
        with open(where, "w") as full:
            done = subprocess.run(SMALL_RUN, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == f"infinitrain-conformance: {said}\n"
    assert done.returncode == 2


def test_stdout_that_nobody_reads():
    read, written = os.pipe()
    os.close(read)
    done = subprocess.run(SMALL_RUN, stdout=written, stderr=subprocess.PIPE, text=True, check=False)
    os.close(written)
    assert done.stderr == "infinitrain-conformance: cannot write to stdout: Broken pipe\n"
    assert done.returncode == 2


def no_room(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "what", ["tempfile.TemporaryDirectory", "infinitrain_conformance.worker.Worker.start"]
)
def test_no_room_for_temporary_files(command, monkeypatch, what):
    monkeypatch.setattr(what, no_room)
    got = command("--backend", "cpu", "-k", "test_parse", json=False)
    remedy = "free space, or set TMPDIR to another folder"
    assert got.err == (
        f"infinitrain-conformance: cannot write temporary files: No space left on device; {remedy}\n"
    )
    assert (got.code, got.out) == (2, "")


def test_a_worker_without_room_ends_the_run(command, monkeypatch, tmp_path):
    """Its files may not grow beyond a kilobyte."""
    from infinitrain_conformance import runner

    right = runner.Worker.start

    def start(worker, given, env):
        right(worker, ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *given], env)

    monkeypatch.setattr(runner.Worker, "start", start)
    got = command("--backend", "cpu", "-k", "test_parse", json=False)
    assert got.code == 2
    assert got.err.startswith(
        "infinitrain-conformance: cannot write temporary files: No space left on device;"
    )
    assert len(got.err.splitlines()) == 1


def test_no_room_for_the_report(command, monkeypatch):
    monkeypatch.setattr("infinitrain_conformance.report.Report.write", no_room)
    got = command("--backend", "cpu", "-k", "test_parse")
    assert got.code == 2
    assert "report.json: No space left on device" in got.err
    assert len(got.err.splitlines()) == 1


def test_collection_needs_no_backend():
    """Collecting the tests loads no provider, so one that is not installed does not matter."""
    from infinitrain_conformance.runner import SUITE

    command = [sys.executable, "-m", "pytest", "-c", str(SUITE / "pytest.ini"), str(SUITE), "--collect-only"]
    command += ["-p", "infinitrain_conformance.plugin", "-p", "no:infinitrain_conformance"]
    done = subprocess.run(
        [*command, "--conformance_backend", "no_such_chip"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "test_malloc" in done.stdout
