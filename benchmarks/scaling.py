"""How a training step's cost grows with layers, width, sequence and batch: infinitrain, PyTorch eager, torch.compile.

    python benchmarks/scaling.py [--axis layers width time batch] [--json FILE] [--rounds 4]

From one small GPT-2 one size is doubled several times. A power law is fitted through the larger half of the sizes,
where fixed costs matter least, and its exponent compared with that of the arithmetic (matrix products and attention): a
contender whose cost grows faster by more than 0.15 is flagged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from _statistics import exponent
from dataclasses import asdict
from statistics import median
from typing import Any

from _contenders import CONTENDERS
from _machine import machine
from _options import add_common, check_common
from _shapes import Shape, gpt2
from _turns import PAUSE
from _worker import Worker, WorkerError

AXES: dict[str, tuple[tuple[int, ...], Any]] = {
    "layers": ((1, 2, 4, 8, 16), lambda n: gpt2(n, 128, 4, 256, 4, 64)),
    "width": ((64, 128, 256, 512), lambda n: gpt2(4, n, n // 32, 256, 4, 64)),
    "time": ((32, 64, 128, 256, 512), lambda n: gpt2(4, 128, 4, 256, 2, n)),
    "batch": ((1, 2, 4, 8, 16), lambda n: gpt2(4, 128, 4, 256, n, 64)),
}
CHOSEN = ("ours", "eager", "compile")
TURN = 0.3  # seconds
SURPRISE = 0.15  # beyond the exponent of the arithmetic


def point(shape: Shape, workers: dict[str, Worker], rounds: int) -> dict[str, dict[str, float]]:
    """Return each contender's ms for a step. Raises WorkerError."""
    counts = {}
    for name, worker in workers.items():
        worker.call("prepare", shape=asdict(shape))
        warm = worker.call("steps", count=3, settle=2)["times"]
        counts[name] = max(2, int(TURN * 1e3 / min(warm)))
    found: dict[str, list[list[float]]] = {name: [] for name in workers}
    for _ in range(rounds):
        for name, worker in workers.items():
            time.sleep(PAUSE)
            found[name].append(worker.call("steps", count=counts[name], settle=1)["times"])
    return {
        name: {"median": median(median(times) for times in turns), "min": min(min(times) for times in turns)}
        for name, turns in found.items()
    }


def axis(name: str, workers: dict[str, Worker], rounds: int) -> dict[str, Any]:
    """Return the costs along an axis, exponents and surprises. Raises WorkerError."""
    sizes, make = AXES[name]
    points, flops = [], []
    for size in sizes:
        shape = make(size)
        ms = point(shape, workers, rounds)
        points.append({"size": size, "ms": ms})
        flops.append(shape.flops())
        shown = ", ".join(f"{who} {times['median']:.2f}" for who, times in ms.items())
        print(f"{name} {size}: {shown}", file=sys.stderr)
    return {"axis": name, "points": points, "flops": flops, **fits(sizes, flops, points)}


def fits(sizes: tuple[int, ...], flops: list[int], points: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the exponents of the larger half, of the arithmetic and of each contender, and the surprises."""
    half = slice(len(sizes) // 2, None)
    arithmetic = exponent(sizes[half], flops[half])
    found = {
        name: exponent(sizes[half], [p["ms"][name]["min"] for p in points[half]]) for name in points[0]["ms"]
    }
    return {
        "arithmetic": arithmetic,
        "exponents": found,
        "surprises": [name for name, p in found.items() if p > arithmetic + SURPRISE],
    }


def show(axes: list[dict[str, Any]]) -> None:
    """Print a table for each axis: medians in ms, and the exponents of minima."""
    for a in axes:
        print(
            f"\n{a['axis']:>12}" + "".join(f"{name:>12}" for name in a["exponents"]) + "   ms a step, median"
        )
        for p in a["points"]:
            print(f"{p['size']:12}" + "".join(f"{times['median']:12.2f}" for times in p["ms"].values()))
        print(f"{'exponent':>12}" + "".join(f"{e:12.2f}" for e in a["exponents"].values()), end="")
        print(f"   arithmetic {a['arithmetic']:.2f}")
        for name in a["surprises"]:
            print(f"SURPRISE: {name} grows faster with {a['axis']} than its arithmetic")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--axis", nargs="+", default=list(AXES), choices=AXES)
    parser.add_argument("--contenders", nargs="+", default=list(CHOSEN), choices=CONTENDERS)
    add_common(parser, rounds=4)
    args = parser.parse_args()
    check_common(parser, args, torch=any(CONTENDERS[name].program == "_torch" for name in args.contenders))
    about = {
        "benchmark": "scaling",
        "machine": machine(args.threads),
        "quick": args.quick,
        "rounds": args.rounds,
    }
    workers = {name: CONTENDERS[name].start(args.threads) for name in args.contenders}
    try:
        axes = [axis(name, workers, args.rounds) for name in args.axis]
    except WorkerError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        for worker in workers.values():
            worker.close()
    show(axes)
    if args.json:
        args.json.write_text(json.dumps({**about, "axes": axes}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
