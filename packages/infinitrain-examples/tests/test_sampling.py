"""Choosing tokens: the right probabilities, the right candidates, the same text again."""

from __future__ import annotations

import numpy as np
import pytest

from infinitrain.device import CPU
from infinitrain.nn import TransformerConfig, TransformerModel
from infinitrain.random import Generator
from infinitrain_examples.sampling import choose, generate

LOGITS = np.array([0.5, 3.0, -1.0, 2.0], dtype=np.float32)


def _shares(**settings: float) -> np.ndarray:
    grid = (np.arange(4_000) + 0.5) / 4_000
    return np.bincount([choose(LOGITS, u, **settings) for u in grid], minlength=4) / 4_000  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_probabilities_are_the_softmax(temperature: float) -> None:
    p = np.exp(LOGITS.astype(np.float64) / temperature)
    np.testing.assert_allclose(_shares(temperature=temperature), p / p.sum(), atol=5e-4)


def test_top_k_leaves_the_largest() -> None:
    p = np.exp([3.0, 2.0])
    np.testing.assert_allclose(_shares(top_k=2), [0, p[0] / p.sum(), 0, p[1] / p.sum()], atol=5e-4)
    assert (_shares(top_k=4) == _shares()).all()
    assert (_shares(top_k=99) == _shares()).all()


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 1e-300}, {"top_k": 1}])
def test_the_likeliest_token(settings: dict[str, float]) -> None:
    assert _shares(**settings).tolist() == [0, 1, 0, 0]


def test_the_ends_of_the_interval_choose_possible_tokens() -> None:
    assert choose(LOGITS, 0.0) == 0
    assert choose(LOGITS, 1 - 2**-53) == 3
    assert choose(LOGITS, 0.0, top_k=1) == 1


def test_generate_continues_beyond_the_block_and_repeats_itself() -> None:
    model = TransformerModel(
        TransformerConfig(block_size=8, vocab_size=11, n_layer=1, n_head=1, n_embd=8), seed=2
    )
    texts = [generate(model, [1, 2, 3], 20, device=CPU, generator=Generator(seed=seed)) for seed in (1, 1, 2)]
    assert len(texts[0]) == 20
    assert all(0 <= token < 11 for token in texts[0])
    assert texts[0] == texts[1] != texts[2]
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_a_long_text_can_be_stopped() -> None:
    model = TransformerModel(
        TransformerConfig(block_size=8, vocab_size=11, n_layer=1, n_head=1, n_embd=8), seed=2
    )
    answers = iter([False, False, True])
    text = generate(model, [1], 10**9, device=CPU, generator=Generator(), stop=lambda: next(answers))
    assert len(text) == 2
    assert model.training


def test_each_token_comes_from_the_end_of_what_is_there() -> None:
    model = TransformerModel(
        TransformerConfig(block_size=4, vocab_size=11, n_layer=1, n_head=1, n_embd=8), seed=2
    )
    whole = generate(model, [1, 2, 3, 4, 5], 3, device=CPU, generator=Generator(), temperature=0)
    assert generate(model, [9, 2, 3, 4, 5], 3, device=CPU, generator=Generator(), temperature=0) == whole


def test_the_window_limits_what_is_seen() -> None:
    model = TransformerModel(
        TransformerConfig(block_size=8, vocab_size=11, n_layer=1, n_head=1, n_embd=8), seed=2
    )
    lengths: list[int] = []
    model.register_forward_pre_hook(lambda module, args: lengths.append(args[0].shape[1]))
    for window in (3, 99):
        generate(model, [1, 2], 8, device=CPU, generator=Generator(), window=window)
    assert lengths == [2, 3, 3, 3, 3, 3, 3, 3, 2, 3, 4, 5, 6, 7, 8, 8]
