"""GPT-2: names, initial values, numbers, and that it learns."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, optim
from infinitrain.errors import ShapeError

SMALL = nn.TransformerConfig(block_size=16, vocab_size=23, n_layer=2, n_head=4, n_embd=32)


def test_names_are_those_of_gpt_2() -> None:
    names = [name for name, _ in nn.TransformerModel(SMALL).named_parameters(remove_duplicate=False)]
    block = ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"]
    expected = ["transformer.wte.weight", "transformer.wpe.weight"]
    expected += [
        f"transformer.h.{i}.{layer}.{p}" for i in (0, 1) for layer in block for p in ("weight", "bias")
    ]
    expected += ["transformer.ln_f.weight", "transformer.ln_f.bias", "lm_head.weight"]
    assert names == expected


def test_sizes_of_the_presets() -> None:
    expected = {
        "gpt2": 124_439_808,
        "gpt2-medium": 354_823_168,
        "gpt2-large": 774_030_080,
        "gpt2-xl": 1_557_611_200,
    }
    for name, count in expected.items():
        c = nn.TransformerConfig.preset(name)
        d = c.n_embd
        assert c.n_layer * (12 * d * d + 13 * d) + 2 * d + (c.vocab_size + c.block_size) * d == count
    for alias, name in {"d12": "gpt2", "d24": "gpt2-medium", "d36": "gpt2-large", "d48": "gpt2-xl"}.items():
        assert nn.TransformerConfig.preset(alias) == nn.TransformerConfig.preset(name)
    c = nn.TransformerConfig.preset("tiny")
    assert nn.TransformerModel(c).num_parameters() == 4 * (12 * 128**2 + 13 * 128) + 2 * 128 + 512 * 128


def test_initial_values() -> None:
    model = nn.TransformerModel(nn.TransformerConfig.preset("tiny"), seed=1)
    state = {name: t.numpy() for name, t in model.state_dict().items()}
    for name, values in state.items():
        if name.endswith("bias"):
            assert not values.any(), name
        elif "ln_" in name:
            assert (values == 1).all(), name
        else:
            std = 0.02 / sqrt(8) if "c_proj" in name else 0.02
            assert abs(values.std() / std - 1) < 0.02, name
    assert model.lm_head.weight is model.transformer.wte.weight


def test_another_seed_gives_another_model_and_the_same_seed_the_same() -> None:
    a, b, c = (nn.TransformerModel(SMALL, seed=s) for s in (1, 1, 2))
    tokens = it.tensor(np.arange(12).reshape(2, 6))
    assert (a(tokens).numpy() == b(tokens).numpy()).all()
    assert (a(tokens).numpy() != c(tokens).numpy()).any()


def test_an_untied_head_has_its_own_weight() -> None:
    model = nn.TransformerModel(nn.TransformerConfig(8, 10, 1, 1, 8, tie_weights=False))
    assert model.lm_head.weight is not model.transformer.wte.weight
    assert "lm_head.weight" in dict(model.named_parameters())


def test_without_biases() -> None:
    model = nn.TransformerModel(nn.TransformerConfig(8, 10, 1, 1, 8, add_bias_linear=False))
    assert not [n for n, _ in model.named_parameters() if n.endswith("bias") and "ln_" not in n]


def test_the_tie_survives_moves_and_training() -> None:
    model = nn.TransformerModel(SMALL).to("float64")
    optimizer = optim.AdamW(model.named_parameters(), lr=1e-2)
    model(it.tensor([[1, 2, 3]])).sum().backward()
    optimizer.step()
    model.to("float32")
    assert model.lm_head.weight is model.transformer.wte.weight
    assert (model.lm_head.weight.numpy() == model.transformer.wte.weight.numpy()).all()


def test_logits_against_numpy() -> None:
    model = nn.TransformerModel(SMALL, seed=4, dtype="float64")
    rng = np.random.Generator(np.random.PCG64(0))
    state = {n: rng.normal(0, 0.3, t.shape) for n, t in model.state_dict().items() if n != "lm_head.weight"}
    model.load_state_dict(state)
    tokens = rng.integers(0, 23, (3, 11))
    np.testing.assert_allclose(
        model(it.tensor(tokens)).numpy(), _numpy_gpt2(state, tokens), rtol=1e-9, atol=1e-10
    )


def _numpy_gpt2(s: dict[str, np.ndarray], tokens: np.ndarray) -> np.ndarray:
    def norm(x: np.ndarray, name: str) -> np.ndarray:
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + 1e-5) * s[f"{name}.weight"] + s[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ s[f"{name}.weight"].T + s[f"{name}.bias"]

    x = s["transformer.wte.weight"][tokens] + s["transformer.wpe.weight"][: tokens.shape[1]]
    batch, time, _ = x.shape
    for i in range(2):
        at = f"transformer.h.{i}"
        q, k, v = np.split(linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn"), 3, axis=-1)
        mixed = np.zeros_like(x)
        for b in range(batch):
            for h in range(4):
                cols = slice(h * 8, h * 8 + 8)
                for t in range(time):
                    scores = k[b, : t + 1, cols] @ q[b, t, cols] / sqrt(8)
                    p = np.exp(scores - scores.max())
                    mixed[b, t, cols] = p @ v[b, : t + 1, cols] / p.sum()
        x = x + linear(mixed, f"{at}.attn.c_proj")
        hidden = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")
        hidden = 0.5 * hidden * (1 + np.tanh(sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + linear(hidden, f"{at}.mlp.c_proj")
    return norm(x, "transformer.ln_f") @ s["transformer.wte.weight"].T


def test_one_batch_is_learnt_by_heart() -> None:
    model = nn.TransformerModel(SMALL, seed=0)
    optimizer = optim.AdamW(model.named_parameters(), lr=5e-3)
    loss_of = nn.CrossEntropyLoss()
    rng = np.random.Generator(np.random.PCG64(1))
    x, y = it.tensor(rng.integers(0, 23, (4, 12))), it.tensor(rng.integers(0, 23, (4, 12)))
    losses = []
    for _ in range(120):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert abs(losses[0] - log(23)) < 0.2
    assert losses[-1] < 0.1


@pytest.mark.parametrize("shape", [(3,), (1, 17), (2, 0)])
def test_sequences_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"time in 1 \.\. 16"):
        nn.TransformerModel(SMALL)(it.zeros(shape, dtype="int64"))


def test_impossible_sizes_are_all_named() -> None:
    with pytest.raises(nn.ConfigError) as caught:
        nn.TransformerConfig(block_size=0, n_layer=-1, norm_eps=0.0)
    assert len(caught.value.problems) == 3
    with pytest.raises(nn.ConfigError, match="n_embd 10 cannot be shared out among n_head 3"):
        nn.TransformerConfig(n_embd=10, n_head=3)
    with pytest.raises(nn.ConfigError, match=r"no preset 'gpt3', did you mean gpt2"):
        nn.TransformerConfig.preset("gpt3")
