"""Parsing for people: one line for a mistake, with what was probably meant, and exit status 2."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final, NoReturn

USAGE: Final = 2


class UsageError(Exception):
    """The command line cannot be carried out as it is; the text is all that is printed."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError, suggests flags, and takes no abbreviations."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **kwargs)

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (-\S*)", message)
        if unknown:
            flag = unknown[1].partition("=")[0]
            flags = [o for action in self._actions for o in action.option_strings if o.startswith("--")]
            meant = flag.replace("-", "_").replace("__", "--", 1)
            message = f"unknown flag {flag}{did_you_mean(meant, flags)}"
        raise UsageError(f"{self.prog}: {message}. See {self.prog} --help".replace("?.", "?"))


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return "" or a question that names what ``text`` resembles, or is a part of, in any case."""
    names = {name.lower(): name for name in known}
    wanted = text.lower()
    near = get_close_matches(wanted, names, 3, 0.7)
    near += [name for name in names if wanted and wanted in name and name not in near][: 3 - len(near)]
    return f". Did you mean {' or '.join(names[n] for n in near)}?" if near else ""
