"""The weights of a trained model, as one file that other programs read too."""

from __future__ import annotations

from pathlib import Path

import safetensors.numpy

from infinitrain.data import atomic_write
from infinitrain.nn import Module


def save_weights(model: Module, path: Path) -> None:
    """Write the parameters of `model` to a safetensors file, under their names, each once.

    A tied parameter stands under its first name only; the file's metadata maps its other names to that one,
    as in `{"tied.lm_head.weight": "transformer.wte.weight"}`. `load_state_dict` takes the file as it is.

    Raises:
        OSError: the file cannot be written; an older one is still there then.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    ties = {
        f"tied.{name}": first[id(parameter)]
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if name != first[id(parameter)]
    }
    arrays = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    with atomic_write(path) as file:
        file.write(safetensors.numpy.save(arrays, metadata=ties))
