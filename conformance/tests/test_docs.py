"""docs/ops-matrix.md agrees with the op table, the tolerances and the backends."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from infinitrain.backend import OPS
from infinitrain.backend import docs as core
from infinitrain_conformance import docs
from infinitrain_conformance.tolerances import TABLE

FOLDER = Path(__file__).parents[2] / "docs"


def test_the_matrix_is_fresh() -> None:
    """When this fails: python -m infinitrain_conformance.docs docs"""
    assert core.stale(docs.pages(FOLDER)) == []


def test_every_op_has_a_line_with_its_backends() -> None:
    text = docs.matrix_page(docs.backends())
    lines = dict(re.findall(r"^\| (\w+) \| (.*) \|$", text.partition("## Tolerances")[0], re.M)[1:])
    assert lines.keys() == {*OPS}
    assert lines["LinearForward"].startswith("training | floating | LinearBackwardInput, ")
    assert re.search(r"\| lower \| explicit(\(.*\))?\+array \| array$", lines["LinearForward"])
    assert "| 16 + 2 √n |" in lines["LayerNormForward"]
    assert "| exact |" in lines["Copy"]
    assert "| rounded once |" in lines["Cast"]


def test_every_tolerance_says_why() -> None:
    text = docs.matrix_page(docs.backends()).partition("## Tolerances")[2]
    listed = re.findall(r"^\| (\w+) \| [\d.]+ \| [\d.]+ \| [\d.]+ \| [\d.]+ \| (.+) \|$", text, re.M)
    assert [name for name, reason in listed if reason.strip()] == [name for name in TABLE if name in OPS]


def test_a_stale_page_is_told_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "contract.md").write_text("")
    assert docs.main([str(tmp_path), "--check"]) == 1
    assert "ops-matrix.md is stale" in capsys.readouterr().out
    assert docs.main([str(tmp_path)]) == 0
    assert docs.main([str(tmp_path), "--check"]) == 0


def test_without_the_fake(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "infinitrain_fake", None)
    assert docs.main([str(FOLDER), "--check"]) == 2
    assert "pip install infinitrain-fake" in capsys.readouterr().err
