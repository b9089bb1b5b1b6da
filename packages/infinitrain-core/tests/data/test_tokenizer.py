"""Bytes are tokens: the round trip is exact for text, and never fails for what a model makes up."""

from __future__ import annotations

import numpy as np
import pytest

from infinitrain.data import ByteTokenizer, Tokenizer


def test_is_a_tokenizer() -> None:
    tokenizer: Tokenizer = ByteTokenizer()
    assert isinstance(tokenizer, Tokenizer)
    assert tokenizer.vocab_size == 256
    assert tokenizer.eot is None


@pytest.mark.parametrize("text", ["", "plain", "ünïcödé €", "🙂 漢字", "line\nline\ttab\x00"])
def test_round_trip(text: str) -> None:
    tokens = ByteTokenizer().encode(text)
    assert tokens.dtype == np.uint16
    assert tokens.tolist() == list(text.encode())
    assert ByteTokenizer().decode(tokens) == text
    assert ByteTokenizer().decode(tokens.tolist()) == text


def test_decodes_what_is_not_text() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode([0x41, 0xC3, 0x42]) == "A\ufffdB"
    assert tokenizer.decode(np.array([[65, 50256], [-1, 66]])) == "A\ufffd\ufffdB"


def test_encodes_an_unpaired_surrogate() -> None:
    assert ByteTokenizer().encode("a\udc80b").tolist() == list(b"a?b")
