"""The text that the flags name arrives as batches; what is wrong with it is a usage error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infinitrain.data import corpus, write_tokens
from infinitrain_examples.config import Config, parse
from infinitrain_examples.errors import UsageError
from infinitrain_examples.resolve import resolve
from infinitrain_examples.sources import load_data

RNG = np.random.default_rng(3)


def config_of(*flags: object) -> Config:
    return resolve(parse([str(flag) for flag in flags]))


def test_default_is_the_built_in_text() -> None:
    config = config_of()
    data = load_data(config)
    assert data.vocab_size == 256
    assert data.tokenizer is not None
    assert bytes(data.train.tokens.astype(np.uint8)) == corpus()[: len(data.train.tokens)]
    assert data.validation is not None
    assert bytes(data.validation.tokens.astype(np.uint8)) == corpus()[len(data.train.tokens) :]
    x, y = next(data.train_loader(config))
    assert x.shape == y.shape == (8, 64)
    assert x.dtype == np.int64
    assert np.array_equal(x[:, 1:], y[:, :-1])
    assert not np.array_equal(x, data.train.batch(np.arange(16))[0])  # shuffled
    other = config_of("--seed", "1")
    assert not np.array_equal(x, next(load_data(other).train_loader(other))[0])
    assert data.complete(config).model.vocab_size == 256


def test_text_file(tmp_path: Path) -> None:
    text = RNG.integers(0, 256, size=900, dtype=np.uint8).tobytes()  # any bytes will do
    (tmp_path / "t.txt").write_bytes(text)
    flags = ("--input_text", tmp_path / "t.txt", "--sequence_length", 9, "--val_fraction", 0.2)
    data = load_data(config_of(*flags))
    assert data.train.tokens.tolist() == list(text[:720])
    assert data.validation is not None
    assert data.validation.tokens.tolist() == list(text[720:])
    assert load_data(config_of(*flags, "--val_loss_every", 0)).validation is None


@pytest.mark.parametrize(("dtype", "size"), [(np.uint16, 50257), (np.uint32, 128256)])
def test_token_files(tmp_path: Path, dtype: type, size: int) -> None:
    train, validation = RNG.integers(0, size, size=3000), RNG.integers(0, size, size=800)
    write_tokens(tmp_path / "a.bin", train, dtype)
    write_tokens(tmp_path / "b.bin", validation, dtype)
    data = load_data(config_of("--input_bin", tmp_path / "a.bin", "--input_val_bin", tmp_path / "b.bin"))
    assert np.array_equal(data.train.tokens, train)
    assert data.validation is not None
    assert np.array_equal(data.validation.tokens, validation)
    assert (data.vocab_size, data.tokenizer) == (size, None)

    tail = load_data(config_of("--input_bin", tmp_path / "a.bin"))
    assert tail.validation is not None
    assert np.array_equal(tail.validation.tokens, train[2700:])


def test_vocabulary(tmp_path: Path) -> None:
    assert load_data(config_of("--vocab_size", 300)).vocab_size == 300
    with pytest.raises(UsageError, match=r"at position \d+ of the training text is outside .* of 100 tokens"):
        load_data(config_of("--vocab_size", 100))
    write_tokens(tmp_path / "a.bin", np.r_[np.zeros(999), 50257].astype(int))
    with pytest.raises(UsageError, match="token 50257 at position 99 of the validation text"):
        load_data(config_of("--input_bin", tmp_path / "a.bin"))


def test_validation_batches_are_the_same_each_time_and_never_repeat() -> None:
    config = config_of("--val_batches", 5)
    data = load_data(config)
    first = list(data.validation_batches(config))
    assert len(first) == 5
    for (x, y), (x2, y2) in zip(first, data.validation_batches(config), strict=True):
        assert np.array_equal(x, x2)
        assert np.array_equal(y, y2)
    assert len({x.tobytes() for x, _ in first}) == 5
    assert data.validation is not None
    assert len(list(data.validation_batches(config_of("--val_batches", 10**6)))) == len(data.validation) // 8


def test_a_validation_text_smaller_than_a_batch_is_one_batch(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(RNG.integers(0, 256, size=1000, dtype=np.uint8).tobytes())
    config = config_of("--input_text", tmp_path / "t.txt", "--sequence_length", 20)
    (batch,) = load_data(config).validation_batches(config)
    assert batch[0].shape == (4, 20)


def test_ranks_share_the_global_batch() -> None:
    config = config_of("--batch_size", 4)
    data = load_data(config)
    whole = next(data.train_loader(config_of("--batch_size", 8)))[0]
    parts = [next(data.train_loader(config, rank=r, world_size=2))[0] for r in range(2)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_unusable_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"too short")
    write_tokens(tmp_path / "16", [1] * 99)
    write_tokens(tmp_path / "32", [1] * 99, np.uint32)
    cases = [
        (("--input_text", tmp_path / "none"), r"cannot read --input_text '.*none': No such file"),
        (("--input_text", tmp_path), "is a folder or a device"),
        (("--input_text", "/dev/null"), "is a folder or a device"),
        (("--input_text", tmp_path / "empty"), r"--input_text '.*empty' is empty"),
        (
            ("--input_text", tmp_path / "short"),
            r"training text has 8 tokens, .* --sequence_length 7 or less, .*--val_fraction",
        ),
        (("--input_bin", tmp_path / "none"), "cannot read token file"),
        (("--input_bin", tmp_path / "short"), "is not a token file"),
        (("--input_bin", tmp_path / "16", "--input_val_bin", tmp_path / "32"), "different tokenizers"),
        (("--input_bin", tmp_path / "16"), "validation text has 10 tokens"),
    ]
    for flags, message in cases:
        with pytest.raises(UsageError, match=message):
            load_data(config_of(*flags))


def test_batch_larger_than_the_text(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(bytes(2000))
    config = config_of("--input_text", tmp_path / "t", "--batch_size", 99)
    with pytest.raises(UsageError, match=r"training text has 28 samples .* use --batch_size 28 or less"):
        load_data(config).train_loader(config)
