"""The helpers on the import path, no network, and a report of the worst agreement."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # models are built from a config; nothing may look for one on the network
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode leaves it to us


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    agreement = sys.modules.get("agreement")  # absent when no test was collected
    worst = agreement.worst_by_group() if agreement else {}
    if worst:
        terminalreporter.section("worst norm(ours - theirs) / norm(theirs); of limits, the share used")
        for group, (ratio, what) in worst.items():
            terminalreporter.write_line(f"{group:<44} {ratio:8.1e}  {what}")
