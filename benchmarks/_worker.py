"""Processes that wait until they are told to compute, so that contenders take turns without disturbing each other.

``Worker`` starts this file, which imports a program (a module with a class ``Program``) and answers calls of its
methods: one JSON line each way. Whatever else a library prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CLEARED = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "NUMBA_NUM_THREADS", "MALLOC_", "INFINITRAIN_")
"""What a user's environment must not bring into a comparison."""


class WorkerError(Exception):
    """A worker ended, or a call failed in it; its own words are on stderr."""


class Worker:
    """A process that runs ``program`` (a module beside this file) with an environment and options of its own."""

    def __init__(self, program: str, env: Mapping[str, str], options: Mapping[str, Any]) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(CLEARED)}
        self.program, self.cpu = program, 0.0  # seconds of processor time so far
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, __file__, program, json.dumps(options)],
            env={**kept, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, method: str, **arguments: Any) -> Any:
        """Return what the program's method returns. Raises WorkerError."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the answer below says so
            self.process.stdin.write(json.dumps([method, arguments]) + "\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            raise WorkerError(f"{self.program} ended with status {status} in {method}(); see above")
        answer = json.loads(line)
        self.cpu = answer["cpu"]
        return answer["result"]

    def age(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.began

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def peak_memory() -> int:
    """Return the most bytes that this process had resident at any time."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def _serve(program: str, options: dict[str, Any]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(Path(__file__).parent))
    served = __import__(program).Program(**options)
    for line in sys.stdin:
        method, arguments = json.loads(line)
        result = getattr(served, method)(**arguments)
        print(json.dumps({"result": result, "cpu": time.process_time()}), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], json.loads(sys.argv[2]))
