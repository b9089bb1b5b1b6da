"""Threads and processes as ranks: equal bits, and one rank's end is the end of all [contract 6.4, 7.7]."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.multiproc,
    pytest.mark.skipif(not hasattr(os, "memfd_create") or not Path("/proc").is_dir(), reason="needs Linux"),
]

HERE = Path(__file__).parent
MODES = ("thread", "process")
END = 5.0  # seconds from a rank's death to the end of all [contract 6.4]
FOREVER = {"steps": 1_000_000}


class Run:
    """A launcher in a session of its own, with what it may leave behind: processes, shared memory, files."""

    def __init__(self, tmp_path: Path, mode: str, size: int = 2, **config: object) -> None:
        self.files = tmp_path / f"tmp{time.monotonic_ns()}"
        self.files.mkdir()
        self.shared = set(os.listdir("/dev/shm"))
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "rank_launch.py"), mode, str(size), json.dumps(config)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(self.files)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.errors = ""

    def pids(self) -> list[int]:
        """Wait until the ranks are started and return their process ids."""
        assert self.process.stdout is not None
        word, *pids = self.process.stdout.readline().split()
        assert word == "pids"
        return [int(p) for p in pids]

    def until_training(self, ranks: int = 2) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            ranks -= line == "training\n"
            if not ranks:
                return
        pytest.fail(f"no training: {self.process.stderr.read() if self.process.stderr else ''}")

    def end(self, timeout: float = 60.0) -> list[dict]:
        """Wait for the end of every process of the session; return the ranks' results."""
        deadline = time.monotonic() + timeout
        try:
            out, self.errors = self.process.communicate(timeout=timeout)
            while left := self._alive():
                assert time.monotonic() < deadline, f"left running: {left}"
                time.sleep(0.005)
        except (subprocess.TimeoutExpired, AssertionError):
            self._kill()
            raise
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def assert_nothing_left(self) -> None:
        assert not list(self.files.iterdir())
        deadline = time.monotonic() + 2  # others on this machine come and go
        while new := set(os.listdir("/dev/shm")) - self.shared:
            assert time.monotonic() < deadline, f"left in /dev/shm: {new}"
            time.sleep(0.05)

    def _alive(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def _kill(self) -> None:
        for pid in self._alive():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def run(tmp_path: Path, mode: str, size: int = 2, **config: object) -> list[dict]:
    started = Run(tmp_path, mode, size, **config)
    results = started.end()
    assert started.process.returncode == 0, started.errors
    assert not started.errors
    started.assert_nothing_left()
    assert [r["rank"] for r in sorted(results, key=lambda r: r["rank"])] == list(range(size))
    return sorted(results, key=lambda r: r["rank"])


@pytest.fixture
def comm_module(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import rank_comm

    return rank_comm


@pytest.mark.parametrize("steps", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_every_rank_and_every_run_has_the_same_bits(tmp_path, steps):
    runs = [run(tmp_path, mode, steps=steps) for mode in ("thread", "process", "thread", "process")]
    assert len({rank["digest"] for ranks in runs for rank in ranks}) == 1
    for ranks in runs[1:]:
        assert [r["losses"] for r in ranks] == [r["losses"] for r in runs[0]]
    losses = np.mean([r["losses"] for r in runs[0]], 0)
    assert losses[-5:].mean() < 0.9 * losses[:5].mean(), "nothing was learnt: equal bits mean little"
    other = run(tmp_path, "thread", steps=steps, seed=8)
    assert other[0]["digest"] != runs[0][0]["digest"]


@pytest.mark.parametrize("mode", MODES)
def test_two_ranks_are_one_rank_with_twice_the_batch(tmp_path, mode):  # [contract 7.1]
    two, (one,) = run(tmp_path, mode, steps=20, batch=4), run(tmp_path, "thread", 1, steps=20, batch=8)
    np.testing.assert_allclose(np.mean([r["losses"] for r in two], 0), one["losses"], rtol=1e-5)


def test_three_process_ranks_agree(tmp_path):
    ranks = run(tmp_path, "process", 3, steps=10)
    assert len({r["digest"] for r in ranks}) == 1


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("count", [1, 2, 4097, 200_003])
def test_all_reduce_is_the_mean(comm_module, rng, size, count):
    group = comm_module.Threads(size, count)
    values = rng.standard_normal((size, count)).astype(np.float32) * np.arange(1, size + 1)[:, None]
    for buffer, mine in zip(group.buffers, values, strict=True):
        buffer[:] = mine
    ranks = [threading.Thread(target=comm_module.all_reduce_mean, args=(group.comm(r),)) for r in range(size)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    for buffer in group.buffers:
        assert np.array_equal(buffer, group.buffers[0])
    np.testing.assert_allclose(
        group.buffers[0], values.astype(np.float32).mean(0, np.float64), rtol=1e-5, atol=1e-6
    )


@pytest.fixture
def rng():
    return np.random.default_rng(3)


# One rank's misfortune is the end of all --------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attempt", range(2))
def test_an_exception_in_one_rank_ends_the_others_with_its_text(tmp_path, mode, attempt):
    choose = random.Random(f"{mode} {attempt}")
    rank, step = choose.randrange(2), choose.randrange(30)
    started = Run(tmp_path, mode, fail=[rank, step], **FOREVER)
    started.pids()
    started.end(END + 5)  # the ranks take a second or two to start
    assert started.process.returncode == 1
    cause = f"rank {rank} failed: ValueError: injected at step {step}"
    assert set(started.errors.splitlines()) == {
        cause,
        f"rank {1 - rank} stops: {cause}",
    }
    started.assert_nothing_left()


def test_a_rank_that_does_not_come_is_an_error_after_the_timeout(comm_module):
    group = comm_module.Threads(2, 4, timeout=0.1)
    with pytest.raises(comm_module.RankError, match=r"rank 1 stops: the others did not come within 0\.1 s"):
        comm_module.all_reduce_mean(group.comm(1))
    ours, _theirs = comm_module.make_sockets(2)
    comm = comm_module.ProcessComm(0, comm_module.make_memory(2, 4), {1: ours[1].detach()}, timeout=0.1)
    with pytest.raises(comm_module.RankError, match=r"rank 0 stops: rank 1 did not come within 0\.1 s"):
        comm_module.all_reduce_mean(comm)
    for peer in comm._peers.values():
        peer.close()
    _theirs[0].close()


def test_kill_9_of_any_process_at_any_time_ends_all_and_leaves_nothing(tmp_path):
    choose = random.Random(20)
    for attempt in range(20):
        started = Run(tmp_path, "process", **FOREVER)
        ranks = started.pids()
        _assert_no_names(ranks, started.files)
        if attempt % 4 == 0:
            started.until_training()
        time.sleep(choose.uniform(0, 0.15))
        victim = choose.choice([*ranks, started.process.pid])
        began = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        started.end(END)
        took = time.monotonic() - began
        started.assert_nothing_left()
        assert took < END
        if victim in ranks:
            dead = ranks.index(victim)
            assert started.process.returncode == 1
            assert started.errors == f"rank {1 - dead} stops: rank {dead} died without a word\n"


def _assert_no_names(pids: list[int], files: Path) -> None:
    for pid in pids:
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "/dev/shm" not in maps
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                path = os.readlink(fd)
            except OSError:  # closed meanwhile
                continue
            assert not path.startswith(("/dev/shm", str(files))), path


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attempt", range(2))
def test_ctrl_c_ends_all_with_130(tmp_path, mode, attempt):
    started = Run(tmp_path, mode, **FOREVER)
    started.pids()
    started.until_training()
    time.sleep(random.Random(f"{mode} {attempt}").uniform(0, 0.1))
    os.killpg(started.process.pid, signal.SIGINT)
    started.end(END)
    assert started.process.returncode == 130
    assert "Traceback" not in started.errors
    started.assert_nothing_left()


# Fork -------------------------------------------------------------------------------------------------------


# Not beside a thread with 2 BLAS threads: a fork while another thread is inside OpenBLAS's pool hangs parent
# or child, with NumPy alone too. Thread ranks have one BLAS thread each.
@pytest.mark.parametrize(("how", "blas_threads"), [("alone", 1), ("alone", 2), ("beside_thread", 1)])
def test_the_child_of_a_process_that_trained_trains_on_the_cpu(how, blas_threads):  # [contract 3.8]
    done = subprocess.run(
        [sys.executable, str(HERE / "rank_fork.py"), how],
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(blas_threads)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    assert set(told["ended"]) == {"exit 0"}
    if how == "alone":
        assert told["child"] == told["parent"] != ""
