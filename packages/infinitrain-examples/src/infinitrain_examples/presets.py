"""The models that `--model` names: their shapes are `infinitrain.nn`'s, how they are trained is said here."""

from __future__ import annotations

from dataclasses import dataclass

from infinitrain.nn import TransformerConfig


@dataclass(frozen=True)
class Preset:
    """The shape of a model, and how it is trained unless the flags say otherwise.

    Learning rates of the large models are those of GPT-3's models of the same size (Brown et al., 2020,
    table 2.1).
    """

    shape: TransformerConfig
    learning_rate: float
    num_iteration: int = 10


def _preset(name: str, learning_rate: float, num_iteration: int = 10) -> Preset:
    return Preset(TransformerConfig.preset(name), learning_rate, num_iteration)


PRESETS: dict[str, Preset] = {
    "tiny": _preset("tiny", 3.5e-3, num_iteration=2100),  # writes words after a minute on a CPU
    "gpt2": _preset("gpt2", 6e-4),
    "gpt2-medium": _preset("gpt2-medium", 3e-4),
    "gpt2-large": _preset("gpt2-large", 2.5e-4),
    "gpt2-xl": _preset("gpt2-xl", 2e-4),
    "d12": _preset("d12", 6e-4),
    "d24": _preset("d24", 3e-4),
    "d36": _preset("d36", 2.5e-4),
    "d48": _preset("d48", 2e-4),
}
