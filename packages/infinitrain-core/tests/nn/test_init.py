"""First values: which distribution, and what they depend on [contract 8.1]."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from infinitrain import nn, random


def test_layers_start_with_their_distributions() -> None:
    random.manual_seed(1)
    linear = nn.Linear(100, 400)
    w, b = linear.weight.numpy(), linear.bias.numpy()
    assert np.abs(w).max() <= 0.1
    assert abs(w.std() - 0.1 / sqrt(3)) < 0.001
    assert 0.09 < np.abs(b).max() <= 0.1
    e = nn.Embedding(300, 100).weight.numpy()
    assert abs(e.std() - 1) < 0.02
    assert abs(e.mean()) < 0.03
    norm = nn.LayerNorm(5)
    assert norm.weight.tolist() == [1.0] * 5
    assert norm.bias.tolist() == [0.0] * 5


def test_kaiming_uniform_with_the_usual_a_is_one_over_the_root_of_fan_in() -> None:
    assert nn.init.kaiming_uniform(64).high == pytest.approx(1 / 8)
    assert nn.init.kaiming_uniform(6, a=0.0).high == pytest.approx(1.0)


def test_two_layers_made_one_after_the_other_differ() -> None:
    assert (nn.Linear(4, 4).weight.numpy() != nn.Linear(4, 4).weight.numpy()).any()


def test_values_depend_on_seed_and_name_only() -> None:
    def build(order: str) -> nn.Module:
        model = nn.Module()
        for name in order:
            setattr(model, name, nn.Linear(3, 5))
        return model

    one, two = build("abc"), build("cab")
    random.normal((11,))  # the default generator has no part in it
    nn.init_weights(one, 5)
    nn.init_weights(two, 5)
    for name, p in one.named_parameters():
        assert (p.numpy() == dict(two.named_parameters())[name].numpy()).all()
    assert (one.a.weight.numpy() != one.b.weight.numpy()).all()
    nn.init_weights(two, 6)
    assert (one.a.weight.numpy() != two.a.weight.numpy()).all()


def test_a_shard_draws_its_slice() -> None:
    model = nn.Module()
    model.table = nn.Embedding(7, 6)
    nn.init_weights(model, 9)
    rows = random.normal_slice(9, "table.weight", 2 * 6, 5 * 6).astype(np.float32).reshape(3, 6)
    assert (model.table.weight.numpy()[2:5] == rows).all()


def test_a_tied_parameter_has_the_values_of_its_first_name() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    alone = nn.Sequential(nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    nn.init_weights(model, 2)
    nn.init_weights(alone, 2)
    assert (model[1].weight.numpy() == alone[0].weight.numpy()).all()


def test_half_precision_values_are_the_rounded_ones() -> None:
    full, half = nn.Embedding(8, 8), nn.Embedding(8, 8, dtype="bfloat16")
    nn.init_weights(full, 3)
    nn.init_weights(half, 3)
    exact = random.normal_slice(3, "weight", 0, 64).reshape(8, 8)
    assert (half.weight.numpy() == exact.astype(half.weight.dtype.numpy)).all()
    assert (full.weight.numpy() == exact.astype(np.float32)).all()


def test_deferred_modules_are_not_drawn() -> None:
    generator = random.default_generator()
    position = generator.position
    with nn.init.deferred():
        nn.Linear(10, 10)
    assert generator.position == position
    nn.Linear(10, 10)
    assert generator.position == position + 110
