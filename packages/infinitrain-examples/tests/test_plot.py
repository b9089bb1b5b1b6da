"""The picture shows the numbers, whatever state the run was left in."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from matplotlib.axes import Axes

from infinitrain_examples.errors import UsageError
from infinitrain_examples.plot import _smoothed, main, plot_loss, read_metrics


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list, list, str | None]]:
    """The lines that were drawn, as (x, y, label)."""
    calls: list[tuple[list, list, str | None]] = []
    real_plot = Axes.plot

    def plot(self: Axes, x: list, y: list, *more: object, **keywords: object) -> object:
        calls.append((x, y, keywords.get("label")))
        return real_plot(self, x, y, *more, **keywords)

    monkeypatch.setattr(Axes, "plot", plot)
    return calls


def test_training_and_validation(tmp_path: Path, drawn: list) -> None:
    rows = [{"step": 1, "train_loss": 4.0}, {"step": 2, "train_loss": 3.0, "val_loss": 3.25}]
    plot_loss(rows, tmp_path / "p.png", title="a$b")
    assert drawn == [([1, 2], [4.0, 3.0], "training"), ([2], [3.25], "validation")]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_title_of_any_characters(tmp_path: Path) -> None:
    plot_loss([], tmp_path / "p.png", title="\u4f60\n\ud800\x07 $x é")  # warnings are errors here
    assert (tmp_path / "p.png").exists()


def test_a_long_run_is_smoothed_and_gaps_stay_gaps(tmp_path: Path, drawn: list) -> None:
    rows = [{"step": s, "train_loss": None if s == 30 else 4.0 / s} for s in range(1, 101)]
    plot_loss(rows, tmp_path / "p.png")
    raw, smooth = drawn
    assert (raw[2], smooth[2]) == (None, "training (smoothed)")
    assert math.isnan(raw[1][29])
    assert math.isnan(smooth[1][29])
    assert raw[1][99] < smooth[1][99] < raw[1][80]


def test_smoothing_keeps_a_constant_and_starts_at_the_first_value() -> None:
    assert _smoothed([2.5] * 60) == pytest.approx([2.5] * 60)
    assert _smoothed([7.0, 1.0])[0] == pytest.approx(7.0)


def test_nothing_yet(tmp_path: Path, drawn: list) -> None:
    plot_loss([], tmp_path / "p.png")
    assert drawn == []
    assert (tmp_path / "p.png").exists()


def test_reads_what_a_crash_left(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "train_loss": 4.0}\n{"step": 2, "tr')
    assert read_metrics(path) == [{"step": 1, "train_loss": 4.0}]
    path.write_text("")
    assert read_metrics(path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"step": 1}\nbroken\n{"step": 3}\n', "line 2 is no JSON"),
        ('{"step": 1}\nbroken\n', "line 2 is no JSON"),
        ('{"loss": 1}\n', "line 1 is no object with a step"),
        ("[1]\n", "line 1 is no object"),
    ],
)
def test_says_which_line_is_wrong(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "m").write_text(content)
    with pytest.raises(UsageError, match=message):
        read_metrics(tmp_path / "m")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "train_loss": 2.0}) + "\n")
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "loss.png").exists()
    assert main([str(tmp_path / "none")]) == 2
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert "plot: error: cannot read" in capsys.readouterr().err
