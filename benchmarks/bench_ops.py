"""Each op on the CPU against the plain NumPy expression that it replaces.

    python benchmarks/bench_ops.py [--op NAME ...] [--markdown] [--rounds 25]

From 1e5 elements on the aim is a ratio of at most 1.10, below at most 3 us more. Both run in one process, in turns, on
one thread of BLAS, float32; the fastest of the rounds counts. The result of either is new memory, as a step makes it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from _ops_expressions import EXPRESSIONS, Expression

import infinitrain as it
from infinitrain.backend import OPS

SHAPES = {"small": (4, 24), "4e3": (64, 64), "1e5": (256, 512), "1e6": (2048, 512)}
LARGE, RATIO, MICROSECONDS = 100_000, 1.10, 3.0


def best(run: Callable[[], object], rival: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the shortest times of both in seconds, measured in turns."""
    run(), rival()
    start = time.perf_counter()
    run()
    count = max(1, int(1e-3 / max(time.perf_counter() - start, 1e-7)))
    fastest = [float("inf"), float("inf")]
    for turn in range(2 * rounds):
        which = turn % 2
        call = (run, rival)[which]
        start = time.perf_counter()
        for _ in range(count):
            call()
        fastest[which] = min(fastest[which], (time.perf_counter() - start) / count)
    return fastest[0], fastest[1]


def measure(entry: Expression, shape: tuple[int, int], rounds: int) -> tuple[float, float]:
    """Return the times of the op and of the expression in seconds."""
    args = entry.make(np.random.default_rng(0), shape)
    op = OPS[entry.op].call
    tensors = [
        tuple(it.from_numpy(part) for part in a) if isinstance(a, tuple) and isinstance(a[0], np.ndarray)
        else it.from_numpy(a) if isinstance(a, np.ndarray) else a
        for a in args
    ]  # fmt: skip
    return best(lambda: op(*tensors), lambda: entry.numpy(*args), rounds)


def main() -> None:
    """Print a row for each op, slowest first, and what misses its aim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", action="append", default=[], help="only this op; repeatable")
    parser.add_argument("--rounds", type=int, default=25, help="rounds per op and size")
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    args = parser.parse_args()
    unknown = set(args.op) - {e.op for e in EXPRESSIONS}
    if unknown:
        sys.exit(f"no expression for {', '.join(sorted(unknown))}")
    rows, missed = [], []
    for entry in [e for e in EXPRESSIONS if not args.op or e.op in args.op]:
        cells = []
        for name, shape in SHAPES.items():
            ours, theirs = measure(entry, shape, args.rounds)
            large = shape[0] * shape[1] >= LARGE
            cells.append(f"{ours / theirs:.2f}" if large else f"{(ours - theirs) * 1e6:+.1f} us")
            if ours / theirs > RATIO if large else (ours - theirs) * 1e6 > MICROSECONDS:
                missed.append(f"{entry.op} at {name}: {ours * 1e6:.1f} us against {theirs * 1e6:.1f} us")
        rows.append((entry.op, entry.text, *cells))
        if not args.markdown:
            print(f"{entry.op:24} {'  '.join(f'{c:>9}' for c in cells)}   {entry.text}", flush=True)
    if args.markdown:
        print("| op | NumPy | " + " | ".join(SHAPES) + " |\n|---|---|" + "---|" * len(SHAPES))
        for op, text, *cells in rows:
            print(f"| {op} | `{text}` | {' | '.join(cells)} |")
    print(f"\n{len(rows)} ops, {len(missed)} of {len(rows) * len(SHAPES)} measurements miss the aim")
    print("".join(f"  {line}\n" for line in missed), end="")


if __name__ == "__main__":
    main()
