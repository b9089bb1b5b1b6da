"""One signal asks, two insist, and afterwards everything is as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from infinitrain_examples.interrupt import Interrupt


@pytest.mark.parametrize(
    ("number", "name", "code"),
    [(signal.SIGINT, "SIGINT", 130), (signal.SIGTERM, "SIGTERM", 143), (signal.SIGHUP, "SIGHUP", 129)],
)
def test_a_signal_sets_the_flag(
    number: signal.Signals, name: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(number, signal.default_int_handler)
    try:
        with Interrupt() as stop:
            assert not stop
            assert (stop.name, stop.exit_code) == ("", 0)
            os.kill(os.getpid(), number)
            assert stop
        assert (stop.name, stop.exit_code) == (name, code)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert "a second signal stops at once" in capfd.readouterr().err


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with Interrupt() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stop
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), Interrupt():
        _ = 1 // 0
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_broken_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", broken)
    with Interrupt() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop


def test_once_settled_nothing_changes_any_more() -> None:
    with Interrupt() as stop:
        stop.settle()
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.name, stop.exit_code) == ("", 0)


def test_outside_the_main_thread_it_does_nothing() -> None:
    results: list[object] = []

    def work() -> None:
        try:
            with Interrupt() as stop:
                results.append(bool(stop))
        except ValueError as error:
            results.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [False]


@pytest.mark.multiproc
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_at_once_and_the_first_decides(second: signal.Signals) -> None:
    program = (
        "import os, signal, time\n"
        "from infinitrain_examples.interrupt import Interrupt\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with Interrupt(lambda: print('cleaned', flush=True)) as stop:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"  # a repeat: does not count
        "    assert stop\n"
        "    time.sleep(1.1)\n"
        f"    os.kill(os.getpid(), {int(second)})\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (130, b"cleaned\n")
    assert b"Traceback" not in done.stderr
