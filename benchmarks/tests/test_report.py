"""The page that is written from results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from scaling import fits

pytest.importorskip("matplotlib", reason="draws the plots")
import report

MACHINE = {
    "cpu": "Some CPU", "cores": 2, "memory_gib": 23.5, "system": "Linux", "python": "3.11", "threads": 2,
    "versions": {"numpy": "2.4", "torch": None}, "load_before": 0.25,
}  # fmt: skip
ABOUT = {"machine": MACHINE, "quick": False, "rounds": 8}


def _contender(**changes: Any) -> dict[str, Any]:
    return {
        "float32": True, "tokens_per_s": 12345.6, "median_ms": 1.5, "min_ms": 1.25, "rss_mb": 99.0, "first_step_s": 4.5,
        "sitting": 0, **changes,
    }  # fmt: skip


def _gate(**changes: Any) -> dict[str, Any]:
    return {
        "value": "ratio_vs_compile", "least": 3, "most": None, "goal": 5, "measured": 3.25, "met": True, **changes,
    }  # fmt: skip


TRAINING = {
    **ABOUT,
    "benchmark": "train_vs_torch",
    "steps": 150,
    "shape": {"name": "micro", "layers": 4, "width": 64, "vocab": 256, "batch": 1, "time": 16},
    "parameters": 217_000,
    "others": [0.0, 0.07],
    "disturbed": 0,
    "contenders": {"ours": _contender(), "bf16": _contender(float32=False, sitting=1)},
    "ratio_vs_eager": 4.125,
    "ratio_vs_compile": 3.5,
    "ratio_vs_best_torch": None,
    "ratio_rss": 0.5,
    "share_of_sgemm_limit": None,
    "interval": {"ratio_vs_eager": [4.0, 4.25], "ratio_vs_compile": [3.25, 3.75]},
    "sgemm": None,
    "gates": [
        _gate(),
        _gate(value="ratio_vs_best_torch", measured=None, met=None),
        _gate(measured=2.5, met=False),
    ],
}
POINTS = [
    {"size": n, "ms": {"ours": {"median": n, "min": float(n)}, "eager": {"median": n, "min": n**1.5}}}
    for n in (1, 2, 4)
]


def _files(folder: Path, *results: dict[str, Any]) -> list[Path]:
    paths = []
    for i, result in enumerate(results):
        paths.append(folder / f"{i}.json")
        paths[-1].write_text(json.dumps(result))
    return paths


def test_training(tmp_path: Path) -> None:
    text = report.page(report.read(_files(tmp_path, TRAINING)))
    assert "Measured on: Some CPU, 2 cores, 23.5 GiB, Linux; Python 3.11, numpy 2.4; 2 threads." in text
    assert "1 of 3 gates are met. Not measured: gpt2-124m-256," in text
    assert "| micro | tokens/s against torch.compile | ≥ 3 | 5 | 3.250 | met |" in text
    assert "| micro | tokens/s against torch.compile | ≥ 3 | 5 | 2.500 | **missed** |" in text
    assert "| tokens/s against torch eager | 4.125 | 4.000 – 4.250 |" in text
    assert "| bf16 (not float32) † | 12,346 | 1.50 | 1.25 | 99 | 4.5 |" in text
    assert "at most 7% of the processors, load before 0.25; the contenders marked †" in text
    assert "Not to be relied on" not in text


def test_a_later_file_of_the_same_shape_counts(tmp_path: Path) -> None:
    later = {**TRAINING, "ratio_vs_eager": 7.0, "quick": True, "disturbed": 1}
    text = report.page(report.read(_files(tmp_path, TRAINING, later)))
    assert "| tokens/s against torch eager | 7.000 |" in text
    assert "4.125" not in text
    assert "**Not to be relied on:** in 1 of 2 rounds other programs used more than 10% of the" in text
    assert "Some results are of quick runs" in text


def _switch(**changes: Any) -> dict[str, Any]:
    return {
        "about": "memory", "env": {"A": "0"}, "options": {}, "median_ms": 2.0, "min_ms": 1.0, "rss_mb": 5,
        "page_faults": 7, "ratio": 1.5, "interval": [1.25, 1.75], **changes,
    }  # fmt: skip


def test_other_benchmarks(tmp_path: Path) -> None:
    us = {"forward": {"median": 2.0, "min": 1.0}}
    node = {**us, "node": {"median": 3.5, "min": 3.0}}
    names = ("ours", "ours-no-numba", "bare", "eager")
    nodes = [{"op": "lt", "us": dict.fromkeys(names, us)}, {"op": "add", "us": dict.fromkeys(names, node)}]
    op = {
        "op": "add",
        "shape": "micro",
        "ratio": 0.5,
        "ratio_of_minima": 0.25,
        "forward": 0.75,
        "backward": None,
    }
    along = {"axis": "layers", "points": POINTS, **fits((1, 2, 4), [1, 2, 4], POINTS)}
    files = _files(
        tmp_path,
        {**ABOUT, "benchmark": "dispatch", "steps": [], "ops": nodes},
        {**ABOUT, "benchmark": "ops_vs_torch", "ops": [op]},
        {
            **ABOUT,
            "benchmark": "switches",
            "shape": {"name": "micro"},
            "switches": [_switch(), _switch(env={})],
        },
        {**ABOUT, "benchmark": "scaling", "axes": [along]},
    )
    text = report.page(report.read(files))
    assert "| add | 3.50 | 3.50 | 3.50 | 3.50 | 1.00 |" in text
    assert "| lt \\*\\* | 2.00 |" in text
    assert "Of 1 ops 1 are at least as fast as PyTorch's, 1 of them 1.5 times or more; 0 take more" in text
    assert "| add | 0.50 | 0.25 | 0.75 |  |" in text
    assert "| memory | `A=0` | 2.00 | 1.00 | 1.500 | 1.250 – 1.750 | 5 | 7 |" in text
    assert "| nothing |  | 2.00 |" in text
    assert "| exponent | 1.00 | 1.50 | 1.00 |" in text
    assert "**Grows faster than its arithmetic:** eager." in text


def test_main_writes_page_and_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _files(tmp_path, TRAINING)
    monkeypatch.setattr(sys, "argv", ["report.py", *map(str, files), "--out", str(tmp_path / "docs")])
    assert report.main() == 0
    first = (tmp_path / "docs" / "images" / "benchmarks-speed.svg").read_bytes()
    assert "images/benchmarks-speed.svg" in (tmp_path / "docs" / "benchmarks.md").read_text()
    assert report.main() == 0
    assert (tmp_path / "docs" / "images" / "benchmarks-speed.svg").read_bytes() == first


def test_a_file_that_is_no_result_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.json").write_text("[1]")
    monkeypatch.setattr(sys, "argv", ["report.py", str(tmp_path / "list.json")])
    with pytest.raises(SystemExit) as info:
        report.main()
    assert info.value.code == 2
    assert "list.json is no result of a benchmark" in capsys.readouterr().err
