"""Stop a run soon: Ctrl-C asks, a second Ctrl-C insists. And what the process does outside the run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_NOTICE = b"\nstopping, weights are saved; a second signal stops at once, without saving\n"
_REPEAT_SECONDS = 1.0


class Interrupt:
    """While the `with` block runs, SIGINT, SIGTERM and SIGHUP only set a flag; the object is true once one came.

        with Interrupt() as stop:
            for step in range(steps):
                ...
                if stop:
                    break
            stop.settle()
        sys.exit(stop.exit_code)

    The first signal decides the exit code: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP. A second one ends
    the process at once, after `at_once()`; repeats within a second do not count, since a terminal and a
    program such as `timeout` may both send the same one. A signal that was ignored before (by `nohup`, or in
    a background job) stays ignored. Outside the main thread, where Python cannot handle signals, the flag
    simply stays unset.
    """

    def __init__(self, at_once: Callable[[], object] = lambda: None) -> None:
        self._at_once = at_once
        self._signal: signal.Signals | None = None
        self._time = 0.0
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._signal is not None

    @property
    def name(self) -> str:
        """`SIGINT`, `SIGTERM` or `SIGHUP`; empty if none came."""
        return "" if self._signal is None else self._signal.name

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as shells count; 0 if none came."""
        return 0 if self._signal is None else 128 + self._signal

    def settle(self) -> None:
        """From here on ignore signals: how the run ended is about to be said, and must stay true."""
        for number in self._previous:
            signal.signal(number, signal.SIG_IGN)

    def __enter__(self) -> Interrupt:
        self._previous = _handle_all(self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, previous in self._previous.items():
            # In a command nothing but the exit is left to do, and its status is decided.
            signal.signal(number, signal.SIG_IGN if previous is _leave else previous)
        self._previous.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._signal is None:
            self._signal, self._time = signal.Signals(number), now
            with suppress(OSError):
                # Not print: the signal may have come in the middle of one, and buffered streams do not nest.
                os.write(2, _NOTICE)
        elif now - self._time > _REPEAT_SECONDS:
            with suppress(Exception):
                self._at_once()
            # Not an exception: the step that is being left may be inside a lock or a long computation.
            os._exit(self.exit_code)


def leave_on_signals() -> None:
    """Make signals end the process with their exit code and no traceback: nothing is worth saving yet."""
    _handle_all(_leave)


def ignore_signals() -> None:
    """Make signals change nothing any more: the exit status is decided."""
    _handle_all(signal.SIG_IGN)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)


def _handle_all(handler: Any) -> dict[signal.Signals, Any]:
    """Set `handler` for each signal that is not ignored; return the ones before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    live = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in live}
