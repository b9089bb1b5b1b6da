"""Dataclasses as TOML: the standard library reads it but does not write it, and settings are simple."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any


def to_toml(config: Any) -> str:
    """Return a dataclass of dataclasses as TOML, one table for each; values that are None are left out."""
    lines: list[str] = []
    for group in fields(config):
        lines += ["", f"[{group.name}]"] if lines else [f"[{group.name}]"]
        table = getattr(config, group.name)
        assert is_dataclass(table), f"{group.name} is no group of settings"
        for item in fields(table):
            value = getattr(table, item.name)
            if value is not None:
                lines.append(f"{item.name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, except that TOML forbids a bare DEL.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"no TOML form for {type(value).__name__}: {value!r}")
