"""A dataclass of dataclasses as a command line: reading it, one line for each mistake, and help.

Each inner dataclass is a group, each field a flag, the string below a field its help text. Types: int, float,
str, bool (`--x` and `--no_x`), `Literal` of strings, `tuple[str, ...]` (may be given repeatedly), and each of
them `| None` for what follows from other flags.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from .errors import UsageError

T = TypeVar("T")
_NUMBERS: dict[type, tuple[str, str]] = {int: ("INT", "a whole number"), float: ("NUMBER", "a number")}
_ONLY = {"dtype": "the script does not offer mixed precision yet (infinitrain.autocast is the library's)"}
"""Why a flag has one value so far."""


@dataclass(frozen=True)
class Flag:
    """One flag: `kind` is a type, or the tuple of the texts that it may have."""

    group: str
    name: str
    kind: Any
    repeated: bool
    default: Any

    def read(self, text: str) -> Any:
        """Return the value that `text` stands for, or raise UsageError."""
        if isinstance(self.kind, tuple):
            if text not in self.kind:
                known = " or ".join(
                    (", ".join(self.kind[:-1]), self.kind[-1]) if self.kind[1:] else self.kind
                )
                if self.kind[1:]:
                    hint = _did_you_mean(get_close_matches(text.lower(), self.kind, 1, 0.5))
                else:
                    hint = f": {_ONLY[self.name]}" if self.name in _ONLY else ""
                raise UsageError(f"--{self.name} must be {known}, got {text!r}{hint}")
            return text
        if self.kind in _NUMBERS:
            try:
                return self.kind(text)
            except ValueError:
                expected = _NUMBERS[self.kind][1]
                raise UsageError(f"--{self.name} must be {expected}, got {text[:80]!r}") from None
        return text


def flags_of(config: type) -> dict[str, Flag]:
    """Return all flags of a dataclass of dataclasses, by name."""
    found = {}
    for group, table in get_type_hints(config).items():
        hints = get_type_hints(table)
        for item in fields(table):
            kind, repeated = hints[item.name], False
            if get_origin(kind) is UnionType:
                (kind,) = (k for k in get_args(kind) if k is not NoneType)
            if get_origin(kind) is tuple:
                kind, repeated = get_args(kind)[0], True
            if get_origin(kind) is Literal:
                kind = get_args(kind)
            found[item.name] = Flag(group, item.name, kind, repeated, item.default)
    return found


def parse(config: type[T], argv: Sequence[str], *, aliases: Mapping[str, str]) -> T:
    """Return `config` as `argv` fills it. Names may be spelled with underscores or hyphens.

    `aliases` maps names from elsewhere to the flags to suggest for them; they are not accepted.

    Raises:
        UsageError: an unknown flag (with the nearest known one), a missing or unreadable value.
    """
    known = flags_of(config)
    given: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        name, equals, text = word.partition("=")
        name = name.removeprefix("--").replace("-", "_") if name.startswith("--") else ""
        flag = known.get(name) or known.get(name.removeprefix("no_"))
        if flag is None or (name != flag.name and flag.kind is not bool):
            raise UsageError(_unknown(word, name, known, aliases))
        if flag.kind is bool:
            if equals:
                raise UsageError(f"--{name} takes no value; use --{flag.name} or --no_{flag.name}")
            given[flag.name] = name == flag.name
            continue
        value = flag.read(text if equals else _next_value(words, flag, known))
        given[name] = (*given.get(name, ()), value) if flag.repeated else value
    groups = {
        group: table(**{n: v for n, v in given.items() if known[n].group == group})
        for group, table in get_type_hints(config).items()
    }
    return config(**groups)


def help_text(config: type) -> str:
    """Return all flags by group, with what they take, what they mean and their defaults."""
    columns = max(50, min(100, shutil.get_terminal_size().columns))
    known = flags_of(config)
    lines: list[str] = []
    for group, table in get_type_hints(config).items():
        lines += ["", f"{group}: {inspect.cleandoc(table.__doc__ or '')}".rstrip(": ")]
        helps = _strings_below_fields(table)
        for flag in known.values():
            if flag.group == group:
                text = " ".join(f"{helps.get(flag.name, '')}{_default(flag)}".split())
                lines.append(f"  {_usage(flag)}")
                lines += textwrap.wrap(text, columns, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join(lines)


def show(text: str) -> None:
    """Print `text`; a reader that went away is no error."""
    with suppress(OSError):
        print(text, flush=True, file=sys.stdout)


def _next_value(words: Iterator[str], flag: Flag, known: Mapping[str, Flag]) -> str:
    text = next(words, None)
    if text is None or (
        text.partition("=")[0].removeprefix("--").replace("-", "_") in known and text[:2] == "--"
    ):
        what = _NUMBERS[flag.kind][1] if flag.kind in _NUMBERS else "a value"
        raise UsageError(f"--{flag.name} needs {what}, as in --{flag.name}={_metavar(flag)}")
    return text


def _unknown(word: str, name: str, known: Mapping[str, Flag], aliases: Mapping[str, str]) -> str:
    if not word.startswith("-"):
        return f"unexpected {word!r}: flags begin with --, and text with blanks needs quotes"
    names = [*known, *(f"no_{n}" for n, flag in known.items() if flag.kind is bool)]
    wanted = name or word.lstrip("-").replace("-", "_")
    meant = [aliases[wanted]] if wanted in aliases else get_close_matches(wanted, names, 2)
    meant = meant or [n for n in names if wanted and n.startswith(wanted)][:2]
    return (
        f"unknown flag {word.partition('=')[0]}{_did_you_mean([f'--{n}' for n in meant]) or '; see --help'}"
    )


def _did_you_mean(near: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _usage(flag: Flag) -> str:
    return f"--{flag.name}, --no_{flag.name}" if flag.kind is bool else f"--{flag.name} {_metavar(flag)}"


def _metavar(flag: Flag) -> str:
    if isinstance(flag.kind, tuple):
        return "|".join(flag.kind)
    return _NUMBERS[flag.kind][0] if flag.kind in _NUMBERS else "TEXT"


def _default(flag: Flag) -> str:
    if flag.repeated:
        return " May be given several times."
    if flag.default in (None, ""):
        return ""  # the text says what happens then
    value = ("on" if flag.default else "off") if flag.kind is bool else flag.default
    return f" (default: {value})"


def _strings_below_fields(table: type) -> dict[str, str]:
    """Read them from the source: Python itself does not keep them."""
    try:
        (definition,) = ast.parse(inspect.getsource(table)).body
    except OSError:  # installed without sources
        return {}
    assert isinstance(definition, ast.ClassDef)
    return {
        item.target.id: below.value.value
        for item, below in pairwise(definition.body)
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }
