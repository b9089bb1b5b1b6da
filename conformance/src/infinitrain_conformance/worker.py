"""One process that runs tests, seen from its parent: its journal, its output, its life."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

GRACE: Final = 20.0
"""Seconds that a process gets beyond a test's timeout, and for its exit, before it is killed."""


class Worker:
    """A worker and, after a crash, the next process under its number."""

    def __init__(self, number: int, folder: Path, *, shown: bool = False) -> None:
        self.number, self.shown = number, shown
        self.journal = folder / f"journal-{number}.jsonl"
        self.journal.touch()
        self._out, self._err = folder / f"stdout-{number}.txt", folder / f"stderr-{number}.txt"
        self._process: subprocess.Popen[bytes] | None = None
        self._alive: int | None = None
        self._read = 0
        self._changed = 0.0
        self.kinds: set[str] = set()
        self.last_test: tuple[str, float] | None = None
        self.was_hanging = self.initializing = False

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a process. In a session of its own: an interrupt reaches the parent, which ends all its workers."""
        self._changed, self.was_hanging, self.initializing = time.monotonic(), False, False
        self.last_test = None
        self._close()
        theirs: tuple[int, ...] = ()
        if os.name == "posix":
            read, self._alive = os.pipe()  # which ends with this process, however that ends
            theirs, command = (read,), [*command, "--conformance_parent", str(read)]
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=None if self.shown else out,
                stderr=err,
                start_new_session=True,
                pass_fds=theirs,
            )
        for handle in theirs:
            os.close(handle)

    @property
    def running(self) -> bool:
        """True until the end of the process was dealt with."""
        return self._process is not None

    def poll(self, timeout: float) -> int | None:
        """Return the exit code, or None; kill a process that neither ended nor wrote anything in time."""
        assert self._process is not None
        limit = timeout + GRACE if timeout else math.inf
        if self._process.poll() is None and time.monotonic() - self._changed > limit:
            self.was_hanging = True
            self.kill()
        if self._process is None:
            return -signal.SIGKILL
        code = self._process.returncode
        if code is not None:
            if code != 0:
                self._kill_group(self._process)  # children that a crash left behind
            self._process = None
            self._close()
        return code

    def news(self) -> Iterator[dict[str, Any]]:
        """Yield the events that were not read yet; a line that is not whole yet, or was cut off, is left out."""
        with open(self.journal, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._changed = time.monotonic()
                with contextlib.suppress(ValueError):
                    event: dict[str, Any] = json.loads(line)
                    self.kinds.add(event["event"])
                    if event["event"] == "start":
                        self.last_test = (event["id"], event["time"])
                    elif event["event"] in ("initialize", "initialized"):
                        self.initializing = event["event"] == "initialize"
                    yield event

    def note(self, event: Mapping[str, Any]) -> None:
        """Write an event of the parent's, which ``news`` does not bring back."""
        with open(self.journal, "ab") as file:
            if file.tell() > self._read:
                file.write(b"\n")  # ends a line that was cut off
            file.write((json.dumps(event) + "\n").encode())
            self._read = file.tell()

    def stderr(self) -> str:
        """Return what the last process wrote to stderr."""
        return self._err.read_text(errors="replace") if self._err.exists() else ""

    def output(self) -> str:
        """Return all that the last process wrote."""
        return self._out.read_text(errors="replace") + self.stderr()

    def kill(self) -> None:
        """End the process, with the processes that its tests started."""
        if self._process is not None:
            self._kill_group(self._process)
            self._process.wait()
            self._process = None
        self._close()

    def _close(self) -> None:
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None

    @staticmethod
    def _kill_group(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def death(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
