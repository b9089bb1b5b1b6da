"""The flags of infinitrain-gpt2: one dataclass for each group, one field for each flag.

The string below a field is its help text. `parse` fills a `Config` from the command line; what the flags mean
together, and what is wrong with them, is the business of resolve.py. `None` stands for "not given, follows
from other flags", and `resolve` replaces it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .errors import UsageError

PROG = "infinitrain-gpt2"


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
    batch_size: int = 16
    """Sequences in each micro-batch."""
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
    """Optimizer steps. Without it: 900 for tiny, 10 for the other models."""
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
    """Steps in which the learning rate first rises linearly from 0. Without it: a tenth of
    --lr_decay_iters."""
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

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type in which matrix products are computed. bfloat16 is not available yet."""


@dataclass(frozen=True)
class DeviceFlags:
    """Where the model runs."""

    device: str = "cpu"
    """Device, with an optional number: cpu, or a type that an installed backend registers, as in fake:1."""
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
    prompt: str = "The meaning of life is"
    """How the text begins."""
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
    val_batches: int = 10
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
    """All flags, by group. After `resolve` no value is None but perhaps `model.vocab_size`, which follows
    from the data: `sources.TrainingData.complete` fills it in."""

    data: DataFlags = field(default_factory=DataFlags)
    model: ModelFlags = field(default_factory=ModelFlags)
    optimisation: OptimisationFlags = field(default_factory=OptimisationFlags)
    precision: PrecisionFlags = field(default_factory=PrecisionFlags)
    device: DeviceFlags = field(default_factory=DeviceFlags)
    text: TextFlags = field(default_factory=TextFlags)
    logging: LoggingFlags = field(default_factory=LoggingFlags)
    debug: DebugFlags = field(default_factory=DebugFlags)


def parse(argv: Sequence[str] | None = None) -> Config:
    """Return the flags of `argv` (without the program's name; default: those of this process).

    Flags can be written with underscores or hyphens, `--batch_size 8` or `--batch-size=8`.

    Raises:
        UsageError: an unknown flag (with the nearest known ones), a missing or unreadable value.
        SystemExit: with code 0, after `--help`.
    """
    import tyro  # 60 ms, and only the command line needs it

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                Config,
                prog=PROG,
                description="Train a GPT-2 style language model; by default a tiny one, on built-in text.",
                args=argv,
                use_underscores=True,
                config=(tyro.conf.OmitArgPrefixes, tyro.conf.UseAppendAction),
            )
    except SystemExit as exit_:
        if exit_.code in (0, None):
            raise
        raise UsageError(_unboxed(complaint.getvalue())) from None


def _unboxed(text: str) -> str:
    """Take away the frame that tyro draws around its messages, to have one form for all errors."""
    lines = [re.sub(r"^[│|] ?|\s*[│|]$", "", line) for line in text.splitlines()]
    return "\n".join(line.rstrip() for line in lines if not re.match(r"\s*[╭╰─]{2}", line)).strip()
