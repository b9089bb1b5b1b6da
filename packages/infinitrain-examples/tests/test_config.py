"""The command line: both spellings, defaults, help, and one form for all mistakes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from infinitrain_examples.config import Config, ModelFlags, parse
from infinitrain_examples.errors import UsageError
from infinitrain_examples.presets import PRESETS

FLAGS = [item.name for group in fields(Config) for item in fields(getattr(Config(), group.name))]


def test_nothing_given_is_the_default() -> None:
    assert parse([]) == Config()


def test_flag_names_are_unique() -> None:
    assert len(FLAGS) == len(set(FLAGS)) > 35


@pytest.mark.parametrize(
    "argv",
    [
        ["--batch_size", "3", "--lr_decay_style", "linear"],
        ["--batch-size", "3", "--lr-decay-style", "linear"],
        ["--batch_size=3", "--lr-decay_style=linear"],
        ["--batch_size", "7", "--batch-size", "3", "--lr_decay_style", "linear"],
    ],
)
def test_underscores_and_hyphens(argv: list[str]) -> None:
    config = parse(argv)
    assert config.data.batch_size == 3
    assert config.optimisation.lr_decay_style == "linear"


def test_switches_and_repeated_options() -> None:
    config = parse(
        ["--overfit_single_batch", "--no-progress", "--backend_option", "a=1", "--backend-option", "b=x=y"]
    )
    assert config.debug.overfit_single_batch
    assert not config.logging.progress
    assert config.device.backend_option == ("a=1", "b=x=y")
    assert not parse(["--no_overfit_single_batch"]).debug.overfit_single_batch


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--bach_size", "3"], ["--bach_size", "Perhaps you meant", "--batch_size INT"]),
        (["--batch_size", "x"], ["--batch_size", "'x'"]),
        (["--batch_size", "1.5"], ["--batch_size", "'1.5'"]),
        (["--batch_size"], ["Missing value", "--batch_size"]),
        (["--model", "gpt3"], ["gpt3", "--model", "gpt2-medium"]),
        (["stray"], ["stray"]),
        (["--batch", "3"], ["--batch", "--batch_size"]),
    ],
)
def test_mistakes(argv: list[str], parts: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as error:
        parse(argv)
    for part in parts:
        assert part in str(error.value)
    assert not set("╭│╰─") & set(str(error.value))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "flag",
    ["zero_stage", "nthread_per_process", "tensor_parallel", "pipeline_parallel", "llmc_filepath", "load"],
)
def test_flags_of_the_future_are_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag}"):
        parse([f"--{flag}", "1"])


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for flag in FLAGS:
        assert f"--{flag}" in text
    for group in fields(Config):
        assert f"{group.name} options" in text


def test_model_choices_are_the_presets() -> None:
    assert get_args(get_type_hints(ModelFlags)["model"]) == tuple(PRESETS)
    for preset in PRESETS.values():
        assert preset.n_embd % preset.n_head == 0


def test_the_command_line_is_read_without_numpy() -> None:
    code = (
        "import sys; from infinitrain_examples.config import parse; parse([]); "
        "sys.exit(any(m in sys.modules for m in ('numpy', 'matplotlib', 'infinitrain')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
