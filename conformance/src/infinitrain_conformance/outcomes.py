"""From what pytest saw of a test to its outcome: what counts as declined, and the text of a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from .marks import Declined, beyond_the_floor
from .report import Case

NO_KERNEL: Final = "no kernel "
_LONGEST: Final = 4000


def declined(case: Case, item: pytest.Item, error: BaseException) -> str | None:
    """Return why a test counts as unsupported, or None when it is a failure [contract 4.6, 4.7]."""
    from infinitrain.backend import BASE_OPS
    from infinitrain.errors import (
        KernelNotFoundError,
        NotSupportedError,
        UnsupportedDtypeError,
        UnsupportedShapeError,
    )

    mark = item.get_closest_marker("contract")
    assert mark is not None
    if isinstance(error, Declined):
        return str(error)
    if isinstance(error, KernelNotFoundError) and case.op is not None:
        missing = getattr(error, "op", None)
        return None if missing in BASE_OPS or mark.kwargs.get("base") else f"{NO_KERNEL}{missing}"
    if isinstance(error, UnsupportedDtypeError | UnsupportedShapeError) and case.op is not None:
        if isinstance(error, UnsupportedDtypeError):
            refusable = beyond_the_floor(item, case.op)
        else:
            refusable = not mark.kwargs.get("base")
        return f"{type(error).__name__}: {error}" if refusable else None
    if isinstance(error, NotSupportedError) and mark.kwargs.get("optional"):
        return f"not offered: {error}"
    return None


def failure_text(report: pytest.TestReport, heading: str) -> str:
    """Return the message of a failure. What the suite says stands alone; an exception of the provider or of core comes
    with the heading and the frames that it passed.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr)
    if heading in text:
        return text[:_LONGEST]
    return f"{heading}\n  {text}\n{report.longreprtext[-_LONGEST:]}"[: 2 * _LONGEST]


def is_foreign(info: pytest.ExceptionInfo[BaseException]) -> bool:
    """Tell whether an exception came through code that is neither the suite's nor pytest's: a provider's, or core's."""
    ours = {"infinitrain_conformance", "_pytest", "pytest", "pluggy"}
    return any(not ours & set(Path(entry.path).parts) for entry in info.traceback)
