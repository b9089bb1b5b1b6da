"""The picture of a run: loss by step. `python -m infinitrain_examples.plot RUN_DIR` draws it again."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infinitrain.data import atomic_write

from .console import one_line, say_error
from .errors import UsageError

_TRAIN, _VALIDATION = "#1f77b4", "#d95f02"


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the steps in a `metrics.jsonl`. A last line that was cut off, as by a crash, is left out.

    Raises:
        UsageError: the file cannot be read, or another line is no JSON object.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise UsageError(f"'{path}' line {number} is no JSON: {error}") from error
        if not isinstance(row, dict) or "step" not in row:
            raise UsageError(f"'{path}' line {number} is no object with a step")
        rows.append(row)
    return rows


def plot_loss(rows: Sequence[dict[str, Any]], path: str | os.PathLike[str], *, title: str = "") -> None:
    """Draw training and validation loss (nats per token) of `rows`, as from `read_metrics`, to a PNG file.

    Steps with many values get a smoothed line over the pale raw one. A loss that was not finite is a gap.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    # Imported here, because it takes half a second; without pyplot, because that looks for a display.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 4.5), dpi=144, layout="constrained")
    axes = figure.add_subplot()
    steps, losses = _series(rows, "train_loss")
    smooth = len(steps) >= 50
    if steps:
        marker = "." if len(steps) < 20 else ""
        axes.plot(
            steps,
            losses,
            marker=marker,
            color=_TRAIN,
            alpha=0.3 if smooth else 1.0,
            linewidth=1.0 if smooth else 1.6,
            label=None if smooth else "training",
        )
    if smooth:
        axes.plot(steps, _smoothed(losses), color=_TRAIN, linewidth=1.8, label="training (smoothed)")
    steps, losses = _series(rows, "val_loss")
    if steps:
        axes.plot(steps, losses, "o-", color=_VALIDATION, markersize=5, linewidth=1.6, label="validation")
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("loss (nats per token)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False)
    # A folder name may hold anything, a $ too; the font that comes with Matplotlib has not all characters.
    title = one_line(title.encode("latin-1", errors="backslashreplace").decode("latin-1"))
    axes.set_title(title, loc="left", fontsize=10, parse_math=False)
    with atomic_write(path) as file:
        figure.savefig(file, format="png")


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the plot of a finished, running or broken run again."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m infinitrain_examples.plot RUN_DIR", file=sys.stderr)
        return 0 if arguments in (["-h"], ["--help"]) else 2
    folder = Path(arguments[0])
    try:
        plot_loss(read_metrics(folder / "metrics.jsonl"), folder / "loss.png", title=folder.resolve().name)
    except (UsageError, ImportError, OSError) as error:
        say_error("plot", error)
        return 2
    print(folder / "loss.png")
    return 0


def _series(rows: Sequence[dict[str, Any]], key: str) -> tuple[list[int], list[float]]:
    measured = [row for row in rows if key in row]
    return [row["step"] for row in measured], [math.nan if row[key] is None else row[key] for row in measured]


def _smoothed(values: Sequence[float]) -> list[float]:
    """Exponential moving average over a fiftieth of the run, corrected for its start; gaps stay gaps."""
    keep = 1 - 1 / max(5, len(values) / 50)
    total = weight = 0.0
    averages = []
    for value in values:
        if math.isnan(value):
            averages.append(math.nan)
            continue
        total, weight = keep * total + (1 - keep) * value, keep * weight + (1 - keep)
        averages.append(total / weight)
    return averages


if __name__ == "__main__":
    sys.exit(main())
