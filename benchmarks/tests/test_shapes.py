"""Sizes, arithmetic and first values of the shapes, against the models themselves and counts made apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from _data import batches, weights
from _llama import Llama
from _ours import Program
from _shapes import SHAPES, Shape, gpt2

from infinitrain import nn

SMALL = {"gpt2": gpt2(2, 12, 3, 17, 2, 5), "llama": Shape("llama", 2, 24, 6, 2, 20, 17, 2, 5)}


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_parameters_are_those_of_the_model(shape: Shape) -> None:
    if shape.family == "llama":
        model: nn.Module = Llama(shape)
    else:
        model = nn.TransformerModel(
            nn.TransformerConfig(
                block_size=shape.time, vocab_size=shape.vocab, n_layer=shape.layers, n_head=shape.heads,
                n_embd=shape.width,
            )
        )  # fmt: skip
    assert {name: p.shape for name, p in model.named_parameters()} == shape.parameters()
    assert sum(p.numel for p in model.parameters()) == shape.size()


def test_published_sizes() -> None:
    assert SHAPES["gpt2-124m-1024"].size() == 124_475_904
    assert replace(SHAPES["gpt2-124m-1024"], vocab=50257).size() == 124_439_808  # as published
    assert SHAPES["llama-125m-512"].size() == 124_668_672


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_arithmetic(shape: Shape) -> None:
    matrices = {
        n: s for n, s in shape.parameters().items() if len(s) == 2 and "wte" not in n and "wpe" not in n
    }
    matrices["head"] = (shape.vocab, shape.width)
    matrices.pop("lm_head.weight", None)
    expected = sum(6 * shape.batch * shape.time * a * b for a, b in matrices.values())
    assert sum(p.flops for p in shape.products()) == expected
    one_head = sum(
        2 * (shape.width // shape.heads) * 6
        for query in range(shape.time)
        for key in range(shape.time)
        if key <= query
    )
    assert shape.attention_flops() == shape.layers * shape.batch * shape.heads * one_head


def test_first_values_depend_on_name_and_shape_alone() -> None:
    shape = SMALL["gpt2"]
    first = dict(weights(shape))
    for name, value in weights(replace(shape, layers=1)):
        np.testing.assert_array_equal(value, first[name])
    flat = [value.reshape(-1)[:10].tobytes() for value in first.values()]
    assert len(set(flat)) == len(flat)
    (tokens, targets), other = batches(shape)
    assert tokens.shape == targets.shape == (2, 5)
    assert not np.array_equal(tokens, targets)
    assert not np.array_equal(tokens, other[0])


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_our_program_trains(shape: Shape) -> None:
    program = Program(threads=1)
    program.prepare(shape.__dict__)
    found = program.steps(count=40, settle=2)
    assert len(found["times"]) == len(found["losses"]) == 40
    assert found["losses"][0] == pytest.approx(np.log(shape.vocab), rel=0.05)
    assert found["losses"][-1] < found["losses"][0] - 0.05
