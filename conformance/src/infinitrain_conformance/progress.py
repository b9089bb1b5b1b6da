"""What a person sees while the tests run: each failure as it happens, and on a terminal a counter."""

from __future__ import annotations

import sys

from .report import Report, Result


class Progress:
    """Prints results; give it to ``runner.run``."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()

    def __call__(self, report: Report, result: Result) -> None:
        if result.outcome in ("failed", "crashed"):
            self._clear()
            print(f"{result.outcome.upper()} {result.id}\n{result.message}\n", flush=True)
        if self.live:
            bad = report.count("failed") + report.count("crashed")
            print(f"\r{len(report.results)}/{len(report.cases)} tests, {bad} failed", end="", flush=True)
            if len(report.results) == len(report.cases):
                self._clear()

    def _clear(self) -> None:
        if self.live:
            print("\r\033[K", end="")
