"""The models that `--model` names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The shape of a GPT-2 style model. `block_size` is the longest sequence, in tokens."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int = 1024


_SMALL, _MEDIUM, _LARGE, _XL = (
    Preset(12, 12, 768),
    Preset(24, 16, 1024),
    Preset(36, 20, 1280),
    Preset(48, 25, 1600),
)

PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        4, 4, 128, block_size=256
    ),  # 0.8 million parameters: learns something in a minute on a CPU
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
