"""`--threads`, what a run says about it, and that a run has neither a compiler nor a second pool of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from infinitrain_examples import gpt2

SMALL = ["--n_layer", "1", "--n_embd", "16", "--n_head", "2", "--batch_size", "2", "--sequence_length", "8"]
SHORT = [*SMALL, "--num_iteration", "2", "--val_batches", "1", "--text_length", "5"]


def run(code: str, *argv: str, **environ: str) -> str:
    """Return what a program prints; it finds `argv` in sys.argv."""
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], check=False, env=env | environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


MAIN = "import sys\nfrom infinitrain_examples.gpt2 import main\nassert main(sys.argv[1:]) == 0\n"


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("flags", "environ", "number", "described"),
    [
        (["--threads", "2"], {"INFINITRAIN_NUM_THREADS": "1"}, 2, "; 2 threads, "),
        ([], {"INFINITRAIN_NUM_THREADS": "1"}, 1, "; 1 thread, "),
        (
            ["--threads", "1"],
            {"INFINITRAIN_NUMBA": "0"},
            1,
            "; 1 thread, NumPy kernels (INFINITRAIN_NUMBA=0 turns",
        ),
    ],
)
def test_threads_are_said_and_recorded(
    flags: list[str], environ: dict[str, str], number: int, described: str, tmp_path: Path
) -> None:
    code = f"{MAIN}import infinitrain\nassert infinitrain.get_num_threads() == {number}"
    out = run(code, *SHORT, *flags, "--run_dir", str(tmp_path / "run"), **environ)
    assert described in out.splitlines()[1]
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["device"]["threads"] == number


def test_a_wrong_variable_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INFINITRAIN_NUM_THREADS", "many")
    monkeypatch.setattr("infinitrain.cpu.threads._chosen", None)
    assert gpt2.main(SHORT) == 2
    error = capsys.readouterr().err
    assert (
        error == "infinitrain-gpt2: error: INFINITRAIN_NUM_THREADS='many': a number of threads, 1 .. 1024\n"
    )


@pytest.mark.multiproc
def test_after_the_warmup_a_run_compiles_nothing(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")
    warm = [sys.executable, "-m", "infinitrain", "warmup"]
    subprocess.run(warm, check=True, capture_output=True)
    count = (
        "from numba.core import event\n"
        "seen = event.RecordingListener()\n"
        "event.register('numba:compile', seen)\n"
        f"{MAIN}"
        "print('compiled', [str(e.data['dispatcher']) for _, e in seen.buffer])\n"
    )
    for name, flags in {
        "small": SHORT,
        "sgd": [*SHORT, "--optimizer", "sgd", "--momentum", "0.9", "--total_batch_size", "64"],
        "tiny": ["--num_iteration", "2", "--val_batches", "1", "--text_length", "5", "--threads", "2"],
    }.items():
        out = run(count, *flags, "--run_dir", str(tmp_path / name))
        assert out.splitlines()[-1] == "compiled []"


THREADS_OF_BLAS = """
import os, sys, time
import numpy as np

def ticks(threads):
    found = 0
    for thread in threads:
        with open(f"/proc/self/task/{thread}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        found += int(fields[11]) + int(fields[12])
    return found

a = np.ones((600, 600), np.float32)
if "--first" in sys.argv:
    sys.argv.remove("--first")
    for _ in range(20):
        a @ a
    time.sleep(0.3)  # what has had work spins on for a while
blas = set(os.listdir("/proc/self/task")) - {str(os.getpid())}
before = ticks(blas)
"""


@pytest.mark.multiproc
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts the ticks of threads in /proc")
@pytest.mark.parametrize("first", [[], ["--first"]])
def test_a_run_leaves_the_threads_of_blas_asleep(first: list[str], tmp_path: Path) -> None:
    """OpenBLAS starts them when it is loaded; they get no work, also where the program used NumPy's matmul before."""
    pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")
    report = "print(ticks(blas) - before, round(time.process_time() * os.sysconf('SC_CLK_TCK')))\n"
    flags = ["--num_iteration", "10", "--val_batches", "1", "--text_length", "5", "--threads", "2"]
    out = run(THREADS_OF_BLAS + MAIN + report, *first, *flags, "--run_dir", str(tmp_path / "run"))
    worked, total = map(int, out.splitlines()[-1].split())
    assert total > 50, "this would not notice"
    assert worked < 0.02 * total + 10  # they spin for a while when they are new
