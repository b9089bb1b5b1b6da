"""A run folder is complete or not there, and its files say what happened step by step."""

from __future__ import annotations

import io
import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infinitrain_examples import run_dir
from infinitrain_examples.config import Config, parse
from infinitrain_examples.console import Console, Memory
from infinitrain_examples.errors import UsageError
from infinitrain_examples.resolve import resolve
from infinitrain_examples.run_dir import RunDir


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config_of(*flags: str) -> Config:
    return resolve(parse(flags))


def quiet() -> Console:
    return Console(io.StringIO(), environ={})


def log(run: RunDir, step: int, loss: float, **more: Any) -> None:
    run.log_step(step, train_loss=loss, lr=1e-3, seconds=0.5, tokens=1024, **more)


def tree(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_whole_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of("--run_dir", "out/one", "--num_iteration", "3", "--log_interval", "2")
    with RunDir.create(config) as run:
        run.say("hello\x1b[1m")
        log(run, 1, 4.25, memory=Memory(used=3 * 2**20))
        log(run, 2, float("nan"), val_loss=np.float32(3.5), grad_norm=np.float32(0.25))
        log(run, 3, 2.125)
        run.draw()
        run.finish()
    assert tree(here / "out/one") == ["config.toml", "log.txt", "loss.png", "metrics.jsonl"]
    rows = [json.loads(line) for line in (here / "out/one/metrics.jsonl").read_text().splitlines()]
    common = {"lr": 0.001, "seconds": 0.5, "tokens_per_s": 2048.0, "peak_reserved_bytes": None}
    assert rows == [
        {"step": 1, "train_loss": 4.25, "peak_used_bytes": 3 * 2**20, **common},
        {
            "step": 2,
            "train_loss": None,
            "val_loss": 3.5,
            "grad_norm": 0.25,
            "peak_used_bytes": None,
            **common,
        },
        {"step": 3, "train_loss": 2.125, "peak_used_bytes": None, **common},
    ]
    shown = capsys.readouterr().out
    assert (here / "out/one/log.txt").read_text() == shown
    lines = shown.splitlines()
    assert lines[0] == "hello\\x1b[1m"
    assert [line.split(" | lr")[0] for line in lines[1:5]] == [
        "step    1/3 | train loss 4.250000",
        "step    2/3 | train loss nan",
        "step    2/3 | val loss 3.500000",
        "step    3/3 | train loss 2.125000",
    ]
    assert lines[5].startswith("done: 3/3 steps in ")
    assert lines[5].endswith(" s | final train loss 2.125000 | last val loss 3.500000 | peak memory 3 MB")
    assert lines[6] == "run folder: out/one"
    assert (here / "out/one/loss.png").read_bytes().startswith(b"\x89PNG")
    settings = tomllib.loads((here / "out/one/config.toml").read_text())
    expected = asdict(config)
    del expected["model"]["vocab_size"]  # None: not known before the data is
    assert settings == expected | {"device": expected["device"] | {"backend_option": []}}


def test_log_interval_leaves_out_lines_but_no_metrics(here: Path) -> None:
    console = quiet()
    with RunDir.create(
        config_of("--run_dir", "r", "--num_iteration", "8", "--log_interval", "3"), console=console
    ) as run:
        for step in range(1, 9):
            log(run, step, 1.0)
    printed = [line.split("/")[0] for line in (here / "r/log.txt").read_text().splitlines()]
    assert printed == ["step    1", "step    3", "step    6", "step    8"]
    assert len((here / "r/metrics.jsonl").read_text().splitlines()) == 8


def test_metrics_and_log_are_there_at_once(here: Path) -> None:
    with RunDir.create(config_of("--run_dir", "r"), console=quiet()) as run:
        log(run, 1, 4.0)
        assert json.loads((here / "r/metrics.jsonl").read_text())["step"] == 1
        assert (here / "r/log.txt").read_text().startswith("step    1/2100 | train loss 4.000000")


def test_default_folders_are_unique(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_dir.time, "strftime", lambda _: "20260102-030405")
    for _ in range(3):
        RunDir.create(config_of("--model", "d24"), console=quiet()).__exit__(None, None, None)
    names = ["d24-20260102-030405", "d24-20260102-030405-2", "d24-20260102-030405-3"]
    assert sorted(p.name for p in (here / "runs").iterdir()) == names
    settings = tomllib.loads((here / "runs" / names[1] / "config.toml").read_text())
    assert settings["logging"]["run_dir"] == f"runs/{names[1]}"


def test_an_empty_folder_is_used(here: Path) -> None:
    (here / "r").mkdir()
    RunDir.create(config_of("--run_dir", "r"), console=quiet()).__exit__(None, None, None)
    assert tree(here / "r") == ["config.toml", "log.txt", "metrics.jsonl"]


def test_folders_that_are_refused(here: Path) -> None:
    (here / "full").mkdir()
    (here / "full/x").write_text("precious")
    (here / "file").write_text("precious")
    before = tree(here)
    for path, message in [
        ("full", "--run_dir 'full' is not empty; give a new or empty folder"),
        ("file", "--run_dir 'file' is a file"),
        ("file/a/b", "cannot write run folder 'file/a/b': Not a directory"),
        ("new/" + "x" * 300, "File name too long"),
    ]:
        with pytest.raises(UsageError, match=message):
            RunDir.create(config_of("--run_dir", path), console=quiet())
        assert tree(here) == before


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("broken", ["log.txt", "metrics.jsonl", ".config.toml."])
def test_a_folder_that_cannot_be_filled_is_left_as_it_was(
    here: Path, monkeypatch: pytest.MonkeyPatch, existing: bool, broken: str
) -> None:
    if existing:
        (here / "a/b").mkdir(parents=True)
    before = tree(here)
    real_open = Path.open

    def full_disk(path: Path, *arguments: Any, **keywords: Any) -> Any:
        if path.name.startswith(broken):
            raise OSError(28, "No space left on device")
        return real_open(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", full_disk)
    with pytest.raises(UsageError, match="cannot write run folder 'a/b': No space left on device"):
        RunDir.create(config_of("--run_dir", "a/b"), console=quiet())
    monkeypatch.undo()
    assert tree(here) == before


def test_a_disk_that_fills_up_is_a_usage_error(here: Path) -> None:
    with RunDir.create(config_of("--run_dir", "r"), console=quiet()) as run:
        run._metrics.close()
        run._metrics = open("/dev/full", "w")  # noqa: SIM115
        with pytest.raises(UsageError, match="cannot write run folder 'r': No space left on device"):
            log(run, 1, 4.0)


def test_interrupted(here: Path) -> None:
    with RunDir.create(config_of("--run_dir", "r"), console=quiet()) as run:
        log(run, 1, 4.0)
        run.finish(interrupted_by="SIGINT")
    assert "interrupted by SIGINT after 1/2100 steps in" in (here / "r/log.txt").read_text()


def test_a_failed_run_leaves_its_reason_and_its_picture(here: Path) -> None:
    with RunDir.create(config_of("--run_dir", "r"), console=quiet()) as run:
        log(run, 1, 4.0)
        run.fail("out of\nmemory")
        assert run.step == 1
    assert (here / "r/log.txt").read_text().endswith("failed: out of\\nmemory\n")
    assert (here / "r/loss.png").exists()


def test_the_loser_of_a_race_touches_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "r").mkdir()
    monkeypatch.setattr(run_dir, "_check_empty", lambda *_: (here / "r/metrics.jsonl").write_text("precious"))
    with pytest.raises(UsageError, match="another run uses --run_dir 'r'"):
        RunDir.create(config_of("--run_dir", "r"), console=quiet())
    assert tree(here / "r") == ["metrics.jsonl"]
    assert (here / "r/metrics.jsonl").read_text() == "precious"


def test_a_deleted_working_directory_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "gone").mkdir()
    monkeypatch.chdir(here / "gone")
    (here / "gone").rmdir()
    with pytest.raises(UsageError, match="the working directory was deleted"):
        RunDir.create(config_of(), console=quiet())


def test_the_command_and_the_home_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    config = config_of("--run_dir", "~/r")
    RunDir.create(config, command="prog 'a\nb'", console=quiet()).__exit__(None, None, None)
    text = (here / "home/r/config.toml").read_text()
    assert text.startswith("# prog 'a\\nb'\n\n[data]\n")
    assert tomllib.loads(text)["logging"]["run_dir"] == str(here / "home/r")


def test_a_missing_matplotlib_is_only_mentioned(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with RunDir.create(config_of("--run_dir", "r"), console=quiet()) as run:
        log(run, 1, 4.0)
        run.draw()
    assert "loss.png was not drawn: ModuleNotFoundError" in (here / "r/log.txt").read_text()
    assert not (here / "r/loss.png").exists()
