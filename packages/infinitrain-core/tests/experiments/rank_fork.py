"""Fork a process that trains, and train in the child. Prints one line of JSON.

python rank_fork.py alone          fork between two steps; parent and child go on with the same training
python rank_fork.py beside_thread  fork again and again while another thread trains
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from rank_comm import Threads
from rank_training import Config, train

LIMIT = 10.0  # seconds until a child counts as hung


def solo(config: Config) -> Any:
    return Threads(1, config.count()).comm(0)


def wait(child: int) -> str:
    """Return how the child ended; it is killed when it hangs."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return f"exit {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hung"


def alone() -> dict[str, Any]:
    config = Config(steps=12, width=64)
    reader, writer = os.pipe()
    child = -1

    def fork(step: int) -> None:
        nonlocal child
        if step == 5:
            child = os.fork()

    result = train(solo(config), config, fork)
    if child == 0:
        os.write(writer, result.digest.encode())
        os._exit(0)
    ended = wait(child)
    os.close(writer)
    return {"ended": [ended], "parent": result.digest, "child": os.read(reader, 100).decode()}


def beside_thread(forks: int = 10) -> dict[str, Any]:
    config = Config(steps=3, width=128)
    done, busy = threading.Event(), threading.Event()

    def work() -> None:
        large = Config(steps=1_000_000, batch=8, time=64, width=256)

        def step(number: int) -> None:
            busy.set()
            if done.is_set():
                raise StopIteration

        with contextlib.suppress(StopIteration):
            train(solo(large), large, step)

    thread = threading.Thread(target=work)
    thread.start()
    busy.wait(LIMIT)
    ended = []
    for i in range(forks):
        time.sleep(0.003 * i)  # another place in the step each time
        child = os.fork()
        if child == 0:
            train(solo(config), config)
            os._exit(0)
        ended.append(wait(child))
    done.set()
    thread.join()
    return {"ended": ended}


if __name__ == "__main__":
    print(json.dumps({"alone": alone, "beside_thread": beside_thread}[sys.argv[1]]()), flush=True)
