"""What follows from other flags is filled in; what cannot work is refused, with a way out that works."""

from __future__ import annotations

import os
import re

import pytest

import infinitrain
from infinitrain_examples.config import parse
from infinitrain_examples.errors import UsageError
from infinitrain_examples.resolve import accumulation_steps, backend_options, resolve


def test_fills_in_what_was_not_given() -> None:
    config = resolve(parse(["--batch_size", "3", "--sequence_length", "50", "--num_iteration", "70"]))
    assert config.optimisation.total_batch_size == 150
    assert config.optimisation.lr_decay_iters == 70
    assert config.optimisation.lr_warmup_iters == 35
    assert (config.model.n_layer, config.model.n_head, config.model.n_embd) == (4, 4, 128)
    assert accumulation_steps(config) == 1
    assert resolve(config) == config


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gpt2", (12, 12, 768)),
        ("d12", (12, 12, 768)),
        ("gpt2-medium", (24, 16, 1024)),
        ("d36", (36, 20, 1280)),
        ("gpt2-xl", (48, 25, 1600)),
    ],
)
def test_presets(name: str, shape: tuple[int, int, int]) -> None:
    model = resolve(parse(["--model", name, "--sequence_length", "1024"])).model
    assert (model.n_layer, model.n_head, model.n_embd) == shape


def test_overrides_of_the_preset() -> None:
    model = resolve(parse(["--model", "d24", "--n_layer", "2", "--n_embd", "48"])).model
    assert (model.n_layer, model.n_head, model.n_embd) == (2, 16, 48)


def test_each_model_has_a_learning_rate_and_a_number_of_steps() -> None:
    tiny, large = (resolve(parse(["--model", name])).optimisation for name in ("tiny", "d36"))
    assert (tiny.learning_rate, tiny.num_iteration, tiny.lr_warmup_iters) == (3.5e-3, 2100, 210)
    assert (large.learning_rate, large.num_iteration, large.lr_warmup_iters) == (2.5e-4, 10, 5)
    assert resolve(parse(["--model", "d36", "--learning_rate", "1"])).optimisation.learning_rate == 1


def test_accumulation() -> None:
    config = resolve(parse(["--batch_size", "2", "--sequence_length", "8", "--total_batch_size", "96"]))
    assert accumulation_steps(config) == 6
    assert accumulation_steps(config, world_size=3) == 2
    assert resolve(parse(["--batch_size", "2"]), world_size=3).optimisation.total_batch_size == 384


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--threads 0", "--threads must be at least 1, got 0"),
        ("--threads 1025", "--threads must be at most 1024, got 1025"),
        ("--batch_size 0", "--batch_size must be at least 1, got 0"),
        ("--batch_size -4", "--batch_size must be at least 1, got -4"),
        ("--sequence_length 0", "--sequence_length must be at least 1"),
        ("--sequence_length 257", "longer than the 256 positions of --model tiny; use 256 or less"),
        ("--model gpt2 --sequence_length 1025", "longer than the 1024 positions of --model gpt2"),
        ("--total_batch_size 0", "--total_batch_size must be at least 1"),
        ("--total_batch_size 1500", r"8 times --sequence_length 64 = 512 tokens; use .* 1024 or 1536"),
        ("--total_batch_size 256", r"use --total_batch_size 512$"),
        ("--num_iteration 0", "--num_iteration must be at least 1"),
        ("--n_layer 0", "--n_layer must be at least 1"),
        ("--n_head -1", "--n_head must be at least 1"),
        ("--n_embd 0", "--n_embd must be at least 1"),
        ("--vocab_size 0", "--vocab_size must be at least 1"),
        (
            "--n_embd 100 --n_head 3",
            "--n_embd 100 cannot be shared out among --n_head 3 heads; use --n_head 2 or --n_embd 99 or 102",
        ),
        ("--n_embd 2", "use --n_head 2 or --n_embd 4$"),
        ("--n_head 1000000000000", "use --n_head 128$"),
        ("--n_layer 9999999999999999999", r"--n_layer must be below 2\*\*63"),
        ("--total_batch_size 1024000000000", "--total_batch_size must be at most"),
        ("--text_length 1000000000000", "--text_length must be at most"),
        ("--prompt x --input_bin a", "--prompt has no effect on --input_bin"),
        ("--min_lr 1e-4 --lr_decay_style constant", "--min_lr has no effect on --lr_decay_style constant"),
        ("--learning_rate 0", "--learning_rate must be a finite number above 0, got 0"),
        ("--learning_rate nan", "--learning_rate must be a finite number, got nan"),
        ("--learning_rate inf", "--learning_rate must be a finite number, got inf"),
        ("--min_lr 0.1", r"--min_lr must lie between 0 and --learning_rate 0\.0035, got 0\.1"),
        ("--min_lr -1e-5", "--min_lr must lie"),
        ("--lr_warmup_iters 2100", r"must be below --lr_decay_iters 2100.*use 2099 or less"),
        ("--lr_warmup_iters -1", "--lr_warmup_iters must be at least 0"),
        ("--lr_decay_iters 0", "--lr_decay_iters must be at least 1"),
        ("--weight_decay -0.1", "--weight_decay must be at least 0"),
        ("--grad_clip nan", "--grad_clip must be a finite number, got nan"),
        ("--momentum 1 --optimizer sgd", "--momentum must be at least 0 and below 1"),
        ("--momentum 0.9", "--momentum has no effect on --optimizer adamw; use --optimizer sgd"),
        ("--seed -1", "--seed must lie in"),
        ("--freq_generate_txt -1", "--freq_generate_txt must be at least 0"),
        ("--text_length -1", "--text_length must be at least 0"),
        ("--temperature -0.1", "--temperature must be at least 0"),
        ("--temperature inf", "--temperature must be a finite number, got inf"),
        ("--top_k -1", "--top_k must be at least 0"),
        ("--prompt=", "--prompt is empty"),
        ("--log_interval 0", "--log_interval must be at least 1"),
        ("--val_loss_every -1", "--val_loss_every must be at least 0"),
        ("--val_batches 0", "--val_batches must be at least 1"),
        ("--val_fraction 1", "--val_fraction must lie between 0 and 1"),
        ("--val_fraction nan", "--val_fraction must be a finite number"),
        ("--input_bin a --input_text b", "exclude each other"),
        ("--input_val_bin a", "--input_val_bin needs --input_bin"),
        ("--backend_option novalue", "--backend_option must be KEY=VALUE, got 'novalue'"),
        ("--backend_option =v", "--backend_option must be KEY=VALUE"),
        ("--backend_option a=1 --backend_option a=2", "--backend_option a is given twice"),
        ("--backend_module a/b.py", "--backend_module must be package.module"),
        ("--backend_module a:b:c", "--backend_module must be package.module"),
    ],
)
def test_what_is_refused(flags: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(parse(flags.split()))


@pytest.mark.parametrize(
    "flags",
    ["--total_batch_size 1500", "--total_batch_size 256", "--n_embd 100 --n_head 3", "--sequence_length 999",
     "--lr_warmup_iters 2200"],
)  # fmt: skip
def test_the_advice_works(flags: str) -> None:
    with pytest.raises(UsageError) as error:
        resolve(parse(flags.split()))
    advice = str(error.value).rsplit("; use ", 1)[1]
    flag = flags.split()[0]
    for named, number in re.findall(r"(--\w+ )?(\d+)", advice):
        flag = named.strip() or flag
        resolve(parse([*flags.split(), flag, number]))


def test_the_home_folder_and_the_prompt() -> None:
    config = resolve(parse(["--input_text", "~/x", "--run_dir=~/y"]))
    assert (config.data.input_text, config.logging.run_dir) == tuple(map(os.path.expanduser, ("~/x", "~/y")))
    assert config.text.prompt == "The meaning of life is"
    assert resolve(parse(["--input_bin", "x"])).text.prompt is None


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(parse(["--threads", "3"])).device.threads == 3
    assert resolve(parse([])).device.threads == infinitrain.get_num_threads()


def test_backend_settings() -> None:
    flags = [
        "--backend_module",
        "my_pkg.device:register",
        "--backend_option",
        "a=1",
        "--backend_option",
        "b=x=y",
    ]
    config = resolve(parse(flags))
    assert backend_options(config) == {"a": "1", "b": "x=y"}
    assert resolve(parse(["--backend_module", "plain"])).device.backend_module == "plain"


def test_several_ranks_in_the_message() -> None:
    with pytest.raises(UsageError, match="64 times 3 ranks = 1536 tokens; use --total_batch_size 1536"):
        resolve(parse(["--total_batch_size", "1024"]), world_size=3)
