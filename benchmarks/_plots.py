"""Plots of results as SVG, on white, so that they can be read on dark pages too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

RATIOS = {
    "ratio_vs_eager": ("PyTorch eager", "#4c72b0", "o"),
    "ratio_vs_compile": ("torch.compile", "#c44e52", "s"),
    "ratio_vs_best_torch": ("the best of them, allocators tuned", "#222222", "D"),
}
COLOURS = {"ours": "#2a7f3f", "eager": "#4c72b0", "compile": "#c44e52"}
_STYLE: Any = {"svg.hashsalt": "infinitrain", "svg.fonttype": "path", "font.size": 9, "axes.spines.top": False,
          "axes.spines.right": False}  # fmt: skip


def speeds(results: list[dict[str, Any]], path: Path) -> None:
    """Draw, for each shape, how many times as fast as PyTorch ours is, with intervals and gates."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 0.8 + 0.75 * len(results)), facecolor="white", layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(1, color="#888888", linewidth=0.8)
        for row, result in enumerate(results):
            gates = {gate["value"]: gate["least"] for gate in result["gates"]}
            for offset, (key, (_, colour, marker)) in zip((-0.22, 0, 0.22), RATIOS.items(), strict=True):
                if result[key] is None:
                    continue
                low, high = result["interval"][key]
                axes.plot([low, high], [row + offset] * 2, color=colour, linewidth=1.5)
                axes.plot(result[key], row + offset, marker, color=colour, markersize=5)
                if gates.get(key):
                    axes.plot(gates[key], row + offset, "|", color=colour, markersize=13, markeredgewidth=1.5)
        for label, colour, marker in RATIOS.values():
            axes.plot([], [], marker, color=colour, label=f"against {label}")
        axes.plot([], [], "|", color="#666666", markersize=13, markeredgewidth=1.5, label="gate")
        axes.set_yticks(range(len(results)), [result["shape"]["name"] for result in results])
        axes.invert_yaxis()
        axes.set_xlabel("tokens/s of infinitrain ÷ tokens/s of PyTorch, float32; line: 90 % interval")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        _save(figure, path)


def scaling(result: dict[str, Any], path: Path) -> None:
    """Draw the cost of a step along each axis, on logarithmic scales."""
    rows = (len(result["axes"]) + 1) // 2
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 2.4 * rows), facecolor="white", layout="constrained")
        grid = figure.subplots(rows, 2, squeeze=False).reshape(-1)
        for axes, along in zip(grid, result["axes"], strict=False):
            sizes = [p["size"] for p in along["points"]]
            for name in along["exponents"]:
                times = [p["ms"][name]["median"] for p in along["points"]]
                axes.loglog(
                    sizes, times, "o-", color=COLOURS.get(name, "#777777"), label=name, markersize=3.5
                )
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
            axes.set_xlabel(along["axis"])
            axes.set_ylabel("ms a step")
        for axes in grid[len(result["axes"]) :]:
            axes.set_axis_off()
        grid[0].legend(frameon=False)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None}, bbox_inches="tight")
