"""The tokens that the flags ask for, as batches."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from infinitrain.data import (
    BatchLoader,
    ByteTokenizer,
    DataError,
    TokenDataset,
    Tokenizer,
    corpus,
    read_tokens,
    split_tokens,
)

from .config import Config
from .errors import UsageError

Tokens = npt.NDArray[Any]
Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

# A token file does not name its vocabulary; its number size tells which of the two usual ones it is.
_VOCABULARIES = {2: 50257, 4: 128256}


@dataclass(frozen=True)
class TrainingData:
    """Training and validation samples. `tokenizer` is None where only token numbers are known."""

    train: TokenDataset
    validation: TokenDataset | None
    tokenizer: Tokenizer | None
    vocab_size: int

    def complete(self, config: Config) -> Config:
        """Return `config` with the size of the vocabulary filled in."""
        return replace(config, model=replace(config.model, vocab_size=self.vocab_size))

    def prompt(self, config: Config) -> list[int]:
        """Return the tokens of `--prompt`; none where no text is to be written.

        Raises:
            UsageError: one of them is not in the vocabulary.
        """
        text = config.text
        if self.tokenizer is None or text.prompt is None or not text.text_length:
            return []
        tokens: list[int] = self.tokenizer.encode(text.prompt).tolist()
        if max(tokens) >= self.vocab_size:
            raise UsageError(
                f"--prompt {text.prompt!r} contains token {max(tokens)}, outside the vocabulary of "
                f"{self.vocab_size} tokens; use other characters, --vocab_size {max(tokens) + 1} or more, "
                "or --text_length 0"
            )
        return tokens

    def train_loader(self, config: Config, *, rank: int = 0, world_size: int = 1) -> BatchLoader:
        """Return the endless, shuffled (x, y) batches, int64 of shape (batch_size, sequence_length).

        Raises:
            UsageError: the text has fewer samples than one batch.
        """
        try:
            return BatchLoader(
                self.train,
                config.data.batch_size,
                shuffle=True,
                seed=config.optimisation.seed,
                rank=rank,
                world_size=world_size,
            )
        except DataError as error:
            raise _usage_error(error) from error

    def validation_batches(self, config: Config) -> Iterator[Batch]:
        """Yield the same (x, y) batches on each call, at most `--val_batches` of them, none twice."""
        if self.validation is None:
            return
        loader = BatchLoader(self.validation, min(config.data.batch_size, len(self.validation)))
        yield from islice(loader, min(config.logging.val_batches, loader.batches_per_epoch))


def load_data(config: Config) -> TrainingData:
    """Open and check the texts that a resolved `config` names. Nothing is downloaded.

    Raises:
        UsageError: a file is missing or damaged, a text is too short, or a token is not in the vocabulary.
    """
    try:
        train, validation, tokenizer, natural_size = _open(config)
        vocab_size = config.model.vocab_size or natural_size
        return TrainingData(
            train=_dataset(config, train, vocab_size, "training text"),
            validation=_dataset(config, validation, vocab_size, "validation text")
            if config.logging.val_loss_every
            else None,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
        )
    except DataError as error:
        raise _usage_error(error) from error


def _usage_error(error: DataError) -> UsageError:
    """Name the settings as flags, and the one that decides which text gets how much."""
    text = re.sub(r"\b(batch_size|sequence_length|vocab_size|val_fraction)\b", r"--\1", str(error))
    return UsageError(text.replace("a longer text", "a longer text, or a smaller --val_fraction"))


def _open(config: Config) -> tuple[Tokens, Tokens, Tokenizer | None, int]:
    """Return (training tokens, validation tokens, tokenizer, size of the vocabulary)."""
    data = config.data
    if not data.input_bin:
        tokenizer = ByteTokenizer()
        tokens = tokenizer.encode_bytes(_read_text(data.input_text) if data.input_text else corpus())
        return *split_tokens(tokens, data.val_fraction), tokenizer, tokenizer.vocab_size
    tokens = read_tokens(data.input_bin)
    size = _VOCABULARIES[tokens.dtype.itemsize]
    if not data.input_val_bin:
        return *split_tokens(tokens, data.val_fraction), None, size
    validation = read_tokens(data.input_val_bin)
    if validation.dtype != tokens.dtype:
        raise UsageError(
            f"--input_bin has {tokens.dtype.name} tokens, --input_val_bin {validation.dtype.name} ones: "
            "they come from different tokenizers; give two files from the same one"
        )
    return tokens, validation, None, size


def _dataset(config: Config, tokens: Tokens, vocab_size: int, name: str) -> TokenDataset:
    return TokenDataset(tokens, config.data.sequence_length, vocab_size=vocab_size, name=name)


def _read_text(path: str) -> bytes:
    try:
        # Checked first: reading a pipe or a terminal would wait.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise UsageError(f"--input_text '{path}' is a folder or a device, not a file")
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read --input_text '{path}': {error.strerror or error}") from error
    if not text:
        raise UsageError(f"--input_text '{path}' is empty")
    return text
