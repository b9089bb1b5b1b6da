"""Stop a run between two steps: Ctrl-C asks, a second Ctrl-C insists."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_NOTICE = b"\nstopping after this step; a second signal stops at once\n"


class Interrupt:
    """While the `with` block runs, SIGINT and SIGTERM only set a flag; the object is true once one came.

        with Interrupt() as stop:
            for step in range(steps):
                ...
                if stop:
                    break
        sys.exit(stop.exit_code)

    The second signal ends the process at once, with the same exit code: 130 for SIGINT, 143 for SIGTERM. A
    signal that was ignored before (by `nohup`, or in a background job) stays ignored. Outside the main
    thread, where Python cannot handle signals, the flag simply stays unset.
    """

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._signal is not None

    @property
    def name(self) -> str:
        """`SIGINT` or `SIGTERM`; empty if none came."""
        return "" if self._signal is None else self._signal.name

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as shells count; 0 if none came."""
        return 0 if self._signal is None else 128 + self._signal

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        self._previous.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._signal is not None:
            # Not an exception: the step that is being left may be inside a lock or a long computation.
            os._exit(128 + number)
        self._signal = signal.Signals(number)
        # Not print: the signal may have come in the middle of one, and buffered streams do not nest.
        os.write(2, _NOTICE)
