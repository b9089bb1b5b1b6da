"""Known skips: what a provider declines or lacks, checked in with its length, so that none grows unseen.

total = 57                              # tests that did not run

[[skip]]
reason = "UnsupportedDtypeError: the op: the library has no bfloat16"
outcome = "unsupported"                 # or "skipped", for lack of hardware
count = 56

[skip.tests]                            # how many tests of each function
"ops::test_values" = 50
"ops::test_repeats" = 6
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .report import Report, write_whole
from .tables import read

OUTCOMES: Final = ("unsupported", "skipped")
_KEYS: Final = {"reason": str, "outcome": str, "count": int, "tests": dict}
_HEAD: Final = "# What does not run here, and why; written by --write_known_skips."


def check(path: Path, report: Report) -> list[str]:
    """Return where the run and the file differ, both ways."""
    entries, top, problems = read(path, "skip", _KEYS, tuple(_KEYS), "total")
    if problems:
        return problems
    groups = _groups(report)
    total = sum(tests.total() for tests in groups.values())
    if top.get("total") != total:
        problems.append(f"{path}: total = {top.get('total')}, {total} tests were unsupported or skipped")
    for entry in entries:
        key = (entry.values["reason"], entry.values["outcome"])
        problems += [
            f"{entry.where}: {text}" for text in _differences(entry.values, groups.pop(key, Counter()))
        ]
    for (reason, outcome), tests in groups.items():
        some = ", ".join(list(tests)[:3])
        problems.append(f"{path}: not listed: {tests.total()} {outcome}: {reason} ({some})")
    return problems


def _differences(listed: Mapping[str, Any], found: Counter[str]) -> list[str]:
    """Return where an entry and what was found for its reason differ."""
    names = sorted({*listed["tests"], *found})
    wrong = [
        f"{name}: {listed['tests'].get(name, 0)} listed, {found[name]} were {listed['outcome']}"
        for name in names
        if listed["tests"].get(name, 0) != found[name]
    ]
    if listed["count"] != sum(listed["tests"].values()):
        wrong.append(f"count = {listed['count']}, but its tests are {sum(listed['tests'].values())}")
    return wrong


def write(path: Path, report: Report) -> int:
    """Write the list of what did not run; return its length."""
    groups = _groups(report)
    total = sum(tests.total() for tests in groups.values())
    blocks = [
        _block(*key, tests) for key, tests in sorted(groups.items(), key=lambda g: (-g[1].total(), g[0]))
    ]
    write_whole(path, "\n".join([f"{_HEAD}\ntotal = {total}\n", *blocks]))
    return total


def _block(reason: str, outcome: str, tests: Counter[str]) -> str:
    head = f"[[skip]]\nreason = {_quoted(reason)}\noutcome = {_quoted(outcome)}\ncount = {tests.total()}\n"
    return f"{head}\n[skip.tests]\n" + "".join(f"{_quoted(name)} = {tests[name]}\n" for name in sorted(tests))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _groups(report: Report) -> dict[tuple[str, str], Counter[str]]:
    """Return for each (reason, outcome) how many tests of each function did not run."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for result in report.of(*OUTCOMES):
        function = result.id.partition("[")[0]
        groups.setdefault((report.reason(result), result.outcome), Counter())[function] += 1
    return groups
