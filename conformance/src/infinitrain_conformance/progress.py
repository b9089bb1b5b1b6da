"""What a person sees while the tests run: the first failures as they happen, and on a terminal a counter."""

from __future__ import annotations

import sys
from collections import Counter

from .details import BAD, SHOWN, name_of
from .output import say
from .report import Report, Result


class Progress:
    """Prints results, a line for each; give it to ``runner.run``. What is wrong with them comes at the end, by op."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.live, self.verbose = sys.stdout.isatty(), verbose
        self.told: Counter[str] = Counter()

    def __call__(self, report: Report, result: Result) -> None:
        if result.outcome in BAD:
            name = name_of(report.cases[result.id])
            self.told[name] += 1
            if self.verbose or self.told[name] <= SHOWN:
                self._clear()
                say(f"{result.outcome.upper()} {result.id}")
        if self.live:
            bad = report.count("failed") + report.count("crashed")
            say(f"\r{len(report.results)}/{len(report.cases)} tests, {bad} failed", end="")
            if len(report.results) == len(report.cases):
                self._clear()

    def _clear(self) -> None:
        if self.live:
            say("\r\033[K", end="")
