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
    ("number", "name", "code"), [(signal.SIGINT, "SIGINT", 130), (signal.SIGTERM, "SIGTERM", 143)]
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
@pytest.mark.parametrize(("second", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_at_once(second: signal.Signals, code: int) -> None:
    program = (
        "import os, signal, time\n"
        "from infinitrain_examples.interrupt import Interrupt\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "with Interrupt() as stop:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    assert stop\n"
        f"    os.kill(os.getpid(), {int(second)})\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
