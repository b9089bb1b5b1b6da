"""TransformerConfig: the sizes of a GPT-2 style model, and the presets that have a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

from ..errors import InfiniTrainError


class ConfigError(InfiniTrainError, ValueError):
    """Sizes of a model that do not fit together; ``problems`` lists every reason."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("this model cannot be built: " + "; ".join(problems))


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a GPT-2 style model; ``TransformerConfig.preset(name)`` gives known ones. Raises ConfigError.

    >>> TransformerConfig.preset("gpt2-medium").n_embd
    1024
    """

    block_size: int = 1024
    """Longest sequence, in tokens."""
    vocab_size: int = 50257
    """Number of different tokens."""
    n_layer: int = 12
    """Transformer blocks."""
    n_head: int = 12
    """Attention heads in each block; divides n_embd."""
    n_embd: int = 768
    """Width: numbers for each token."""
    ffn_expansion_ratio: float = 4.0
    """Width of the hidden layer of each MLP, in n_embd."""
    norm_eps: float = 1e-5
    """What is added to the variance in LayerNorm."""
    add_bias_linear: bool = True
    """Whether the linear layers of the blocks have a bias."""
    tie_weights: bool = True
    """Whether the output layer uses the token embedding's weight."""

    def __post_init__(self) -> None:
        problems = [
            f"{name} is an int >= 1, got {getattr(self, name)!r}"
            for name in ("block_size", "vocab_size", "n_layer", "n_head", "n_embd")
            if not _is_size(getattr(self, name))
        ]
        if not problems and self.n_embd % self.n_head:
            problems.append(f"n_embd {self.n_embd} cannot be shared out among n_head {self.n_head} heads")
        if not problems and int(self.n_embd * self.ffn_expansion_ratio) < 1:
            problems.append(f"ffn_expansion_ratio {self.ffn_expansion_ratio} leaves the MLPs no hidden layer")
        if not self.norm_eps > 0:
            problems.append(f"norm_eps is above 0, got {self.norm_eps}")
        if problems:
            raise ConfigError(problems)

    @property
    def ffn_hidden(self) -> int:
        """Width of the hidden layer of each MLP."""
        return int(self.n_embd * self.ffn_expansion_ratio)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> TransformerConfig:
        """Return the preset ``name`` with some fields changed. Raises ConfigError."""
        if name not in PRESETS:
            near = get_close_matches(name, PRESETS, 2)
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise ConfigError([f"no preset {name!r}{hint} (known: {', '.join(PRESETS)})"])
        return replace(PRESETS[name], **changes)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_SMALL: Final = TransformerConfig()
_MEDIUM: Final = TransformerConfig(n_layer=24, n_head=16, n_embd=1024)
_LARGE: Final = TransformerConfig(n_layer=36, n_head=20, n_embd=1280)
_XL: Final = TransformerConfig(n_layer=48, n_head=25, n_embd=1600)

PRESETS: Final[dict[str, TransformerConfig]] = {
    "tiny": TransformerConfig(block_size=256, vocab_size=256, n_layer=4, n_head=4, n_embd=128),
    "gpt2": _SMALL,
    "gpt2-medium": _MEDIUM,
    "gpt2-large": _LARGE,
    "gpt2-xl": _XL,
    # The same four by number of layers, as llm.c calls them.
    "d12": _SMALL,
    "d24": _MEDIUM,
    "d36": _LARGE,
    "d48": _XL,
}
"""Models by name. "tiny" has 0.8 million parameters and learns something on bytes in a minute on a CPU."""
