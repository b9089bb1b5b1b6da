"""Samples, their order, and the promise that it does not depend on how many ranks read them."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from infinitrain.data import BatchLoader, DataError, TokenDataset, split_tokens
from infinitrain.data.batches import permutation

RNG = np.random.default_rng(42)


def make_dataset(samples: int = 23, length: int = 5) -> TokenDataset:
    tokens = RNG.integers(0, 60000, size=samples * length + 1 + 2).astype(np.uint16)
    return TokenDataset(tokens, length)


def rows(loader: BatchLoader, batches: int) -> np.ndarray:
    return np.concatenate([x for x, _ in islice(loader, batches)])


@pytest.mark.parametrize(("tokens", "samples"), [(6, 1), (10, 1), (11, 2), (15, 2), (16, 3)])
def test_number_of_samples(tokens: int, samples: int) -> None:
    assert len(TokenDataset(np.arange(tokens), 5)) == samples


def test_sample_is_a_window_and_its_shift() -> None:
    dataset = make_dataset()
    x, y = dataset.batch(np.array([7, 0, 22]))
    t = dataset.tokens
    assert x.dtype == y.dtype == np.int64
    assert x.shape == y.shape == (3, 5)
    assert x.tolist() == [t[35:40].tolist(), t[0:5].tolist(), t[110:115].tolist()]
    assert y.tolist() == [t[36:41].tolist(), t[1:6].tolist(), t[111:116].tolist()]
    assert x.flags.c_contiguous
    assert y.flags.c_contiguous


def test_split_shares_nothing() -> None:
    tokens = RNG.integers(0, 256, size=1003).astype(np.uint16)
    train, validation = split_tokens(tokens, 0.1)
    assert (len(train), len(validation)) == (903, 100)
    assert np.array_equal(np.concatenate([train, validation]), tokens)
    assert np.shares_memory(train, tokens)
    for bad in (0, 1, -0.1, float("nan")):
        with pytest.raises(DataError, match="validation_fraction"):
            split_tokens(tokens, bad)


def test_permutation_is_pinned() -> None:
    # Literal values: a change here changes the data order of every seed that anyone has ever used.
    assert permutation(12, 1337, 0).tolist() == PINNED_EPOCH_0
    assert permutation(12, 1337, 1).tolist() == PINNED_EPOCH_1
    assert permutation(3, 2**64 - 1, 2).tolist() == PINNED_LARGE_SEED


PINNED_EPOCH_0 = [2, 4, 5, 6, 9, 7, 10, 11, 3, 8, 0, 1]
PINNED_EPOCH_1 = [8, 3, 7, 9, 0, 1, 6, 5, 11, 10, 2, 4]
PINNED_LARGE_SEED = [2, 0, 1]


def test_each_epoch_has_every_sample_once_in_its_own_order() -> None:
    dataset = make_dataset(samples=24)
    loader = BatchLoader(dataset, 4, shuffle=True, seed=3)
    assert loader.batches_per_epoch == 6
    everything = dataset.batch(np.arange(24))[0]
    epochs = [rows(loader, 6) for _ in range(3)]
    assert loader.epoch == 3
    for epoch in epochs:
        assert sorted(epoch.tolist()) == sorted(everything.tolist())
    assert not np.array_equal(epochs[0], epochs[1])
    assert not np.array_equal(epochs[1], epochs[2])
    assert not np.array_equal(epochs[0], everything)


def test_without_shuffle_the_text_comes_in_order_and_wraps() -> None:
    dataset = make_dataset(samples=7)
    x = rows(BatchLoader(dataset, 3), 5)
    assert np.array_equal(x, dataset.batch(np.arange(15) % 7)[0])


def test_seed_decides_the_order() -> None:
    dataset = make_dataset()
    one, same, other = (rows(BatchLoader(dataset, 4, shuffle=True, seed=s), 5) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("world_size", [2, 3, 6])
@pytest.mark.parametrize("shuffle", [False, True])
def test_same_global_batches_for_any_number_of_ranks(world_size: int, shuffle: bool) -> None:
    dataset = make_dataset(samples=23)  # prime: batches cross the ends of epochs
    alone = BatchLoader(dataset, 12, shuffle=shuffle, seed=9)
    ranks = [
        BatchLoader(dataset, 12 // world_size, shuffle=shuffle, seed=9, rank=r, world_size=world_size)
        for r in range(world_size)
    ]
    for _ in range(9):
        x, y = next(alone)
        parts = [next(rank) for rank in ranks]
        assert np.array_equal(np.concatenate([p[0] for p in parts]), x)
        assert np.array_equal(np.concatenate([p[1] for p in parts]), y)


def test_two_small_batches_are_one_large_batch() -> None:
    dataset = make_dataset()
    assert np.array_equal(
        rows(BatchLoader(dataset, 4, shuffle=True), 14), rows(BatchLoader(dataset, 8, shuffle=True), 7)
    )


def test_state_continues_the_stream_also_with_other_ranks() -> None:
    dataset = make_dataset()
    loader = BatchLoader(dataset, 6, shuffle=True, seed=5)
    rows(loader, 7)
    state = loader.state_dict()
    expected = rows(loader, 6)

    resumed = BatchLoader(dataset, 6, shuffle=True, seed=5)
    resumed.load_state_dict(state)
    assert np.array_equal(rows(resumed, 6), expected)

    second_of_two = BatchLoader(dataset, 3, shuffle=True, seed=5, rank=1, world_size=2)
    second_of_two.load_state_dict(state)
    assert np.array_equal(next(second_of_two)[0], expected[3:6])


def test_state_of_another_run_is_refused_and_changes_nothing() -> None:
    dataset = make_dataset()
    state = BatchLoader(dataset, 4, shuffle=True, seed=5).state_dict()
    loader = BatchLoader(dataset, 4, shuffle=True, seed=6)
    next(loader)
    with pytest.raises(DataError, match="seed was 5, is 6"):
        loader.load_state_dict(state | {"position": 100})
    with pytest.raises(DataError, match="samples was 99, is 23"):
        loader.load_state_dict(loader.state_dict() | {"samples": 99})
    with pytest.raises(DataError, match="position, samples, seed, sequence_length, shuffle missing"):
        loader.load_state_dict({})
    for bad in (-1, 1.5, "4", True):
        with pytest.raises(DataError, match="must be a number of samples"):
            loader.load_state_dict(loader.state_dict() | {"position": bad})
    assert loader.position == 4


def test_rewind_repeats_the_first_batch() -> None:
    loader = BatchLoader(make_dataset(), 4, shuffle=True, seed=8)
    first = next(loader)[0]
    assert not np.array_equal(next(loader)[0], first)
    loader.rewind()
    assert np.array_equal(next(loader)[0], first)


def test_text_too_short() -> None:
    with pytest.raises(
        DataError, match=r"the poem has 5 tokens, one sample takes 6 .*sequence_length 4 or less"
    ):
        TokenDataset(np.arange(5), 5, name="poem")
    assert len(TokenDataset(np.arange(5), 4)) == 1  # the advice is right
    with pytest.raises(DataError, match=r"has 0 tokens.*; use a longer text"):
        TokenDataset(np.arange(0), 5)


@pytest.mark.parametrize("length", [0, -3])
def test_sequence_length_must_be_positive(length: int) -> None:
    with pytest.raises(DataError, match=f"sequence_length must be at least 1 token, got {length}"):
        TokenDataset(np.arange(9), length)


@pytest.mark.parametrize("tokens", [np.zeros((2, 9), dtype=int), np.zeros(9)])
def test_tokens_must_be_a_row_of_integers(tokens: np.ndarray) -> None:
    with pytest.raises(DataError, match="must be a row of integers"):
        TokenDataset(tokens, 2)


def test_token_outside_the_vocabulary_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinitrain.data.batches._CHUNK", 10)  # so that it lies in the third chunk
    tokens = RNG.integers(0, 90, size=40)
    assert len(TokenDataset(tokens, 3, vocab_size=90)) == 13
    tokens[[27, 33]] = 90, 95
    with pytest.raises(DataError, match=r"token 90 at position 27 of the text is outside .* of 90 tokens"):
        TokenDataset(tokens, 3, vocab_size=90)
    tokens[[27, 33]] = 0
    tokens[21] = -2
    with pytest.raises(DataError, match="token -2 at position 21"):
        TokenDataset(tokens, 3, vocab_size=90)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1 sequence, got 0"),
        ({"batch_size": 2, "rank": 2, "world_size": 2}, "got rank 2 of world_size 2"),
        ({"batch_size": 2, "rank": -1}, "got rank -1"),
        ({"batch_size": 2, "world_size": 0}, "world_size 0"),
        ({"batch_size": 2, "seed": -1}, "seed must lie in"),
        ({"batch_size": 2, "seed": 2**64}, "seed must lie in"),
        ({"batch_size": 24}, "23 samples of 5 tokens, fewer than one batch of 24; use batch_size 23 or less"),
        ({"batch_size": 8, "world_size": 3}, "batch of 8 on each of 3 ranks; use batch_size 7 or less"),
        ({"batch_size": 1, "world_size": 24}, "use at most 23 ranks"),
    ],
)
def test_settings_that_do_not_fit(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        BatchLoader(make_dataset(), **arguments)


def test_the_largest_batch_that_is_advised_works() -> None:
    assert next(BatchLoader(make_dataset(), 23))[0].shape == (23, 5)
    assert next(BatchLoader(make_dataset(), 7, rank=2, world_size=3))[0].shape == (7, 5)
