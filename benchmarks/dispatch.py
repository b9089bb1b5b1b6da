"""What Python costs: single ops on tiny tensors, and whole training steps with the kernels taken out.

    python benchmarks/dispatch.py [--op NAME ...] [--shape micro tiny-128] [--json FILE] [--rounds 5]

`bare` is infinitrain with functions that do nothing in place of all kernels, so that what is left is checking,
dispatch, recording and the engine; PyTorch's eager op stands beside it. A node is one more recorded call in a chain of
them, and its backward; where an op cannot take its own result, a call and a whole backward pass stand there, marked
with a star. One thread each. Of a training step with kernels and without, the second is what the framework costs.
"""

from __future__ import annotations

import argparse
import json
import sys
from statistics import geometric_mean, median
from typing import Any

from _contenders import Contender
from _machine import machine
from _options import add_common, check_common
from _pairs_turns import Different, chosen, close, measure, node
from _shapes import SHAPES, gpt2
from _turns import train
from _worker import WorkerError

TINY = gpt2(1, 8, 2, 16, 1, 2)  # of the tensors: the price of a call, not of its work
BARE = "bare"
CONTENDERS = {
    "ours": Contender("_pairs_ours", "infinitrain"),
    "ours-no-numba": Contender("_pairs_ours", "infinitrain without Numba", env={"INFINITRAIN_NUMBA": "0"}),
    BARE: Contender("_pairs_ours", "infinitrain without kernels", {"bare": True}),
    "eager": Contender("_pairs_torch", "torch eager"),
}
STEPS = {
    "ours": Contender("_ours", "infinitrain"),
    BARE: Contender("_ours", "infinitrain without kernels", {"bare": True}, float32=False),
}


def ops(names: list[str], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Return the times of each op. Raises Different, WorkerError."""
    workers = {name: c.start(threads=1) for name, c in CONTENDERS.items()}
    rows = []
    try:
        for name in names:
            rows.append(
                {"op": name, "us": measure(name, TINY, workers, rounds, seconds, without=BARE, chain=True)}
            )
            print(name, file=sys.stderr)
    finally:
        close(workers)
    return rows


def steps(shape: str, threads: int, rounds: int) -> dict[str, Any]:
    """Return ms of a step, with kernels and without. Raises WorkerError."""
    measured = train(STEPS, SHAPES[shape], threads=threads, rounds=rounds, steps=SHAPES[shape].steps)
    return {
        "shape": shape,
        "ms": {
            name: {
                "median": median(median(times) for times in t.rounds),
                "min": min(min(times) for times in t.rounds),
            }
            for name, t in measured.trained.items()
        },
    }


def price(row: dict[str, Any], who: str) -> float:
    """Return the us of a node; of a whole pass, or of a call, where there is no such thing."""
    times = row["us"][who]
    return times["node"]["median"] if "node" in times else node(times)


def show(rows: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    """Print nodes, those that cost most beside PyTorch's first, and steps."""
    print(f"{'us':26}" + "".join(f"{name:>15}" for name in CONTENDERS) + f"{'ours/eager':>12}")
    for r in sorted(rows, key=lambda r: -price(r, "ours") / price(r, "eager")):
        found, times = [price(r, name) for name in CONTENDERS], r["us"]["ours"]
        mark = (
            " *" if "backward" in times and "node" not in times else "" if "node" in times else " (forward)"
        )
        print(
            f"{r['op'] + mark:26}" + "".join(f"{us:15.2f}" for us in found) + f"{found[0] / found[-1]:12.2f}"
        )
    nodes = [r for r in rows if "node" in r["us"]["ours"]]
    if nodes:
        means = [geometric_mean(max(price(r, name), 1e-3) for r in nodes) for name in CONTENDERS]
        print(
            f"{'nodes, geometric mean':26}"
            + "".join(f"{us:15.2f}" for us in means)
            + f"{means[0] / means[-1]:12.2f}"
        )
    for s in whole:
        ours, bare = s["ms"]["ours"], s["ms"][BARE]
        print(
            f"step of {s['shape']}: {ours['median']:.3f} ms, without kernels {bare['median']:.3f} ms, "
            f"{bare['median'] / ours['median']:.1%} (minima {ours['min']:.3f} and {bare['min']:.3f})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", nargs="+", default=[], metavar="NAME", help="only these")
    parser.add_argument(
        "--shape", nargs="*", default=["micro", "tiny-128"], choices=SHAPES, help="of training steps"
    )
    parser.add_argument("--seconds", type=float, default=0.05, help="for a turn of one op (default 0.05)")
    add_common(parser, rounds=5)
    args = parser.parse_args()
    check_common(parser, args, torch=True)
    names = chosen(args.op)
    about = {
        "benchmark": "dispatch",
        "machine": machine(args.threads),
        "quick": args.quick,
        "rounds": args.rounds,
    }
    try:
        rows = ops(names, args.rounds, args.seconds)
        whole = [steps(shape, args.threads, args.rounds) for shape in args.shape]
    except (Different, WorkerError) as error:
        print(error, file=sys.stderr)
        return 1
    show(rows, whole)
    if args.json:
        args.json.write_text(json.dumps({**about, "ops": rows, "steps": whole}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
