"""The flags of infinitrain-gpt2: one dataclass for each group, one field for each flag.

The string below a field is its help text. `parse` fills a `Config` from the command line; what the flags mean
together, and what is wrong with them, is the business of resolve.py. `None` stands for "not given, follows
from other flags", and `resolve` replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from . import flags
from .__about__ import __version__

PROG = "infinitrain-gpt2"
_ABOUT = f"""\
usage: {PROG} [--FLAG VALUE ...]

Train a GPT-2 style language model; without flags a tiny one on built-in text, for about a minute.

  {PROG} --input_text book.txt --num_iteration 3000 --prompt "Once upon a time"
  {PROG} --model gpt2 --input_bin train.bin --batch_size 4 --sequence_length 1024

Losses are in nats per token: the natural logarithm of 1/probability, 5.55 for guessing among 256 tokens.
--version shows the version; flags can be spelled with - instead of _ too."""

# What these are called elsewhere; only suggested, not accepted.
_ALIASES = {
    **dict.fromkeys(("lr", "rate"), "learning_rate"),
    **dict.fromkeys(("steps", "epochs", "iterations", "iters", "max_steps"), "num_iteration"),
    **dict.fromkeys(("seq_len", "block_size", "context_length", "max_length"), "sequence_length"),
    **dict.fromkeys(("data", "input", "text", "file", "train_data"), "input_text"),
    **dict.fromkeys(("out", "output", "out_dir", "output_dir", "o"), "run_dir"),
    **dict.fromkeys(("gpu", "cuda", "cpu"), "device"),
    **dict.fromkeys(("layers", "num_layers"), "n_layer"),
    **dict.fromkeys(("heads", "num_heads"), "n_head"),
    **dict.fromkeys(("width", "hidden_size", "d_model"), "n_embd"),
    **dict.fromkeys(("num_threads", "n_threads", "cores", "cpus", "jobs"), "threads"),
    "precision": "dtype",
    "wd": "weight_decay",
}


@dataclass(frozen=True)
class DataFlags:
    """Where the text comes from, and how it is cut into batches."""

    input_bin: str = ""
    """Token file (llm.c format) to train on. Without it and --input_text: a built-in text."""
    input_val_bin: str = ""
    """Token file for validation. Without it: the last part of the training text, see --val_fraction."""
    input_text: str = ""
    """Text file to train on; each byte of it is a token."""
    val_fraction: float = 0.1
    """Part of the text (0 to 1) that is kept for validation where --input_val_bin is not given."""
    batch_size: int = 8
    """Sequences in each micro-batch: what is computed at once, and fits into memory."""
    sequence_length: int = 64
    """Tokens in each sequence."""


@dataclass(frozen=True)
class ModelFlags:
    """Which model is trained. Weights start random."""

    model: Literal["tiny", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "d12", "d24", "d36", "d48"] = (
        "tiny"
    )
    """Preset, as layers x width: tiny 4 x 128, gpt2 = d12 12 x 768, gpt2-medium = d24 24 x 1024,
    gpt2-large = d36 36 x 1280, gpt2-xl = d48 48 x 1600."""
    n_layer: int | None = None
    """Number of transformer blocks, instead of the preset's."""
    n_head: int | None = None
    """Attention heads in each block, instead of the preset's; must divide --n_embd."""
    n_embd: int | None = None
    """Width of the model (numbers for each token), instead of the preset's."""
    vocab_size: int | None = None
    """Number of different tokens. Without it: 256 for text, 50257 for token files with 16-bit numbers, 128256
    for those with 32-bit numbers."""


@dataclass(frozen=True)
class OptimisationFlags:
    """How the model learns."""

    num_iteration: int | None = None
    """Optimizer steps. Without it: 800 for tiny, 10 for the other models."""
    total_batch_size: int | None = None
    """Tokens in each optimizer step; gradients of several micro-batches are added up to reach it.
    Without it: one micro-batch, --batch_size times --sequence_length."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """Optimizer; adamw with betas 0.9 and 0.95."""
    learning_rate: float | None = None
    """Peak learning rate (per step). Without it: 3e-3 for tiny, 6e-4 to 2e-4 for gpt2 to gpt2-xl."""
    min_lr: float = 0.0
    """Learning rate at the end of the decay, and after it."""
    lr_decay_style: Literal["constant", "linear", "cosine"] = "cosine"
    """How the learning rate goes from --learning_rate to --min_lr."""
    lr_warmup_iters: int | None = None
    """Steps in which the learning rate first rises linearly to its peak. Without it: a tenth of
    --lr_decay_iters, at least 80 or half of it."""
    lr_decay_iters: int | None = None
    """Step at which the decay ends. Without it: --num_iteration."""
    weight_decay: float = 0.1
    """Weight decay coefficient, for matrices only; 0 turns it off."""
    momentum: float = 0.0
    """Momentum of sgd (0 to 1, without 1); adamw has its own."""
    grad_clip: float = 1.0
    """Largest norm of the gradient of all weights; larger ones are scaled down. 0 turns it off."""
    seed: int = 1337
    """Seed of the weights, of the order of the data and of the generated text."""


@dataclass(frozen=True)
class PrecisionFlags:
    """In which numbers the model computes."""

    dtype: Literal["float32"] = "float32"
    """Type in which matrix products are computed."""


@dataclass(frozen=True)
class DeviceFlags:
    """Where the model runs."""

    device: str = "cpu"
    """Device, with an optional number: cpu, or a type that an installed backend registers, as in fake:1."""
    threads: int | None = None
    """Threads that an operation on the CPU may use, 1 to 1024. Without it: the variable INFINITRAIN_NUM_THREADS,
    else OPENBLAS_NUM_THREADS or OMP_NUM_THREADS, else the number of cores."""
    backend_module: str = ""
    """Module that registers a backend, as in package.module or package.module:function."""
    backend_option: tuple[str, ...] = ()
    """Setting for the backend as KEY=VALUE."""


@dataclass(frozen=True)
class TextFlags:
    """Text that the model writes, to see what it has learnt."""

    freq_generate_txt: int = 0
    """Write text every so many steps; 0: only at the end."""
    text_length: int = 200
    """Tokens to write; 0: none."""
    prompt: str | None = None
    """How the text begins. Without it: "The meaning of life is". Token files have no text to begin with."""
    temperature: float = 0.8
    """Below 1: likelier text; above 1: wilder text; 0: always the likeliest token."""
    top_k: int = 40
    """Choose among so many of the likeliest tokens; 0: among all."""


@dataclass(frozen=True)
class LoggingFlags:
    """What a run reports, and where."""

    run_dir: str = ""
    """Folder for settings, log, metrics and plot; new or empty. Without it: runs/MODEL-DATE-TIME."""
    log_interval: int = 10
    """Print the loss every so many steps; the first and last are always printed, metrics.jsonl has all."""
    val_loss_every: int = 50
    """Measure the validation loss every so many steps and at the end; 0: never."""
    val_batches: int = 20
    """Largest number of batches for one measurement of the validation loss."""
    progress: bool = True
    """Show a progress bar, if the output is a terminal."""


@dataclass(frozen=True)
class DebugFlags:
    """Aids for finding errors."""

    overfit_single_batch: bool = False
    """Train on the first batch again and again: the loss of a sound model goes to zero."""


@dataclass(frozen=True)
class Config:
    """All flags, by group. After `resolve` no value is None but perhaps `text.prompt`, where there is no text,
    and `model.vocab_size`, which follows from the data: `sources.TrainingData.complete` fills it in."""

    data: DataFlags = field(default_factory=DataFlags)
    model: ModelFlags = field(default_factory=ModelFlags)
    optimisation: OptimisationFlags = field(default_factory=OptimisationFlags)
    precision: PrecisionFlags = field(default_factory=PrecisionFlags)
    device: DeviceFlags = field(default_factory=DeviceFlags)
    text: TextFlags = field(default_factory=TextFlags)
    logging: LoggingFlags = field(default_factory=LoggingFlags)
    debug: DebugFlags = field(default_factory=DebugFlags)


def parse(argv: Sequence[str]) -> Config:
    """Return the flags of `argv`, the command line without the program's name.

    Flags can be written with underscores or hyphens, `--batch_size 8` or `--batch-size=8`.

    Raises:
        UsageError: an unknown flag (with the nearest known one), a missing or unreadable value.
        SystemExit: with code 0, after `--help` or `--version`.
    """
    if "--help" in argv or "-h" in argv:
        flags.show(f"{_ABOUT}\n{flags.help_text(Config)}")
        raise SystemExit(0)
    if "--version" in argv:
        flags.show(f"{PROG} {__version__}")
        raise SystemExit(0)
    return flags.parse(Config, argv, aliases=_ALIASES)
