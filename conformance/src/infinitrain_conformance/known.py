"""Known skips: what a provider declines or lacks, checked in with its length, so that none grows unseen.

total = 57                              # tests that did not run

[[skip]]
id = "ops::test_values[*-bfloat16]"     # `*` is the only wildcard
outcome = "unsupported"                 # or "skipped", for lack of hardware
count = 56
reason = "the library has no bfloat16"
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Final

from .report import Report, Result, write_whole
from .tables import Entry, glob, read

OUTCOMES: Final = ("unsupported", "skipped")
_KEYS: Final = {"id": str, "outcome": str, "count": int, "reason": str}


def check(path: Path, report: Report) -> list[str]:
    """Return where the run and the file differ, both ways."""
    entries, top, problems = read(path, "skip", _KEYS, tuple(_KEYS), "total")
    if problems:
        return problems
    left = {result.id: result for result in report.of(*OUTCOMES)}
    total = top.get("total")
    if total != len(left):
        problems.append(f"{path}: total = {total}, {len(left)} tests were unsupported or skipped")
    for entry in entries:
        found = [r for r in left.values() if _covers(entry, r)]
        if len(found) != entry.values["count"]:
            what = f"{len(found)} tests of {entry.values['id']!r} were {entry.values['outcome']}"
            problems.append(f"{entry.where}: count = {entry.values['count']}, {what}")
        for result in found:
            del left[result.id]
    fresh = list(left.values())
    problems += [f"{path}: not listed: {r.id}: {r.outcome}: {_first(r)}" for r in fresh[:5]]
    if len(fresh) > 5:
        problems.append(f"{path}: ... and {len(fresh) - 5} more are not listed")
    return problems


def write(path: Path, report: Report) -> int:
    """Write the list of what did not run, keeping the reasons that an old file gives; return its length."""
    old = read(path, "skip", _KEYS, tuple(_KEYS), "total")[0] if path.exists() else []
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in report.of(*OUTCOMES):
        groups.setdefault((_pattern(result, report), result.outcome), []).append(result)
    blocks = []
    for (pattern, outcome), results in groups.items():
        ident = results[0].id if len(results) == 1 else pattern
        reasons = [
            e.values["reason"] for e in old if (e.values["id"], e.values["outcome"]) == (ident, outcome)
        ]
        blocks.append(
            _block(ident, outcome, len(results), reasons[0] if reasons else _cause(results, report))
        )
    total = sum(map(len, groups.values()))
    head = "# What does not run here, and why. Written by --write_known_skips; reasons may be edited."
    write_whole(path, "\n".join([f"{head}\ntotal = {total}\n", *blocks]))
    return total


def _block(ident: str, outcome: str, count: int, reason: str) -> str:
    quoted = [json.dumps(text, ensure_ascii=False) for text in (ident, outcome, reason)]
    return f"[[skip]]\nid = {quoted[0]}\noutcome = {quoted[1]}\ncount = {count}\nreason = {quoted[2]}\n"


def _covers(entry: Entry, result: Result) -> bool:
    return glob(entry.values["id"], result.id) and entry.values["outcome"] == result.outcome


def _pattern(result: Result, report: Report) -> str:
    """Return the glob of the tests that are alike: one function, and one dtype."""
    function, bracket, params = result.id.partition("[")
    dtype = report.cases[result.id].dtype
    if not bracket:
        return function
    return (
        f"{function}[*-{dtype}]" if dtype is not None and params.endswith(f"-{dtype}]") else f"{function}[*]"
    )


def _cause(results: list[Result], report: Report) -> str:
    """Return the most frequent reason, without what differs between the tests, and how many others there are."""
    causes: Counter[str] = Counter()
    for result in results:
        text, op = _first(result), report.cases[result.id].op
        causes[text.replace(op, "the op") if op else text] += 1
    more = len(causes) - 1
    return causes.most_common(1)[0][0] + (f" (and {more} other reasons)" if more else "")


def _first(result: Result) -> str:
    return re.sub(r"\s+", " ", (result.message or "not run").splitlines()[0])
