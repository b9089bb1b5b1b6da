"""Write docs/benchmarks.md and its plots from results.

    python benchmarks/report.py [benchmarks/results/*.json] [--out docs]

Every number in the page comes from a JSON file that one of the scripts wrote. Files of the same benchmark and shape
replace each other: the last one given counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import _plots
from _gates import GATES
from _shapes import SHAPES
from dispatch import CONTENDERS as DISPATCH
from dispatch import price
from train_vs_torch import disturbed

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WORST = 25  # ops that are listed for each shape
NAMES = {
    "ratio_vs_eager": "tokens/s against torch eager",
    "ratio_vs_compile": "tokens/s against torch.compile",
    "ratio_vs_best_torch": "tokens/s against the best torch float32",
    "ratio_rss": "peak memory against torch eager",
    "share_of_sgemm_limit": "share of the sgemm limit",
}
Result = dict[str, Any]


def read(paths: Iterable[Path]) -> dict[tuple[str, str], Result]:
    """Return (benchmark, shape) -> result. Raises ValueError for a file that is none."""
    found = {}
    for path in paths:
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            key = result["benchmark"], result.get("shape", {}).get("name", "")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no result of a benchmark: {error!r}") from None
        found[key] = result
    return found


def of(results: dict[tuple[str, str], Result], benchmark: str) -> list[Result]:
    """Return a benchmark's results in the order of the shapes."""
    order = list(SHAPES)
    chosen = {shape: result for (name, shape), result in results.items() if name == benchmark}
    return [chosen[shape] for shape in sorted(chosen, key=lambda s: order.index(s) if s in order else -1)]


def page(results: dict[tuple[str, str], Result]) -> str:
    """Return the text of docs/benchmarks.md."""
    training = of(results, "train_vs_torch")
    parts: list[str] = [HEAD]
    parts += _machines(results.values())
    if training:
        parts += ["## Training", TRAINING, *_gates(training), "![speed](images/benchmarks-speed.svg)"]
        for result in training:
            parts += _training(result)
    switches = of(results, "switches")
    if switches:
        parts += ["## What each optimisation gave", SWITCHES, *_switches(switches)]
    for result in of(results, "ops_vs_torch"):
        parts += ["## Single ops", OPS.format(worst=WORST), *_ops(result)]
    for result in of(results, "dispatch"):
        parts += ["## What Python costs", PYTHON, *_dispatch(result)]
    for result in of(results, "scaling"):
        parts += ["## Scaling", SCALING, *_scaling(result), "![scaling](images/benchmarks-scaling.svg)"]
    return "\n\n".join(parts) + "\n"


HEAD = """\
# Benchmarks

Written by `python benchmarks/report.py` from the results of the scripts in [benchmarks/](../benchmarks/README.md),
which says how they measure; do not edit."""
TRAINING = """\
A whole step (forward, backward, AdamW) in float32. `-malloc` is an allocator told to keep freed memory
(`MALLOC_MMAP_THRESHOLD_` and others); bf16 is PyTorch's autocast, other arithmetic, for information. Ratios are of
medians, above 1 where infinitrain is faster; intervals are 90 % bootstrap intervals over the rounds, and a gate on
speed holds for their lower end."""
SWITCHES = """\
The same step with one thing at a time switched off, in one run. The ratio is how many times as long it takes."""
OPS = """\
Each op with its backward, in float32, at the sizes of a training step; ratio above 1 where infinitrain is slower than
PyTorch's eager op. The {worst} worst of each shape, and how all are spread."""
PYTHON = """\
Tiny tensors, one thread, us. A node is one more recorded call in a chain, with its backward; where an op cannot take
its own result, a call and a whole backward pass (\\*), or a call alone (\\*\\*). `bare` has functions that do nothing
in place of the kernels."""
SCALING = """\
A small GPT-2 with one size doubled several times: ms a step (median), and the exponent of a power law through the
larger half (minima) beside that of the arithmetic."""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]], left: int = 1) -> str:
    head = list(head)
    align = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, align, *rows))


def _about(result: Result) -> str:
    m = result["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in m["versions"].items() if v)
    return (
        f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}; Python {m['python']}, {versions}; "
        f"{m['threads']} threads"
    )


def _machines(results: Iterable[Result]) -> Iterator[str]:
    found = list(dict.fromkeys(_about(result) for result in results))
    yield "Measured on: " + ("\n".join(f"\n- {text}" for text in found) if len(found) > 1 else found[0] + ".")
    if any(result["quick"] for result in results):
        yield "**Some results are of quick runs, which only show that the scripts work.**"


def _gates(training: list[Result]) -> Iterator[str]:
    gates = [(result["shape"]["name"], gate) for result in training for gate in result["gates"]]
    rows = []
    for shape, gate in gates:
        bound = f"≥ {gate['least']}" if gate["least"] is not None else f"≤ {gate['most']}"
        measured = "" if gate["measured"] is None else f"{gate['measured']:.3f}"
        verdict = {True: "met", False: "**missed**", None: "not measured"}[gate["met"]]
        rows.append((shape, NAMES[gate["value"]], bound, str(gate["goal"] or ""), measured, verdict))
    absent = [name for name in GATES if name not in {shape for shape, _ in gates}]
    met = sum(gate["met"] is True for _, gate in gates)
    yield f"{met} of {len(gates)} gates are met." + (f" Not measured: {', '.join(absent)}." if absent else "")
    yield _table(("shape", "gate", "bound", "goal", "measured", ""), rows, left=2)


def _training(result: Result) -> Iterator[str]:
    shape = result["shape"]
    yield f"### {shape['name']}"
    sitting = "; the contenders marked † were measured after the others" if _late(result) else ""
    yield (
        f"{result['parameters'] / 1e6:.2f}M parameters ({shape['layers']} layers, {shape['width']} wide, vocabulary "
        f"{shape['vocab']}), {shape['batch']} x {shape['time']} tokens; {result['rounds']} rounds of {result['steps']} "
        f"steps{', QUICK' if result['quick'] else ''}, other programs used at most {max(result['others']):.0%} of the "
        f"processors, load before {result['machine']['load_before']}{sitting}."
    )
    if result["disturbed"]:
        yield f"**Not to be relied on:** {disturbed(result)}."
    rows = [
        (
            f"{name}{'' if c['float32'] else ' (not float32)'}{' †' if c['sitting'] else ''}",
            f"{c['tokens_per_s']:,.0f}", f"{c['median_ms']:,.2f}", f"{c['min_ms']:,.2f}", f"{c['rss_mb']:,.0f}",
            f"{c['first_step_s']:.1f}",
        )
        for name, c in result["contenders"].items()
    ]  # fmt: skip
    yield _table(("", "tokens/s", "median ms", "min ms", "peak RSS, MB", "first step, s"), rows)
    ratios = [
        (NAMES[key], f"{result[key]:.3f}", _bounds(result["interval"].get(key)))
        for key in NAMES
        if result[key]
    ]
    if ratios:
        yield _table(("", "", "interval"), ratios)
    if result["sgemm"]:
        yield "The sgemm limit: {limit_ms:,.2f} ms a step, at {gflops:.0f} GFLOP/s.".format(**result["sgemm"])


def _bounds(interval: list[float] | None) -> str:
    return "{:.3f} – {:.3f}".format(*interval) if interval else ""


def _late(result: Result) -> bool:
    return any(c["sitting"] for c in result["contenders"].values())


def _switches(results: list[Result]) -> Iterator[str]:
    for result in results:
        yield f"### {result['shape']['name']}{' (QUICK)' if result['quick'] else ''}"
        rows = []
        for r in result["switches"]:
            off = [f"{k}={v}" for k, v in {**r["env"], **r["options"]}.items()]
            rows.append(
                (
                    *((r["about"], f"`{' '.join(off)}`") if off else ("nothing", "")),
                    f"{r['median_ms']:,.2f}", f"{r['min_ms']:,.2f}", f"{r['ratio']:.3f}", _bounds(r["interval"]),
                    f"{r['rss_mb']:,.0f}", f"{r['page_faults']:,.0f}",
                )
            )  # fmt: skip
        head = (
            "without",
            "switch",
            "median ms",
            "min ms",
            "ratio",
            "interval",
            "peak RSS, MB",
            "page faults a step",
        )
        yield _table(head, rows, left=2)


def _ops(result: Result) -> Iterator[str]:
    for shape in dict.fromkeys(r["shape"] for r in result["ops"]):
        rows = [r for r in result["ops"] if r["shape"] == shape]
        spread = [sum(r["ratio"] <= limit for r in rows) for limit in (0.67, 1.0, 1.5)]
        yield f"### {shape}{' (QUICK)' if result['quick'] else ''}"
        yield (
            f"Of {len(rows)} ops {spread[1]} are at least as fast as PyTorch's, {spread[0]} of them 1.5 times or more; "
            f"{len(rows) - spread[2]} take more than 1.5 times as long."
        )
        yield _table(
            ("op", "ratio", "of minima", "forward", "backward"),
            [
                (r["op"], *(_number(r[key]) for key in ("ratio", "ratio_of_minima", "forward", "backward")))
                for r in rows[:WORST]
            ],
        )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _dispatch(result: Result) -> Iterator[str]:
    rows = []
    for r in sorted(result["ops"], key=lambda r: -price(r, "ours") / price(r, "eager")):
        times = r["us"]["ours"]
        mark = "" if "node" in times else " *" if "backward" in times else " **"
        found = [price(r, name) for name in DISPATCH]
        rows.append(
            (
                r["op"] + mark.replace("*", "\\*"),
                *[f"{us:.2f}" for us in found],
                f"{found[0] / found[-1]:.2f}",
            )
        )
    if result["steps"]:
        yield _table(
            ("training step", "ms", "without kernels, ms", "share"),
            [
                (
                    s["shape"], f"{s['ms']['ours']['median']:.3f}", f"{s['ms']['bare']['median']:.3f}",
                    f"{s['ms']['bare']['median'] / s['ms']['ours']['median']:.1%}",
                )
                for s in result["steps"]
            ],
        )  # fmt: skip
    if rows:
        yield _table(("op", *DISPATCH, "ours / eager"), rows)


def _scaling(result: Result) -> Iterator[str]:
    for along in result["axes"]:
        names = list(along["exponents"])
        rows = [
            (str(p["size"]), *[f"{p['ms'][name]['median']:,.2f}" for name in names], "")
            for p in along["points"]
        ]
        rows.append(
            ("exponent", *[f"{along['exponents'][name]:.2f}" for name in names], f"{along['arithmetic']:.2f}")
        )
        yield _table((along["axis"], *names, "arithmetic"), rows)
        if along["surprises"]:
            yield f"**Grows faster than its arithmetic:** {', '.join(along['surprises'])}."


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="default: benchmarks/results/*.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="FOLDER", help="default: docs/")
    args = parser.parse_args()
    files = args.files or sorted(RESULTS.glob("*.json"))
    if not files:
        parser.error(f"no results: {RESULTS} holds no *.json; the scripts write them with --json")
    try:
        results = read(files)
    except ValueError as error:
        parser.error(str(error))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "benchmarks.md").write_text(page(results), encoding="utf-8")
    training = of(results, "train_vs_torch")
    if training:
        _plots.speeds(training, args.out / "images" / "benchmarks-speed.svg")
    for result in of(results, "scaling"):
        _plots.scaling(result, args.out / "images" / "benchmarks-scaling.svg")
    print(args.out / "benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
