"""What the flags mean together: fill in what follows from others, and refuse what cannot work.

All of it happens before anything is built, read or written, and each message names the flag.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import asdict, replace

from infinitrain import get_num_threads

from .config import Config, ModelFlags, OptimisationFlags
from .errors import UsageError
from .presets import PRESETS

_PATHS = ("input_bin", "input_val_bin", "input_text")
_MOST_TOKENS = 2**28
_MOST_THREADS = 1024  # infinitrain.set_num_threads takes no more
_PROMPT = "The meaning of life is"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*)?")


def resolve(config: Config, *, world_size: int = 1) -> Config:
    """Return `config` with everything filled in that was not given, for `world_size` data-parallel ranks.

    `model.vocab_size` may stay None: it follows from the data, see `sources.load_data`.

    Raises:
        UsageError: a value is out of range, or two flags contradict each other.
    """
    _check_values(config)
    _check_data(config)
    _check_reports(config)
    backend_options(config)
    module = config.device.backend_module
    if module and not _MODULE.fullmatch(module):
        raise UsageError(
            f"--backend_module must be package.module or package.module:function, got {module!r}"
        )
    paths = {name: os.path.expanduser(getattr(config.data, name)) for name in _PATHS}
    run_dir = os.path.expanduser(config.logging.run_dir)
    return replace(
        config,
        data=replace(config.data, **paths),
        device=replace(config.device, threads=_resolve_threads(config)),
        logging=replace(config.logging, run_dir=run_dir),
        text=replace(config.text, prompt=_resolve_prompt(config)),
        model=_resolve_model(config),
        optimisation=_resolve_optimisation(config, world_size),
    )


def accumulation_steps(config: Config, *, world_size: int = 1) -> int:
    """Return how many micro-batches each rank adds up for one optimizer step of a resolved config."""
    total = config.optimisation.total_batch_size
    assert total is not None, "resolve comes first"
    return total // (config.data.batch_size * config.data.sequence_length * world_size)


def backend_options(config: Config) -> dict[str, str]:
    """Return the KEY=VALUE settings of `--backend_option`.

    Raises:
        UsageError: no `=`, no key, or a key given twice.
    """
    options: dict[str, str] = {}
    for text in config.device.backend_option:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--backend_option must be KEY=VALUE, got {text!r}")
        if key.strip() in options:
            raise UsageError(f"--backend_option {key.strip()} is given twice; keep one")
        options[key.strip()] = value
    return options


def _check_values(config: Config) -> None:
    """Refuse what no flag can have."""
    for group in asdict(config).values():
        for name, value in group.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"--{name} must be a finite number, got {value}")
            if isinstance(value, int) and abs(value) >= 2**63:
                raise UsageError(f"--{name} must be below 2**63")
            if isinstance(value, str) and (name in _PATHS or name == "run_dir") and not _can_be_path(value):
                raise UsageError(f"--{name} {value!r} has a character that no file name can have")


def _can_be_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False


def _check_data(config: Config) -> None:
    data = config.data
    _at_least(1, "--batch_size", data.batch_size)
    _at_least(1, "--sequence_length", data.sequence_length)
    if data.input_bin and data.input_text:
        raise UsageError("--input_bin and --input_text exclude each other; give one of them")
    if data.input_val_bin and not data.input_bin:
        raise UsageError("--input_val_bin needs --input_bin: both texts must have the same kind of tokens")
    if not 0 < data.val_fraction < 1:
        raise UsageError(f"--val_fraction must lie between 0 and 1, got {data.val_fraction}")


def _check_reports(config: Config) -> None:
    text, logging = config.text, config.logging
    _at_least(0, "--freq_generate_txt", text.freq_generate_txt)
    _at_least(0, "--text_length", text.text_length)
    _at_most(_MOST_TOKENS, "--text_length", text.text_length)
    _at_least(0, "--temperature", text.temperature)
    _at_least(0, "--top_k", text.top_k)
    if text.text_length and text.prompt == "":
        raise UsageError("--prompt is empty; give at least one character, or --text_length 0 for no text")
    if text.prompt and config.data.input_bin:
        raise UsageError("--prompt has no effect on --input_bin: token files come without their vocabulary")
    _at_least(1, "--log_interval", logging.log_interval)
    _at_least(0, "--val_loss_every", logging.val_loss_every)
    _at_least(1, "--val_batches", logging.val_batches)


def _resolve_prompt(config: Config) -> str | None:
    return _PROMPT if config.text.prompt is None and not config.data.input_bin else config.text.prompt


def _resolve_model(config: Config) -> ModelFlags:
    given, preset = config.model, PRESETS[config.model.model].shape
    model = replace(
        given,
        n_layer=preset.n_layer if given.n_layer is None else given.n_layer,
        n_head=preset.n_head if given.n_head is None else given.n_head,
        n_embd=preset.n_embd if given.n_embd is None else given.n_embd,
    )
    for flag in ("n_layer", "n_head", "n_embd"):
        _at_least(1, f"--{flag}", getattr(model, flag))
    if model.vocab_size is not None:
        _at_least(1, "--vocab_size", model.vocab_size)
    assert model.n_embd is not None
    assert model.n_head is not None
    if model.n_embd % model.n_head:
        raise UsageError(
            f"--n_embd {model.n_embd} cannot be shared out among --n_head {model.n_head} heads; "
            f"use --n_head {_largest_divisor(model.n_embd, model.n_head)}"
            + (
                f" or --n_embd {_nearest_multiples(model.n_embd, model.n_head)}"
                if model.n_head <= 128
                else ""
            )
        )
    if config.data.sequence_length > preset.block_size:
        raise UsageError(
            f"--sequence_length {config.data.sequence_length} is longer than the {preset.block_size} "
            f"positions of --model {model.model}; use {preset.block_size} or less, or another model"
        )
    return model


def _resolve_optimisation(config: Config, world_size: int) -> OptimisationFlags:
    given, data, preset = config.optimisation, config.data, PRESETS[config.model.model]
    micro = data.batch_size * data.sequence_length * world_size
    steps = preset.num_iteration if given.num_iteration is None else given.num_iteration
    total = micro if given.total_batch_size is None else given.total_batch_size
    decay = steps if given.lr_decay_iters is None else given.lr_decay_iters
    optimisation = replace(
        given,
        num_iteration=steps,
        total_batch_size=total,
        learning_rate=preset.learning_rate if given.learning_rate is None else given.learning_rate,
        lr_decay_iters=decay,
        lr_warmup_iters=_warmup(decay) if given.lr_warmup_iters is None else given.lr_warmup_iters,
    )
    _at_least(1, "--num_iteration", steps)
    _at_least(1, "--total_batch_size", total)
    _at_most(max(_MOST_TOKENS, micro), "--total_batch_size", total)
    if total % micro:
        ranks = f" times {world_size} ranks" if world_size > 1 else ""
        raise UsageError(
            f"--total_batch_size {total} tokens is no multiple of --batch_size {data.batch_size} times "
            f"--sequence_length {data.sequence_length}{ranks} = {micro} tokens; "
            f"use --total_batch_size {_nearest_multiples(total, micro)}"
        )
    _check_learning_rate(optimisation, decay)
    _at_least(0, "--weight_decay", given.weight_decay)
    _at_least(0, "--grad_clip", given.grad_clip)
    if not 0 <= given.momentum < 1:
        raise UsageError(f"--momentum must be at least 0 and below 1, got {given.momentum}")
    if given.momentum and given.optimizer != "sgd":
        raise UsageError(f"--momentum has no effect on --optimizer {given.optimizer}; use --optimizer sgd")
    if not 0 <= given.seed < 2**63:
        raise UsageError(f"--seed must lie in 0 .. 2**63 - 1, got {given.seed}")
    return optimisation


def _check_learning_rate(flags: OptimisationFlags, decay_iters: int) -> None:
    peak, warmup = flags.learning_rate, flags.lr_warmup_iters
    assert peak is not None
    assert warmup is not None
    if not peak > 0:
        raise UsageError(f"--learning_rate must be a finite number above 0, got {peak}")
    if flags.min_lr and flags.lr_decay_style == "constant":
        raise UsageError("--min_lr has no effect on --lr_decay_style constant; use linear or cosine")
    if not 0 <= flags.min_lr <= peak:
        raise UsageError(f"--min_lr must lie between 0 and --learning_rate {peak}, got {flags.min_lr}")
    _at_least(1, "--lr_decay_iters", decay_iters)
    _at_least(0, "--lr_warmup_iters", warmup)
    if warmup >= decay_iters:
        raise UsageError(
            f"--lr_warmup_iters {warmup} must be below --lr_decay_iters {decay_iters} (by "
            f"default --num_iteration); use {decay_iters - 1} or less, or a larger --lr_decay_iters"
        )


def _resolve_threads(config: Config) -> int:
    threads = config.device.threads
    if threads is None:
        return get_num_threads()
    _at_least(1, "--threads", threads)
    _at_most(_MOST_THREADS, "--threads", threads)
    return threads


def _at_least(least: int, flag: str, value: float) -> None:
    if value < least:
        raise UsageError(f"{flag} must be at least {least}, got {value}")


def _at_most(most: int, flag: str, value: float) -> None:
    if value > most:
        raise UsageError(f"{flag} must be at most {most}, got {value}")


def _largest_divisor(value: int, most: int) -> int:
    return max(d for d in range(1, min(value, most, 128) + 1) if value % d == 0)


def _nearest_multiples(value: int, unit: int) -> str:
    below, above = value // unit * unit, -(-value // unit) * unit
    return f"{below} or {above}" if below else f"{above}"


def _warmup(decay_iters: int) -> int:
    """Return the steps of the warm-up: a tenth of the decay, but 80, or half of it, if that is less.

    A short run rises to the same learning rate, and spikes when it gets there in ten steps.
    """
    return max(0, decay_iters // 10, min(80, decay_iters // 2))
