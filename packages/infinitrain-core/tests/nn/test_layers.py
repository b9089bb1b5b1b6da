"""Layers against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn

RNG = np.random.Generator(np.random.PCG64(4))


def _x(*shape: int) -> np.ndarray:
    return RNG.normal(0.3, 1.7, shape)


def test_linear() -> None:
    layer, x = nn.Linear(5, 3, dtype="float64"), _x(2, 4, 5)
    expected = np.einsum("bti,oi->bto", x, layer.weight.numpy()) + layer.bias.numpy()
    np.testing.assert_allclose(layer(it.tensor(x)).numpy(), expected, rtol=1e-12)


def test_layer_norm() -> None:
    layer, x = nn.LayerNorm(6, eps=1e-3, dtype="float64"), _x(3, 6)
    layer.load_state_dict({"weight": _x(6), "bias": _x(6)})
    spread = np.sqrt(((x - x.mean(1, keepdims=True)) ** 2).mean(1, keepdims=True) + 1e-3)
    expected = (x - x.mean(1, keepdims=True)) / spread * layer.weight.numpy() + layer.bias.numpy()
    np.testing.assert_allclose(layer(it.tensor(x)).numpy(), expected, rtol=1e-10)


def test_rms_norm() -> None:
    layer, x = nn.RMSNorm(6, eps=1e-3, dtype="float64"), _x(3, 2, 6)
    assert layer.weight.tolist() == [1.0] * 6
    assert str(layer) == "RMSNorm(6, eps=0.001)"
    layer.load_state_dict({"weight": _x(6)})
    expected = x / np.sqrt((x**2).sum(2, keepdims=True) / 6 + 1e-3) * layer.weight.numpy()
    np.testing.assert_allclose(layer(it.tensor(x)).numpy(), expected, rtol=1e-10)


def test_rms_norm_keeps_a_weight_in_float32() -> None:
    layer = nn.RMSNorm(6)
    y = layer(it.tensor(_x(3, 6)).astype("bfloat16"))
    assert y.dtype is it.bfloat16
    y.sum().backward()
    assert layer.weight.grad.dtype is it.float32


def test_gelu_is_the_tanh_form() -> None:
    x = _x(50)
    expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(nn.GELU()(it.tensor(x)).numpy(), expected, rtol=1e-10)


def test_cross_entropy_ignores_what_it_is_told_to() -> None:
    logits, target = _x(6, 5), np.array([0, 4, -1, 2, -1, 3])
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    kept = target >= 0
    expected = -np.log(p[kept, target[kept]]).mean()
    loss = nn.CrossEntropyLoss(ignore_index=-1)(it.tensor(logits), it.tensor(target))
    assert loss.shape == ()
    assert loss.item() == pytest.approx(expected, rel=1e-12)


def test_embedding() -> None:
    layer = nn.Embedding(7, 3)
    index = np.array([[6, 0], [0, 2]])
    rows = layer(it.tensor(index))
    assert (rows.numpy() == layer.weight.numpy()[index]).all()
    weights = _x(2, 2, 3).astype(np.float32)
    rows.backward(it.tensor(weights))
    expected = np.zeros((7, 3))
    for i in range(2):
        for j in range(2):
            expected[index[i, j]] += weights[i, j]
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-6)


def test_sequential_and_module_list() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    x = it.tensor(_x(2, 3).astype(np.float32))
    assert (net(x).numpy() == net[2](net[1](net[0](x))).numpy()).all()
    assert len(net) == 3
    assert net[-1] is net[2]
    with pytest.raises(TypeError, match="holds modules"):
        nn.ModuleList([3])  # type: ignore[list-item]


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_sizes_are_positive_ints(size: int) -> None:
    with pytest.raises(ValueError, match="int >= 1"):
        nn.Linear(size, 2)
    with pytest.raises(ValueError, match="RMSNorm: size is an int >= 1"):
        nn.RMSNorm(size)


def test_cross_entropy_loss_passes_its_options_on() -> None:
    """With smoothing s the sum is (1 - s) times -log p of the target plus s times the mean of -log p."""
    rng = np.random.default_rng(4)
    logits, target = rng.normal(0.5, 2.0, (6, 5)), np.array([0, 3, 4, 1, 1, 2])
    loss = nn.CrossEntropyLoss(label_smoothing=0.2, reduction="sum")(it.tensor(logits), it.tensor(target))
    minus_log_p = np.log(np.exp(logits).sum(1, keepdims=True)) - logits
    want = 0.8 * minus_log_p[np.arange(6), target] + 0.2 * minus_log_p.mean(1)
    np.testing.assert_allclose(loss.item(), want.sum(), rtol=1e-6)
