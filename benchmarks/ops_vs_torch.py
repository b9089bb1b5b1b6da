"""Each op of the profiles training and fused against PyTorch's eager op, in float32, forward and backward.

    python benchmarks/ops_vs_torch.py [--op NAME ...] [--shape gpt2-124m-256 tiny-128] [--json FILE] [--rounds 5]

Inputs have the sizes that a training step of the shape gives them. Two processes take turns; both must give the same
numbers, gradients too, or the script exits 1, as it does when a row of the table is neither measured nor excused. The
worst ratio stands first. Each has the allocator that it trains with: ours keeps freed memory, PyTorch's is glibc's.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from _contenders import Contender
from _machine import machine
from _options import add_common, check_common
from _pairs import PAIRS, unmeasured
from _pairs_turns import Different, Times, chosen, close, measure, node, ratio
from _shapes import SHAPES
from _worker import WorkerError

CONTENDERS = {
    "ours": Contender("_pairs_ours", "infinitrain"),
    "eager": Contender("_pairs_torch", "torch eager"),
}


def row(name: str, shape: str, times: Times) -> dict[str, Any]:
    """Return a line of the result; ``ratio`` is that of forward and backward together, above 1 where ours is slower."""
    return {
        "op": name,
        "rows": PAIRS[name].rows,
        "shape": shape,
        "ratio": node(times["ours"]) / node(times["eager"]),
        "ratio_of_minima": node(times["ours"], "min") / node(times["eager"], "min"),
        "forward": ratio(times, "forward"),
        "backward": ratio(times, "backward"),
        "us": times,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Print the lines, worst first."""
    head = ("op", "shape", "ratio", "of minima", "forward", "backward", "ours us", "eager us")
    print("{:22}{:16}{:>8}{:>11}{:>9}{:>10}{:>12}{:>12}".format(*head))
    for r in rows:
        backward = f"{r['backward']:10.2f}" if r["backward"] else " " * 10
        ours, eager = (node(r["us"][who]) for who in ("ours", "eager"))
        print(
            f"{r['op']:22}{r['shape']:16}{r['ratio']:8.2f}{r['ratio_of_minima']:11.2f}{r['forward']:9.2f}"
            f"{backward}{ours:12.1f}{eager:12.1f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", nargs="+", default=[], metavar="NAME", help="only these")
    parser.add_argument("--shape", nargs="+", default=["gpt2-124m-256", "tiny-128"], choices=SHAPES)
    parser.add_argument("--seconds", type=float, default=0.1, help="for a turn of one op (default 0.1)")
    add_common(parser, rounds=5)
    args = parser.parse_args()
    check_common(parser, args, torch=True)
    names = chosen(args.op)

    from infinitrain.backend import OPS

    missing = unmeasured((op.name, op.profile) for op in OPS.values())
    if missing:
        print(f"neither measured nor excused: {', '.join(missing)}", file=sys.stderr)
        return 1
    about = {
        "benchmark": "ops_vs_torch",
        "machine": machine(args.threads),
        "quick": args.quick,
        "rounds": args.rounds,
    }
    workers = {name: c.start(args.threads) for name, c in CONTENDERS.items()}
    rows = []
    try:
        for shape in args.shape:
            for name in names:
                times = measure(name, SHAPES[shape], workers, args.rounds, args.seconds)
                rows.append(row(name, shape, times))
                print(f"{shape} {name}: {rows[-1]['ratio']:.2f}", file=sys.stderr)
    except (Different, WorkerError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        close(workers)
    rows.sort(key=lambda r: -r["ratio"])
    show(rows)
    if args.json:
        args.json.write_text(json.dumps({**about, "ops": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
