"""Start ranks as threads or processes, and end them all together.

    python rank_launch.py thread|process SIZE CONFIG_JSON

Prints ``pids ...`` when the ranks run, ``training`` after each rank's first step, and each rank's result.
Exit status: 0, 1 after a rank's error (told on stderr), 130 after Ctrl-C, 75 for a rank whose launcher died.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

GRACE = 5.0  # seconds from the first rank's end to a kill of the others


def run_threads(size: int, config: Any) -> int:
    """Run thread ranks; return the exit status."""
    from rank_comm import RankError, Threads
    from rank_training import train

    import infinitrain as it

    it.zeros(1)  # first use, which sets malloc up; a thread that exists before keeps an arena of its own
    group = Threads(size, config.count())
    results: list[Any] = [None] * size
    if config.switch:
        sys.setswitchinterval(config.switch)

    def main(rank: int) -> None:
        comm = group.comm(rank)
        try:
            results[rank] = train(comm, config, told)
        except RankError as error:
            say(str(error))
        except BaseException as error:
            comm.fail(f"{type(error).__name__}: {error}")
            say(f"rank {rank} failed: {type(error).__name__}: {error}")

    ranks = [threading.Thread(target=main, args=(r,), name=f"rank {r}") for r in range(size)]
    try:
        for thread in ranks:
            thread.start()
        print("pids", os.getpid(), flush=True)
        for thread in ranks:
            thread.join()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        group.abort("interrupted")
        for thread in ranks:
            if thread.ident is not None:
                thread.join()
        return 130
    if None in results:
        return 1
    for result in results:
        print(json.dumps(vars(result)))
    return 0


def run_processes(size: int, config: Any) -> int:
    """Run process ranks, each a fresh interpreter; return the exit status."""
    from rank_comm import make_memory, make_sockets

    memory, sockets = make_memory(size, config.count()), make_sockets(size)
    lifeline, held = os.pipe()  # its end tells the ranks that the launcher is gone
    ranks: list[subprocess.Popen] = []
    try:
        for rank in range(size):
            fds = {peer: end.fileno() for peer, end in sockets[rank].items()}
            given = {
                "rank": rank,
                "memory": memory,
                "peers": fds,
                "lifeline": lifeline,
                "config": vars(config),
            }
            command = [sys.executable, str(Path(__file__)), "rank", json.dumps(given)]
            ranks.append(subprocess.Popen(command, pass_fds=(memory, lifeline, *fds.values())))
        os.close(memory)
        os.close(lifeline)
        for ends in sockets:
            for end in ends.values():
                end.close()  # or a peer's death would not be the end of the stream
        print("pids", *[r.pid for r in ranks], flush=True)
        return _wait(ranks)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for rank in ranks:
            with contextlib.suppress(ProcessLookupError):
                rank.send_signal(signal.SIGINT)
        _end(ranks)
        return 130
    finally:
        _end(ranks)
        os.close(held)


def _wait(ranks: list[subprocess.Popen]) -> int:
    while all(r.poll() is None for r in ranks):
        time.sleep(0.01)
    deadline = time.monotonic() + GRACE
    while any(r.poll() is None for r in ranks):
        if any(r.poll() for r in ranks) and time.monotonic() > deadline:
            return 1
        time.sleep(0.01)
    return 0 if all(r.returncode == 0 for r in ranks) else 1


def _end(ranks: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + GRACE
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


def run_rank(given: dict[str, Any]) -> int:
    """Be one process rank; return the exit status."""

    def watch() -> None:
        os.read(given["lifeline"], 1)  # nothing is ever written: this returns when the launcher is gone
        os._exit(75)

    threading.Thread(target=watch, daemon=True).start()
    from rank_comm import ProcessComm, RankError

    comm = ProcessComm(given["rank"], given["memory"], {int(r): fd for r, fd in given["peers"].items()})
    try:
        from rank_training import Config, train

        config = Config(**given["config"])
        comm.limit(config.count())
        line = json.dumps(vars(train(comm, config, told))) + "\n"
        os.write(1, line.encode())  # one write: ranks share the pipe
    except RankError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher sends a second one
        comm.fail("interrupted")
        return 130
    except Exception as error:
        comm.fail(f"{type(error).__name__}: {error}")
        say(f"rank {comm.rank} failed: {type(error).__name__}: {error}")
        return 1
    return 0


def told(step: int) -> None:
    if step == 0:
        os.write(1, b"training\n")


def say(text: str) -> None:
    os.write(2, f"{text}\n".encode())


def main() -> int:
    if sys.argv[1] == "rank":
        return run_rank(json.loads(sys.argv[2]))
    from rank_training import Config

    run = {"thread": run_threads, "process": run_processes}[sys.argv[1]]
    return run(int(sys.argv[2]), Config(**json.loads(sys.argv[3])))


if __name__ == "__main__":
    try:
        status = main()
    except KeyboardInterrupt:
        status = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter ends in peace
    sys.exit(status)
