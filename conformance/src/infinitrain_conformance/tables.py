"""Lists in TOML that a provider checks in: entries that know their line, and every problem of a file at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One ``[[name]]`` table: its keys, and where it stands for messages."""

    values: Mapping[str, Any]
    where: str


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split("*"))), re.DOTALL)


def glob(pattern: str, text: str) -> bool:
    """Tell whether ``text`` matches; ``*`` is the only wildcard, as ids of tests are full of brackets."""
    return _pattern(pattern).fullmatch(text) is not None


def read(
    path: Path, name: str, keys: Mapping[str, type | tuple[type, ...]], required: Sequence[str], top: str = ""
) -> tuple[list[Entry], dict[str, Any], list[str]]:
    """Return the entries ``[[name]]`` without a problem, the other keys of the file (``top`` is the one that may be
    there), and all problems.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return [], {}, [f"{path}: {error}"]
    lines = [i for i, line in enumerate(text.splitlines(), 1) if re.match(rf"\s*\[\[\s*{name}\s*\]\]", line)]
    problems = [f"{path}: {unknown(key, (name, top))}" for key in found if key not in (name, top)]
    tables = found.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        return [], found, [*problems, f"{path}: {name} is no list of tables: write [[{name}]]"]
    entries = []
    for number, table in enumerate(tables, 1):
        line = f"line {lines[number - 1]}, " if len(lines) == len(tables) else ""
        where = f"{path}: {line}entry {number}"
        wrong = [unknown(key, tuple(keys)) for key in table if key not in keys]
        wrong += [f"{key!r} is missing" for key in required if key not in table]
        wrong += [
            f"{key} = {table[key]!r} is no {_kind(kind)}"
            for key, kind in keys.items()
            if key in table
            and (not isinstance(table[key], kind) or isinstance(table[key], bool) or not table[key])
        ]
        problems += [f"{where}: {text}" for text in wrong]
        if not wrong:
            entries.append(Entry(table, where))
    return entries, found, problems


def unknown(key: str, known: Sequence[str]) -> str:
    """Return the message about a key that nobody knows."""
    near = get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(filter(None, known))}"
    return f"unknown key {key!r}; {hint}"


def _kind(kind: type | tuple[type, ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = {"str": "text", "int": "whole number from 1", "date": "date such as 2027-01-31", "dict": "table"}
    return " or ".join(names.get(k.__name__, k.__name__) for k in kinds)
