"""Failures for people: how many of which op first, then some of each in full."""

from __future__ import annotations

from collections import Counter
from typing import Final

from .report import Case, Report, Result

SHOWN: Final = 3
"""Failures of one op that are told in full unless all are asked for."""
BAD: Final = ("failed", "crashed")


def name_of(case: Case) -> str:
    """Return what a test is counted under: its op, or its file."""
    return case.op or case.id.partition("::")[0]


def _groups(report: Report) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in report.of(*BAD):
        groups.setdefault(name_of(report.cases[result.id]), []).append(result)
    return groups


def groups(report: Report) -> list[str]:
    """Return a line for each op with failures: how many of its tests, and in which dtypes."""
    total = Counter(map(name_of, report.cases.values()))
    return [
        f"{name}: {_count(results, total[name])}{_dtypes(results, report)}"
        for name, results in _groups(report).items()
    ]


def _count(results: list[Result], total: int) -> str:
    counts = Counter(result.outcome for result in results)
    first, *more = (outcome for outcome in BAD if counts[outcome])
    return ", ".join([f"{counts[first]} of {total} {first}", *(f"{counts[o]} {o}" for o in more)])


def _dtypes(results: list[Result], report: Report) -> str:
    counts = Counter(dtype for result in results if (dtype := report.cases[result.id].dtype) is not None)
    return f" ({', '.join(f'{dtype} {count}' for dtype, count in counts.items())})" if counts else ""


def lines(report: Report, *, verbose: bool = False) -> list[str]:
    """Return the failures: the lines by op, then the messages, of each op the first few unless ``verbose``."""
    out = groups(report)
    for name, results in _groups(report).items():
        shown = results if verbose else results[:SHOWN]
        out += [f"\n{result.outcome.upper()} {result.id}\n{result.message}" for result in shown]
        if len(results) > len(shown):
            out.append(f"\n... and {len(results) - len(shown)} more of {name}; --verbose prints all of them")
    return out
