"""Expected failures: a list that the provider checks in, dated and strict, so that it can only shrink.

[[expected_failure]]
id = "ops::test_values[ErfForward-*-float16]"     # `*` is the only wildcard; 20 tests at most
reason = "the driver's erf is off by 4 units in the last place"
issue = "https://example.com/chip/issues/12"
expires = 2027-03-31                              # at most 180 days from today
when = { provider_version = "<0.4", device = "*C500*" }
raises = "outside"                                # the failure's text must hold this; "crash" for a crash
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from .report import Case, Result
from .tables import glob, read, unknown

DEFAULT_FILE: Final = "infinitrain-conformance.toml"
MAX_DAYS: Final = 180
MAX_TESTS: Final = 20
CRASH: Final = "crash"
VERSIONS: Final = ("provider_version", "core", "python", "numpy")
NAMES: Final = ("backend", "device", "platform", "dtype")
_KEYS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "id": str, "reason": str, "issue": (str, int), "expires": date, "when": dict, "raises": str,
}  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """One entry; ``where`` is its file, line and number."""

    id: str
    reason: str
    issue: str
    expires: date
    when: Mapping[str, tuple[str, ...]]
    raises: str | None
    where: str

    def matches(self, case: Case) -> bool:
        """Tell whether the entry is about a test, on some machine."""
        dtypes = self.when.get("dtype")
        return glob(self.id, case.id) and (
            dtypes is None or (case.dtype is not None and any(glob(text, case.dtype) for text in dtypes))
        )

    def fails(self, facts: Mapping[str, Any]) -> str | None:
        """Return the first of the entry's conditions that does not hold on this machine, or None."""
        provider = facts.get("provider", {})
        distribution = str(provider.get("distribution", ""))
        known = {
            "backend": provider.get("name", ""), "device": provider.get("describe", ""),
            "platform": facts.get("platform", ""), "core": facts.get("core", ""),
            "python": facts.get("python", ""), "numpy": facts.get("numpy", ""),
            "provider_version": distribution.partition(" ")[2] or facts.get("core", ""),
        }  # fmt: skip
        for key, texts in self.when.items():
            test = _within if key in VERSIONS else glob
            if key != "dtype" and not any(test(text, known[key]) for text in texts):
                return f"{key} is {known[key] or 'not known'}, not {' or '.join(map(repr, texts))}"
        return None


class ExpectedFailures:
    """What the provider expects to fail. ``problems`` holds everything that is wrong with the file."""

    def __init__(
        self, entries: Sequence[Expected] = (), problems: Sequence[str] = (), path: str = ""
    ) -> None:
        self.entries, self.problems, self.path = tuple(entries), list(problems), path

    @classmethod
    def load(cls, path: Path, today: date | None = None) -> ExpectedFailures:
        """Read the file; what is wrong with it is in ``problems``."""
        tables, _, problems = read(path, "expected_failure", _KEYS, ("id", "reason", "issue", "expires"))
        today = today or date.today()
        entries = []
        for table in tables:
            given = dict(table.values)
            when, wrong = _conditions(given.pop("when", {}))
            expires = given["expires"]
            if isinstance(expires, datetime):
                expires = expires.date()
            last = today + timedelta(days=MAX_DAYS)
            if expires < today:
                wrong.append(f"{given['id']} expired on {expires}: fix it, or argue for another date")
            elif expires > last:
                wrong.append(f"expires = {expires} is more than {MAX_DAYS} days away: {last} at the latest")
            problems += [f"{table.where}: {text}" for text in wrong]
            issue, raises = str(given["issue"]), given.get("raises")
            entries.append(Expected(given["id"], given["reason"], issue, expires, when, raises, table.where))
        return cls(entries, problems, str(path))

    def check(self, cases: Iterable[Case]) -> list[str]:
        """Return all problems, those of the entries against the suite's tests included."""
        problems, taken = list(self.problems), dict[str, str]()
        cases = list(cases)
        for entry in self.entries:
            named = [case for case in cases if glob(entry.id, case.id)]
            found = [case for case in named if entry.matches(case)]
            wrong = []
            if not named:
                wrong.append(f"{entry.id!r} is no test of the suite" + _near(entry.id, cases))
            elif not found and not any(map(_no_dtype, entry.when["dtype"])):
                dtypes = " or ".join(entry.when["dtype"])
                have = ", ".join(dict.fromkeys(case.dtype for case in named if case.dtype)) or "none"
                wrong.append(f"no test that matches {entry.id!r} has dtype {dtypes}; there is {have}")
            if len(found) > MAX_TESTS:
                wrong.append(f"{entry.id!r} covers {len(found)} tests, {MAX_TESTS} are allowed")
            never = [case.id for case in found or named if case.level == "L0" or case.base]
            if never:
                wrong.append(
                    f"{never[0]} may not be expected to fail: neither L0 nor base ops are [contract 4.2]"
                )
            twice = [case.id for case in found if case.id in taken]
            if twice:
                wrong.append(f"{twice[0]} is expected to fail in {taken[twice[0]]} already")
            taken |= {case.id: entry.where.rpartition(": ")[2] for case in found}
            problems += [f"{entry.where}: {text}" for text in wrong]
        return sorted(problems, key=_place)

    def off(self, cases: Iterable[Case], facts: Mapping[str, Any]) -> list[str]:
        """Return the entries for some of these tests that do not count here, with the reason of each."""
        cases = list(cases)
        why = ((e, e.fails(facts)) for e in self.entries if any(e.matches(case) for case in cases))
        return [f"{e.where}: switched off: {reason} ({e.id})" for e, reason in why if reason]

    def of(self, case: Case, facts: Mapping[str, Any]) -> Expected | None:
        """Return the entry that expects this test to fail here."""
        return next((e for e in self.entries if e.matches(case) and not e.fails(facts)), None)

    def judge(self, result: Result, case: Case, facts: Mapping[str, Any]) -> Result:
        """Return the result as the list makes it: an expected failure, or a pass that was not expected."""
        entry = self.of(case, facts)
        if entry is None or result.outcome == "skipped":
            return result
        if result.outcome == "unsupported":
            said = f"unsupported, not a failure: remove it from {entry.where} ({entry.id})"
            return replace(result, outcome="failed", message=f"{said}: {result.message}")
        if result.outcome == "passed":
            return replace(
                result,
                outcome="failed",
                message=f"unexpected pass: remove it from {entry.where} ({entry.id})",
            )
        as_said = (
            entry.raises == CRASH
            if result.outcome == "crashed"
            else entry.raises is None or (entry.raises != CRASH and entry.raises in result.message)
        )
        if as_said:
            why = f"{entry.reason} ({entry.issue}, until {entry.expires})"
            return replace(result, outcome="xfailed", message=f"{why}: {result.message}")
        wanted = f"raises = {entry.raises!r}" if entry.raises else 'a failure; a crash needs raises = "crash"'
        return replace(result, message=f"{result.message}\n  expected at {entry.where}: {wanted}")


def _conditions(given: Mapping[str, Any]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the conditions of ``when``, each a text or a list of them, and what is wrong with them."""
    when, wrong = dict[str, tuple[str, ...]](), []
    for key, value in given.items():
        texts = tuple(value) if isinstance(value, list) else (value,)
        if key not in VERSIONS + NAMES:
            wrong.append(f"when: {unknown(key, VERSIONS + NAMES)}")
        elif not texts or not all(isinstance(t, str) and t for t in texts):
            wrong.append(f"when.{key} = {value!r} is neither a text nor a list of texts")
        elif key in VERSIONS and not all(map(_is_range, texts)):
            wrong.append(f"when.{key} = {value!r} is no range of versions, such as '<0.4' or '>=1.2,<2'")
        else:
            when[key] = texts
            if key == "dtype":
                wrong += filter(None, map(_no_dtype, texts))
    return when, wrong


def _no_dtype(text: str) -> str | None:
    from difflib import get_close_matches

    from infinitrain.dtype import ALL

    names = [dtype.name for dtype in ALL]
    if any(glob(text, name) for name in names):
        return None
    near = get_close_matches(text, names, 2)
    return f"when.dtype = {text!r} is no dtype; {'near: ' if near else ''}{', '.join(near or names)}"


def _place(problem: str) -> int:
    """Return the number of the entry that a problem is about; 0 for the file."""
    found = re.search(r"\bentry (\d+): ", problem)
    return int(found[1]) if found else 0


def _is_range(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def _within(range_: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return bool(version) and SpecifierSet(range_).contains(version, prereleases=True)


def _near(ident: str, cases: Sequence[Case]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(ident, [case.id for case in cases], 1, 0.7)
    return f"; did you mean {near[0]!r}?" if near else ""
