"""The models that `--model` names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The shape of a GPT-2 style model, and how it is trained unless the flags say otherwise.

    `block_size` is the longest sequence, in tokens. Learning rates of the large models are those of GPT-3's
    models of the same size (Brown et al., 2020, table 2.1).
    """

    n_layer: int
    n_head: int
    n_embd: int
    learning_rate: float
    block_size: int = 1024
    num_iteration: int = 10


_SMALL, _MEDIUM, _LARGE, _XL = (
    Preset(12, 12, 768, 6e-4),
    Preset(24, 16, 1024, 3e-4),
    Preset(36, 20, 1280, 2.5e-4),
    Preset(48, 25, 1600, 2e-4),
)

PRESETS: dict[str, Preset] = {
    # 0.9 million parameters: writes words after a minute on a CPU.
    "tiny": Preset(4, 4, 128, 3e-3, block_size=256, num_iteration=800),
    "gpt2": _SMALL,
    "gpt2-medium": _MEDIUM,
    "gpt2-large": _LARGE,
    "gpt2-xl": _XL,
    # llm.c's names for the same four, by number of layers.
    "d12": _SMALL,
    "d24": _MEDIUM,
    "d36": _LARGE,
    "d48": _XL,
}
