"""What is written is what tomllib reads."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest

from infinitrain_examples._toml import to_toml


@dataclass
class Group:
    value: Any


@dataclass
class Settings:
    first: Group
    second: Group = field(default_factory=lambda: Group(1))


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, 0, -7, 2**63 - 1, 1e-05, 0.1, 1e300, -2.5, float("inf")),
        *("", "plain", 'quo"te \\ back', "new\nline\ttab\r", "\x00\x1b\x7f", "é€🙂", "# no = comment [x]"),
        *([], ["a", "b=c"], [1, 2]),
    ],
)
def test_round_trip(value: Any) -> None:
    text = to_toml(Settings(Group(value)))
    assert tomllib.loads(text) == {"first": {"value": value}, "second": {"value": 1}}


def test_none_is_left_out_and_tuples_are_lists() -> None:
    text = to_toml(Settings(Group(None), Group(("a", "b"))))
    assert text == '[first]\n\n[second]\nvalue = ["a", "b"]\n'


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="no TOML form for set"):
        to_toml(Settings(Group({1})))
