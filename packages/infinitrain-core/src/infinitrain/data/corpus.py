"""Half a megabyte of English prose that every Python installation already has.

Python ships the text of its language reference for `help("with")` and the like (`pydoc_data.topics`). It is
real prose, it is licensed with Python, and using it means that a first training run downloads nothing. It
differs a little between Python versions (466 KB on 3.11, 512 KB on 3.13), so losses are only comparable
between runs on the same one.
"""

from __future__ import annotations

import re

from .errors import DataError

_TRAILING_SPACE = re.compile(r"[ \t]+$", flags=re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def corpus() -> bytes:
    """Return Python's language reference as UTF-8 text, about 0.5 MB, the same bytes on every call.

    Raises:
        DataError: this Python was installed without its help texts (some minimal distributions).
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise DataError(
            "the built-in text is missing: this Python comes without pydoc_data.topics; "
            "give a text or token file instead"
        ) from error
    return "\n\n".join(_tidy(topics[name]) for name in sorted(topics)).encode() + b"\n"


def _tidy(text: str) -> str:
    """Drop what a language model would learn for nothing: trailing blanks and runs of empty lines."""
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip("\n")
