"""Each op on the CPU against the plain NumPy expression that it replaces.

    python benchmarks/bench_ops.py [--op NAME ...] [--markdown] [--rounds 25] [--again 2]

From 1e5 elements on the aim is a ratio of at most 1.10, below at most 3 us more. Both run in one process, in turns, on
one thread of BLAS, float32; the fastest of the rounds counts, for both. What misses is measured ``again``. Before, both
must give the same numbers. Exit status 1 when they do not, or when an op is neither measured nor excused.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _ops_moves
import _ops_pointwise
import _ops_products
import _ops_reductions
import numpy as np
from _ops_expressions import CALL, EXCUSED, EXPRESSIONS, REASONS, Expression, Shape
from _ops_halves import HALVES
from _quiet import Quiet

import infinitrain as it
from infinitrain.backend import OPS

FAMILIES = (_ops_pointwise, _ops_products, _ops_reductions, _ops_moves)  # each fills EXPRESSIONS
SHAPES: dict[str, Shape] = {"small": (4, 24), "4e3": (64, 64), "1e5": (256, 512), "1e6": (2048, 512)}
LARGE, RATIO, MICROSECONDS = 100_000, 1.10, 3.0
LONGEST = 3.0  # seconds for one measurement
FAST = 20e-6  # seconds up to which a call's own time is a tenth


@dataclass
class Cell:
    """The shortest times of an op and of its expression in seconds, so far."""

    large: bool
    ours: float = float("inf")
    theirs: float = float("inf")

    def add(self, times: tuple[float, float]) -> None:
        self.ours, self.theirs = min(self.ours, times[0]), min(self.theirs, times[1])

    @property
    def misses(self) -> bool:
        if self.large:
            return self.ours / self.theirs > RATIO
        return (self.ours - self.theirs) * 1e6 > MICROSECONDS

    def __str__(self) -> str:
        return (
            f"{self.ours / self.theirs:.2f}" if self.large else f"{(self.ours - self.theirs) * 1e6:+.1f} us"
        )


def best(run: Callable[[], object], rival: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Return the shortest times of both in seconds, measured in turns."""
    run(), rival()
    start = time.perf_counter()
    run()
    count = max(1, int(1e-3 / max(time.perf_counter() - start, 1e-7)))
    fastest = [float("inf"), float("inf")]
    began = time.perf_counter()
    for turn in range(2 * rounds):
        which = turn % 2
        if turn >= 10 and not which and time.perf_counter() - began > LONGEST:
            break
        call = (run, rival)[which]
        start = time.perf_counter()
        for _ in range(count):
            call()
        fastest[which] = min(fastest[which], (time.perf_counter() - start) / count)
    return fastest[0], fastest[1]


def _arguments(entry: Expression, shape: Shape) -> tuple[Any, ...]:
    return entry.make(np.random.default_rng(0), shape)


def _tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_tensors(v) for v in value)
    return it.from_numpy(value) if isinstance(value, np.ndarray) else value


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays of an argument or result."""
    if isinstance(value, tuple):
        for v in value:
            yield from _arrays(v)
    elif hasattr(value, "numpy"):
        yield value.numpy()
    elif isinstance(value, np.ndarray | np.generic | bool):
        yield np.asarray(value)


def difference(entry: Expression, shape: Shape) -> str | None:
    """Tell how op and expression differ in results, or in what they wrote; None when they do not."""
    mine, yours = _tensors(_arguments(entry, shape)), _arguments(entry, shape)
    got, want = OPS[entry.op].call(*mine), entry.numpy(*yours)
    ours, theirs = (
        list(_arrays(mine if got is None else got)),
        list(_arrays(yours if want is None else want)),
    )
    if len(ours) != len(theirs):
        return f"{len(ours)} results against {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {i} is {a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
        if entry.random:
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        if not np.allclose(
            x, y, rtol=entry.tolerance, atol=entry.tolerance * max(1e-9, float(np.abs(y).max()))
        ):
            return f"result {i} is off by up to {np.abs(x - y).max():.3g}"
    return None


def measure(entry: Expression, shape: Shape, rounds: int) -> tuple[float, float]:
    """Return the times of the op and of the expression in seconds, each with its own arguments."""
    tensors, arrays, op = _tensors(_arguments(entry, shape)), _arguments(entry, shape), OPS[entry.op].call
    return best(lambda: op(*tensors), lambda: entry.numpy(*arrays), rounds)


def unmeasured() -> list[str]:
    """Return what is wrong with the list of ops: neither measured nor excused, both, or no op at all."""
    measured = {e.op for e in EXPRESSIONS}
    return [
        *[f"{name} is neither measured nor excused" for name in OPS if name not in measured | set(EXCUSED)],
        *[f"{name} is measured and excused" for name in sorted(measured & set(EXCUSED))],
        *[f"{name} is no op" for name in sorted((measured | set(EXCUSED) | set(REASONS)) - set(OPS))],
    ]


def run(entries: list[Expression], args: argparse.Namespace) -> list[tuple[Expression, list[Cell]]]:
    """Return the cells of each expression, what misses measured again."""
    table = []
    for entry in entries:
        cells = []
        for shape in SHAPES.values():
            cell = Cell(shape[0] * shape[1] >= LARGE)
            for _ in range(1 + args.again):
                cell.add(measure(entry, shape, args.rounds))
                if not cell.misses:
                    break
            cells.append(cell)
        table.append((entry, cells))
        if not args.markdown:
            print(f"{entry.op:24} {'  '.join(f'{c!s:>9}' for c in cells)}   {entry.text}", flush=True)
    return table


def machine() -> str:
    info = Path("/proc/cpuinfo")
    models = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, infinitrain {it.__version__}"
    return f"{model}, {os.cpu_count()} logical cores; {versions}; float32, one thread of BLAS."


def print_markdown(table: list[tuple[Expression, list[Cell]]]) -> None:
    print("| op | NumPy | " + " | ".join(SHAPES) + " |\n|---|---|" + "---:|" * len(SHAPES))
    for entry, cells in table:
        shown = [f"**{c}**" if c.misses else str(c) for c in cells]
        print(f"| {entry.op} | `{entry.text.replace('|', chr(92) + '|')}` | {' | '.join(shown)} |")


def print_misses(table: list[tuple[Expression, list[Cell]]]) -> None:
    missed = [
        (entry, name, cell)
        for entry, cells in table
        for name, cell in zip(SHAPES, cells, strict=True)
        if cell.misses
    ]
    print(f"\n{len(missed)} of {len(table) * len(SHAPES)} measurements miss the aim.")
    print(
        "A reason is given where one is known; the others are those of a shared machine, or not looked into.\n"
    )
    for entry, name, cell in missed:
        times = f"{cell.ours * 1e6:.1f} us against {cell.theirs * 1e6:.1f} us"
        why = REASONS.get(entry.op)
        if why == CALL and cell.theirs > FAST:
            why = None
        print(f"- {entry.op} at {name}: {times}{f'; {why}' if why else ''}")


HEADER = """\
# Speed of the ops on the CPU

Written by `python benchmarks/bench_ops.py --markdown > docs/ops-speed.md`; do not edit.

Each op against the plain NumPy expression that a script would have in its place. Both give the same numbers, which the
script checks first, and their results are new memory. Aim: from 1e5 elements on at most {ratio:.2f} times the time of
NumPy (the columns show the ratio), below at most {us:.0f} us more (the columns show the difference). In bold: misses.

Sizes: {sizes}.
Attention and rotary positions have as many elements, in at most 256 positions.

{machine}
Op and expression ran in turns in one process, the shortest time of each counts.
Others used {others:.0%} of the processors meanwhile.
"""


def main() -> None:
    """Print a row for each expression, and what misses its aim."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", action="append", default=[], help="only this op; repeatable")
    parser.add_argument("--rounds", type=int, default=25, help="rounds per op and size")
    parser.add_argument("--again", type=int, default=2, help="how often to repeat a measurement that misses")
    parser.add_argument("--check", action="store_true", help="compare the numbers and measure nothing")
    parser.add_argument("--markdown", action="store_true", help="print a page for the documentation")
    args = parser.parse_args()
    unknown = set(args.op) - {e.op for e in EXPRESSIONS}
    if unknown:
        sys.exit(f"no expression for {', '.join(sorted(unknown))}")
    chosen = [e for e in EXPRESSIONS if not args.op or e.op in args.op]
    halves = [e for e in HALVES if not args.op]
    wrong = unmeasured()
    wrong += [
        f"{e.op} ({e.text}) at {name}: {text}"
        for e in (*chosen, *halves)
        for name, shape in SHAPES.items()
        if (text := difference(e, shape))
    ]
    if wrong:
        sys.exit("\n".join(wrong))
    if args.check:
        print(f"{len(chosen)} expressions give the numbers of their ops")
        return
    quiet = Quiet(patience=0)  # which tells how much others took; the shortest times are to make up for it
    table = quiet(lambda: run(chosen, args))
    if not args.markdown:
        print_misses(table)
        return
    half_table = run(halves, args)
    sizes = ", ".join(f"{name} {list(shape)}" for name, shape in SHAPES.items())
    print(HEADER.format(ratio=RATIO, us=MICROSECONDS, sizes=sizes, machine=machine(), others=quiet.worst))
    print_markdown(table)
    print("\n## Misses")
    print_misses(table)
    print("\n## Not measured\n")
    print("\n".join(f"- {name}: {why}" for name, why in EXCUSED.items()))
    print("\n## bfloat16\n\nFor information: NumPy with ml_dtypes.\n")
    print_markdown(half_table)


if __name__ == "__main__":
    main()
