"""infinitrain-gpt2 from the command line to the files, and what it says to mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinitrain_examples import gpt2

SMALL = ["--n_layer", "1", "--n_embd", "16", "--n_head", "2", "--batch_size", "2", "--sequence_length", "8"]
SHORT = [*SMALL, "--num_iteration", "3", "--val_batches", "1", "--text_length", "5"]


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[dict[str, Any]], str]]:
    """Return a function that runs `main` with flags and returns the metrics and what was printed."""

    def run_it(*flags: str, name: str = "run") -> tuple[list[dict[str, Any]], str]:
        folder = tmp_path / name
        assert gpt2.main([*SHORT, "--run_dir", str(folder), *flags]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return rows, captured.out

    return run_it


def test_a_run_from_end_to_end(run: Callable[..., Any], tmp_path: Path) -> None:
    rows, out = run()
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert 5.3 < rows[0]["train_loss"] < 5.8  # ln 256 = 5.55
    assert [("val_loss" in row) for row in rows] == [False, False, True]
    assert all(row["grad_norm"] > 0 for row in rows)
    line = (
        r"step    1/3 \| train loss \d\.\d{6} \| lr 3\.50e-03 \| \(\d+\.\d\d ms \| \d+ tok/s \| peak used: "
    )
    assert re.search(line, out)
    assert "step    3/3 | val loss" in out
    assert "\n[The meaning of life is]" in out
    assert out.splitlines()[-1] == f"run folder: {tmp_path / 'run'}"
    files = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert files == ["config.toml", "log.txt", "loss.png", "metrics.jsonl", "model.safetensors"]


def test_the_same_run_twice_gives_the_same_numbers_and_text(run: Callable[..., Any]) -> None:
    first, second, third = (run(*f, name=n) for n, f in (("a", ()), ("b", ()), ("c", ("--seed", "8"))))
    losses = [[(row["train_loss"], row["grad_norm"]) for row in rows] for rows, _ in (first, second, third)]
    assert losses[0] == losses[1] != losses[2]
    texts = [re.search(r"--- text:(.*)----", out, re.DOTALL)[1] for _, out in (first, second)]  # type: ignore[index]
    assert texts[0] == texts[1]


def test_micro_batches_add_up_to_one_large_batch(run: Callable[..., Any]) -> None:
    small, _ = run("--total_batch_size", "64", name="small")
    large, _ = run("--batch_size", "8", name="large")
    for a, b in zip(small, large, strict=True):
        assert a["train_loss"] == pytest.approx(b["train_loss"], rel=1e-5)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)


def test_one_batch_is_learnt_by_heart(run: Callable[..., Any]) -> None:
    rows, _ = run(
        "--overfit_single_batch", "--num_iteration", "150", "--log_interval", "1000", "--val_loss_every", "0"
    )
    assert rows[-1]["train_loss"] < 0.7 * rows[0]["train_loss"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--optimizer", "sgd", "--momentum", "0.9", "--learning_rate", "0.01"],
        ["--weight_decay", "0.1", "--grad_clip", "0", "--lr_decay_style", "linear", "--lr_warmup_iters", "2"],
        ["--freq_generate_txt", "1", "--temperature", "0", "--val_loss_every", "0", "--vocab_size", "300"],
    ],
)
def test_other_settings_run(run: Callable[..., Any], flags: list[str]) -> None:
    rows, out = run(*flags)
    assert len(rows) == 3
    assert out.count("--- text:") == (3 if "--freq_generate_txt" in flags else 1)


def test_the_learning_rate_follows_its_schedule(run: Callable[..., Any]) -> None:
    flags = ("--lr_decay_style", "linear", "--learning_rate", "0.5", "--lr_decay_iters")
    rows, _ = run(*flags, "4", "--lr_warmup_iters", "2", name="two")
    assert [row["lr"] for row in rows] == pytest.approx([0.25, 0.375, 0.5])
    rows, _ = run(*flags, "3", "--lr_warmup_iters", "1")
    assert [row["lr"] for row in rows] == pytest.approx([0.5, 0.5, 0.25])


def test_token_files_are_trained_on_without_text(run: Callable[..., Any], tmp_path: Path) -> None:
    import numpy as np

    from infinitrain.data import write_tokens

    write_tokens(tmp_path / "t.bin", np.arange(400, dtype=np.uint16))
    rows, out = run("--input_bin", str(tmp_path / "t.bin"), "--vocab_size", "400")
    assert rows[0]["train_loss"] == pytest.approx(5.99, abs=0.2)
    assert "--- text:" not in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--device", "nowhere"], "unknown device 'nowhere'"),
        (["--device", "cpu:1"], "CPU device has index 0 only"),
        (["--device", "cuda:x"], "index"),
        (["--device", "cuda"], "as in infinitrain-cuda"),
        (["--device", "gpu"], "Did you mean cuda?"),
        (["--device", ""], "a device is a name"),
        (["--device", "a\nb"], "unknown device 'a\\nb'"),
        (["--input_text", "a\nb\x1b"], "cannot read --input_text 'a\\nb\\x1b'"),
        (["--input_text", "x" * 300], "File name too long"),
        (["--input_text", "a\0b"], "has a character that no file name can have"),
        (["--run_dir", "a\ud800"], "--run_dir 'a\\ud800' has a character that no file name can have"),
        (["--batch_size", "99999"], "use --batch_size"),
        (["--n_layer", "1000000"], "use a smaller --n_layer, --n_embd or --vocab_size"),
        (["--vocab_size", "9" * 18], "use a smaller --n_layer, --n_embd or --vocab_size"),
        (["--device", "privateuse1"], "privateuse1"),
        (["--backend_module", "no_such_module"], "backend module 'no_such_module' failed to register"),
        (
            ["--backend_option", "a=1"],
            "--device cpu: --backend_option a is for a backend: cpu has no options",
        ),
        (["--input_text", "missing.txt"], "cannot read --input_text 'missing.txt'"),
        (["--input_bin", "missing.bin"], "missing.bin"),
        (["--run_dir", "taken"], "--run_dir 'taken' is not empty"),
        (["--n_embd", "15"], "--n_embd 15 cannot be shared out"),
        (["--bogus"], "--bogus"),
        (["--learning_rate", "1e30"], "norm of the gradients"),
    ],
)
def test_mistakes_are_one_message_and_status_2(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").touch()
    assert gpt2.main([*SHORT, "--run_dir", "new", *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith("infinitrain-gpt2: error: ")
    assert message in err
    assert "[contract" not in err
    assert err.count("\n") == 1
    assert (tmp_path / "new").exists() == ("1e30" in flags)


def test_help_is_status_0() -> None:
    with pytest.raises(SystemExit) as exit_:
        gpt2.main(["--help"])
    assert exit_.value.code == 0


def test_a_registrar_that_has_no_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpt2.main(SHORT, register_backend=lambda: None) == 2
    assert "closure" in capsys.readouterr().err


@pytest.mark.multiproc
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_saves_and_ends(number: int, status: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "infinitrain_examples.gpt2", *SMALL, "--num_iteration", "100000"]
    process = subprocess.Popen(
        [*command, "--run_dir", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 60
        metrics = folder / "metrics.jsonl"
        while time.monotonic() < deadline and not (metrics.exists() and metrics.stat().st_size):
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == status, err
    assert f"interrupted by {signal.Signals(number).name} after".encode() in out
    assert (folder / "model.safetensors").exists()
    assert (folder / "loss.png").exists()


@pytest.mark.multiproc
def test_without_docstrings_and_assertions(tmp_path: Path) -> None:
    command = [sys.executable, "-OO", "-m", "infinitrain_examples.gpt2", *SHORT, "--run_dir", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.multiproc
def test_a_module_that_raises_keyboard_interrupt(tmp_path: Path) -> None:
    (tmp_path / "rude.py").write_text("raise KeyboardInterrupt\n")
    command = [sys.executable, "-m", "infinitrain_examples.gpt2", "--backend_module", "rude"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"")
