"""From text to tokens and back.

`Tokenizer` is all that training and sampling ask of one, so that a BPE tokenizer or one from the
`tokenizers` library fits in later. `ByteTokenizer` needs no vocabulary file: its tokens are UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


@runtime_checkable
class Tokenizer(Protocol):
    """What training and sampling need from a tokenizer."""

    vocab_size: int
    """Tokens are 0 .. vocab_size - 1."""

    eot: int | None
    """The token that ends a text, or None where there is none."""

    def encode(self, text: str) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the tokens of `text`, shape (n,), as the smallest of uint16 and uint32 that holds them."""

    def decode(self, tokens: Iterable[int] | npt.NDArray[Any]) -> str:
        """Return the text of `tokens`; what is not valid text becomes U+FFFD, as a model may produce it."""


class ByteTokenizer:
    """One token for each byte of the UTF-8 text."""

    vocab_size: int = 256
    eot: int | None = None

    def encode(self, text: str) -> npt.NDArray[np.uint16]:
        """Return the UTF-8 bytes of `text` as uint16, shape (n,). A lone surrogate becomes `?`."""
        return self.encode_bytes(text.encode("utf-8", errors="replace"))

    def encode_bytes(self, text: bytes) -> npt.NDArray[np.uint16]:
        """Return `text`, bytes of a file for example, as uint16, shape (n,)."""
        return np.frombuffer(text, dtype=np.uint8).astype(np.uint16)

    def decode(self, tokens: Iterable[int] | npt.NDArray[Any]) -> str:
        """Return the text of `tokens`. Invalid UTF-8 and numbers outside 0..255 become U+FFFD."""
        values = tokens.reshape(-1).tolist() if isinstance(tokens, np.ndarray) else list(tokens)
        # 0xFF never occurs in UTF-8, so it stands for whatever is not a byte.
        return bytes(v if 0 <= v < 256 else 0xFF for v in values).decode("utf-8", errors="replace")
