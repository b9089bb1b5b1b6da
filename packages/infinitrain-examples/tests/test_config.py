"""The command line: both spellings, defaults, help, and one form for all mistakes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from infinitrain_examples.config import _ALIASES, Config, ModelFlags, parse
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


def test_values_that_look_like_flags() -> None:
    config = parse(["--prompt", "-- once", "--seed", "-1", "--min_lr", "-1e-5", "--run_dir=--x=y"])
    assert (config.text.prompt, config.optimisation.seed) == ("-- once", -1)
    assert (config.optimisation.min_lr, config.logging.run_dir) == (-1e-5, "--x=y")


def test_aliases_are_no_flags_and_lead_to_flags() -> None:
    assert not _ALIASES.keys() & set(FLAGS)
    assert set(_ALIASES.values()) <= set(FLAGS)


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
        (["--bach_size", "3"], ["unknown flag --bach_size; did you mean --batch_size"]),
        (["--bach-size=3"], ["unknown flag --bach-size; did you mean --batch_size"]),
        (["--batch_size", "x"], ["--batch_size must be a whole number, got 'x'"]),
        (["--batch_size", "1.5"], ["--batch_size must be a whole number, got '1.5'"]),
        (["--n_layer", "1" * 5000], ["--n_layer must be a whole number"]),
        (["--learning_rate="], ["--learning_rate must be a number, got ''"]),
        (["--batch_size"], ["--batch_size needs a whole number"]),
        (["--prompt", "--batch-size", "3"], ["--prompt needs a value, as in --prompt=TEXT"]),
        (
            ["--dtype", "bfloat16"],
            ["--dtype must be float32, got 'bfloat16': ", "does not offer mixed precision"],
        ),
        (["--model", "gtp2"], ["--model must be tiny, gpt2, ", "got 'gtp2'; did you mean gpt2?"]),
        (["--optimizer", "adam"], ["--optimizer must be adamw or sgd, got 'adam'; did you mean adamw?"]),
        (["--dtype", "fp16"], ["--dtype must be float32, got 'fp16'"]),
        (["stray"], ["unexpected 'stray'"]),
        (["-x"], ["unknown flag -x; see --help"]),
        (["--"], ["unknown flag --; see --help"]),
        (["--progress=1"], ["--progress takes no value; use --progress or --no_progress"]),
        (["--no_batch_size"], ["unknown flag --no_batch_size; did you mean --batch_size"]),
        (["--batch", "3"], ["did you mean --batch_size"]),
        (["--lr", "3"], ["did you mean --learning_rate?"]),
        (["--steps", "3"], ["did you mean --num_iteration?"]),
        (["--seq-len", "3"], ["did you mean --sequence_length?"]),
        (["--data=x"], ["did you mean --input_text?"]),
        (["--out", "x"], ["did you mean --run_dir?"]),
        (["--gpu"], ["did you mean --device?"]),
    ],
)
def test_mistakes(argv: list[str], parts: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as error:
        parse(argv)
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)
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
        assert f"\n  --{flag}" in text
    for group in fields(Config):
        assert f"\n{group.name}: {getattr(Config(), group.name).__doc__}\n" in text
    assert "(default: 8)" in text
    assert "Sequences in each micro-batch" in text
    assert not set("{}\x1b") & set(text)
    assert "None" not in text
    assert max(map(len, text.splitlines())) <= 110


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out.startswith("infinitrain-gpt2 0.")


def test_model_choices_are_the_presets() -> None:
    assert get_args(get_type_hints(ModelFlags)["model"]) == tuple(PRESETS)
    for preset in PRESETS.values():
        assert preset.shape.n_embd % preset.shape.n_head == 0


def test_the_command_line_is_read_without_numpy() -> None:
    code = (
        "import sys; from infinitrain_examples.config import parse; parse([]); "
        "sys.exit(any(m in sys.modules for m in ('numpy', 'matplotlib', 'infinitrain')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
