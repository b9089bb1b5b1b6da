"""A model that does not fit is refused before it is built."""

from __future__ import annotations

import pytest

from infinitrain.nn import TransformerConfig, TransformerModel
from infinitrain_examples.config import Config, parse
from infinitrain_examples.errors import UsageError
from infinitrain_examples.resolve import resolve
from infinitrain_examples.sizes import available_memory, check_size


def config_of(*flags: str) -> Config:
    return resolve(parse(["--vocab_size", "300", "--n_layer", "2", "--n_embd", "64", *flags]))


@pytest.mark.parametrize(("flags", "copies"), [((), 4), (("--optimizer", "sgd"), 2)])
def test_the_limit_is_what_the_model_takes(flags: tuple[str, ...], copies: int) -> None:
    shape = TransformerConfig(block_size=256, vocab_size=300, n_layer=2, n_head=4, n_embd=64)
    weights = 4 * TransformerModel(shape).num_parameters()
    check_size(config_of(*flags), on_host=True, available=copies * weights + 2**18)
    with pytest.raises(UsageError, match="use a smaller --n_layer, --n_embd or --vocab_size"):
        check_size(config_of(*flags), on_host=True, available=int(0.95 * copies * weights))
    check_size(config_of(*flags), on_host=False, available=weights + 2**18)


def test_many_small_layers_count_too() -> None:
    with pytest.raises(UsageError, match="GiB"):
        check_size(config_of("--n_layer", "1000000", "--n_embd", "4"), on_host=True, available=2**34)


def test_what_the_system_says() -> None:
    available = available_memory()
    assert available is None or 2**20 < available < 2**50
