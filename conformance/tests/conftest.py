"""Running the command on the providers beside this file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinitrain_conformance.cli import main

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `differences`, which several tests draw from


class Outcome:
    """Exit code, printed text, and the JSON report where one was written."""

    def __init__(self, code: int, out: str, err: str, path: Path) -> None:
        self.code, self.out, self.err = code, out, err
        self.report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        self.tests: dict[str, dict[str, Any]] = {t["id"]: t for t in self.report.get("tests", [])}

    def failed(self) -> list[dict[str, Any]]:
        return self.of("failed")

    def crashed(self) -> list[dict[str, Any]]:
        return self.of("crashed")

    def of(self, outcome: str) -> list[dict[str, Any]]:
        return [t for t in self.tests.values() if t["outcome"] == outcome]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Call the command with arguments; usage errors included."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH")))))

    def call(*arguments: str, json: bool = True) -> Outcome:
        path = tmp_path / "report.json"
        given = [*arguments, "--json", str(path)] if json else list(arguments)
        try:
            code = main(given)
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capfd.readouterr()
        return Outcome(code, out, err, path)

    return call


@pytest.fixture
def toy(command: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Run tests on the provider ``toy`` as one of the functions of ``providers`` registers it."""

    def call(registrar: str, *arguments: str) -> Outcome:
        return command("--backend", "toy", "--backend_module", f"providers:{registrar}", *arguments)

    return call
