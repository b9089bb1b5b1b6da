"""The file of weights: complete, tied ones once, readable again."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.numpy
from safetensors import safe_open

from infinitrain.nn import TransformerConfig, TransformerModel
from infinitrain_examples.weights import save_weights

CONFIG = TransformerConfig(block_size=8, vocab_size=11, n_layer=1, n_head=1, n_embd=8)


def test_a_model_can_be_loaded_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model, other = TransformerModel(CONFIG, seed=1), TransformerModel(CONFIG, seed=2)
    save_weights(model, path)
    other.load_state_dict(safetensors.numpy.load_file(path))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert (p.numpy() == q.numpy()).all()


def test_a_tied_parameter_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(TransformerModel(CONFIG), path)
    with safe_open(path, "numpy") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118 - it is no mapping
        assert file.metadata() == {"tied.lm_head.weight": "transformer.wte.weight"}


def test_an_older_file_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    monkeypatch.setattr(safetensors.numpy, "save", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_weights(TransformerModel(CONFIG), path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
