"""However a run ends, its weights are kept or missed aloud; whatever the standard streams are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinitrain.device import CPU
from infinitrain.errors import OutOfMemoryError
from infinitrain_examples import gpt2
from infinitrain_examples.config import parse
from infinitrain_examples.interrupt import Interrupt
from infinitrain_examples.resolve import resolve
from infinitrain_examples.sources import load_data

SMALL = ["--n_layer", "1", "--n_embd", "16", "--n_head", "2", "--batch_size", "2", "--sequence_length", "8"]
SHORT = [*SMALL, "--num_iteration", "3", "--val_batches", "1", "--text_length", "5"]
COMMAND = [sys.executable, "-m", "infinitrain_examples.gpt2"]
posix = pytest.mark.skipif(os.name != "posix", reason="signals and /dev")


@pytest.fixture
def failing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*flags: str) -> str:
        assert gpt2.main([*SHORT, "--run_dir", str(tmp_path / "run"), *flags]) == 2
        err = capsys.readouterr().err
        assert err.startswith("infinitrain-gpt2: error: ")
        assert err.count("\n") == 1
        return err

    return run


def raising(error: Exception, after: int = 0) -> Callable[..., Any]:
    """Return a function that raises `error` once it was called `after` times."""
    calls = iter(range(after))

    def function(*_: Any, **__: Any) -> None:
        if next(calls, None) is None:
            raise error

    return function


@pytest.mark.parametrize(("prompt", "token"), [("xyz", 122), ("\u00e9", 195)])
def test_a_prompt_outside_the_vocabulary_is_found_before_the_run(
    failing: Callable[..., str], tmp_path: Path, prompt: str, token: int
) -> None:
    (tmp_path / "t").write_bytes(b"abab" * 200)
    err = failing("--input_text", str(tmp_path / "t"), "--vocab_size", "100", "--prompt", prompt)
    assert f"--prompt {prompt!r} contains token {token}, outside the vocabulary of 100 tokens" in err
    assert f"--vocab_size {token + 1}" in err
    assert not (tmp_path / "run").exists()


def test_training_that_diverges_keeps_row_and_weights(failing: Callable[..., str], tmp_path: Path) -> None:
    err = failing("--learning_rate", "1e30", "--num_iteration", "50")
    assert "norm of the gradients is" in err
    assert "--weight_decay" in err
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["grad_norm"] is None
    assert f"stopped after step {rows[-1]['step']}; the weights are in '{tmp_path}/run/model.saf" in err
    assert (tmp_path / "run/model.safetensors").exists()
    assert (tmp_path / "run/loss.png").exists()
    assert "failed: the norm" in (tmp_path / "run/log.txt").read_text()


def test_memory_that_runs_out_keeps_the_weights(
    failing: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt2, "generate", raising(OutOfMemoryError(CPU, 2**40)))
    err = failing("--freq_generate_txt", "2")
    assert "out of memory" in err
    assert "or a smaller model: --n_layer, --n_embd; stopped" in err
    assert "stopped after step 2; the weights are in" in err
    assert (tmp_path / "run/model.safetensors").exists()


def test_weights_are_there_before_the_last_text(
    failing: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(*_: Any, **__: Any) -> None:
        assert (tmp_path / "run/model.safetensors").exists()
        raise OutOfMemoryError(CPU, 2**40)

    monkeypatch.setattr(gpt2, "generate", generate)
    assert "stopped after step 3; the weights are in" in failing()


def test_a_full_disk_says_that_the_weights_are_lost(
    failing: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(gpt2, "save_weights", raising(full))
    err = failing()
    assert "stopped after step 3; the weights are lost (cannot write" in err
    assert err.endswith("model.safetensors': No space left on device)\n")


def test_a_run_that_fails_at_once_has_no_weights(
    failing: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpt2, "clip_grad_norm", raising(OutOfMemoryError(CPU, 2**40)))
    assert failing().endswith("stopped after step 0; there are no weights yet\n")
    assert not (tmp_path / "run/model.safetensors").exists()


def test_a_bug_keeps_its_traceback_and_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpt2, "generate", raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError) as error:
        gpt2.main([*SHORT, "--run_dir", str(tmp_path / "run"), "--freq_generate_txt", "1"])
    assert "stopped after step 1; the weights are in" in error.value.__notes__[0]
    assert (tmp_path / "run/model.safetensors").exists()


def started(folder: Path, *flags: str, wait_for: str = "metrics.jsonl", **streams: Any) -> subprocess.Popen:
    """Start a run and return once the file `wait_for` has content."""
    process = subprocess.Popen([*COMMAND, *SMALL, "--run_dir", str(folder), *flags], **streams)
    deadline = time.monotonic() + 60
    path = folder / wait_for
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


@posix
@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("flags", "wait_for"),
    [
        (["--num_iteration", "1", "--text_length", "1000000"], "model.safetensors"),
        (["--num_iteration", "9", "--total_batch_size", "3200000"], "log.txt"),
        (["--num_iteration", "9", "--val_loss_every", "1", "--val_batches", "1000000"], "log.txt"),
    ],
    ids=["text", "accumulation", "validation"],
)
def test_long_loops_stop_on_a_signal(flags: list[str], wait_for: str, tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    process = started(tmp_path / "run", *flags, wait_for=wait_for, stdout=pipe, stderr=pipe)
    try:
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 143, err
    assert b"interrupted by SIGTERM after" in out
    assert b"Traceback" not in err
    assert (tmp_path / "run/model.safetensors").exists()


@posix
@pytest.mark.multiproc
def test_closed_and_full_streams_do_not_end_a_run(tmp_path: Path) -> None:
    def close() -> None:
        os.close(2)

    with open("/dev/full", "w") as full:
        process = started(tmp_path / "run", "--num_iteration", "100000", stdout=full, preexec_fn=close)
    try:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    finally:
        process.kill()
        process.wait()
    for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines():
        assert json.loads(line)["step"] > 0
    assert "interrupted by SIGINT" in (tmp_path / "run/log.txt").read_text()


@posix
@pytest.mark.multiproc
@pytest.mark.parametrize("redirections", [">&-", "2>&-", ">&- 2>&- <&-", "> /dev/full", "2> /dev/full"])
def test_streams_do_not_change_the_exit_status(redirections: str, tmp_path: Path) -> None:
    for flags, status in (("--help", 0), ("--num_iteration 0", 2), ("--help | true", 0)):
        command = (
            f"{sys.executable} -m infinitrain_examples.gpt2 {flags} {redirections}; exit ${{PIPESTATUS[0]}}"
        )
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == status, done
        assert b"Traceback" not in done.stderr + done.stdout


@posix
@pytest.mark.multiproc
@pytest.mark.parametrize("delay", [0.12, 0.3])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_during_the_start_leaves_no_trace(
    number: int, status: int, delay: float, tmp_path: Path
) -> None:
    code = (
        "import os, sys, threading\n"
        "from infinitrain_examples import cli\n"
        f"timer = threading.Timer({delay}, os.kill, (os.getpid(), {int(number)})); timer.daemon = True\n"
        "timer.start(); sys.exit(cli.main())\n"
    )
    command = [sys.executable, "-c", code, *SMALL, "--num_iteration", "100000", "--run_dir", "r"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == status, done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") <= 2


@posix
@pytest.mark.multiproc
@pytest.mark.parametrize(("flags", "expected"), [([], 0), (["--num_iteration", "0"], 2)])
def test_a_signal_after_the_last_line_changes_nothing(
    tmp_path: Path, flags: list[str], expected: int
) -> None:
    code = (
        "import atexit, os, signal, sys\n"
        "from infinitrain_examples import cli\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "status = cli.main(); os.kill(os.getpid(), signal.SIGINT); sys.exit(status)\n"
    )
    command = [sys.executable, "-c", code, *SHORT, "--run_dir", "r", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == expected
    assert done.stderr.count(b"\n") == (expected == 2)


@posix
def test_a_signal_while_the_picture_is_drawn_is_reported_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpt2.RunDir, "draw", lambda run: os.kill(os.getpid(), signal.SIGTERM))
    assert gpt2.main([*SHORT, "--run_dir", str(tmp_path / "run")]) == 143
    assert "interrupted by SIGTERM after 3/3 steps" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@posix
@pytest.mark.multiproc
def test_a_second_signal_while_weights_are_written_leaves_no_pieces(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time\n"
        "from infinitrain_examples import cli, gpt2\n"
        "from infinitrain.data import atomic_write\n"
        "def slow(model, path):\n"
        "    with atomic_write(path) as file:\n"
        "        file.write(b'half')\n"
        "        os.kill(os.getpid(), signal.SIGINT); time.sleep(1.1); os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(60)\n"
        "gpt2.save_weights = slow\n"
        "sys.exit(cli.main())\n"
    )
    command = [sys.executable, "-c", code, *SHORT, "--run_dir", "r"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 130, done.stderr
    assert sorted(p.name for p in (tmp_path / "r").iterdir()) == ["config.toml", "log.txt", "metrics.jsonl"]


@posix
def test_a_signal_while_the_end_is_told_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish = gpt2.RunDir.finish

    def signalled(run: gpt2.RunDir, *, interrupted_by: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        finish(run, interrupted_by=interrupted_by)

    monkeypatch.setattr(gpt2.RunDir, "finish", signalled)
    assert gpt2.main([*SHORT, "--run_dir", str(tmp_path / "run")]) == 0
    assert "done: 3/3 steps" in capsys.readouterr().out


def test_validation_ends_with_the_batch_in_which_it_is_stopped() -> None:
    config = resolve(parse([*SMALL, "--val_batches", "9"]))
    data = load_data(config)
    config = data.complete(config)
    model, batches = gpt2.build_model(config, CPU), []
    model.register_forward_pre_hook(lambda module, args: batches.append(args[0].shape))
    stop = Interrupt()
    assert gpt2.validate(model, data, config, CPU, stop) == pytest.approx(5.55, abs=0.3)
    assert len(batches) == 9
    model.register_forward_pre_hook(lambda module, args: stop._handle(signal.SIGINT, None))
    assert gpt2.validate(model, data, config, CPU, stop) is None
    assert len(batches) == 10
    assert model.training
