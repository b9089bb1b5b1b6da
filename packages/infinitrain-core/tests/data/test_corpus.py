"""The built-in text is prose, is always the same, and is long enough to train on."""

from __future__ import annotations

import re
import sys

import pytest

from infinitrain.data import DataError, corpus


def test_is_half_a_megabyte_of_text_and_the_same_on_every_call() -> None:
    first = corpus()
    assert 400_000 < len(first) < 700_000
    assert corpus() == first
    assert first.count(b"\n") > 5000
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", first.decode("utf-8"))


def test_is_tidy_and_in_the_order_of_the_topics() -> None:
    text = corpus().decode()
    assert not re.search(r"[ \t]\n", text)
    assert "\n\n\n" not in text
    assert text.index('The "assert" statement') < text.index('The "while" statement')
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_says_what_is_missing_in_a_python_without_help_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(DataError, match=r"pydoc_data\.topics; give a text or token file"):
        corpus()
