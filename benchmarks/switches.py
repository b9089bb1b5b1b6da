"""What each optimisation gives: a training step with everything on, and with one thing at a time switched off.

    python benchmarks/switches.py --shape gpt2-124m-256 [--json FILE] [--rounds 8]

Everyone is infinitrain, in a process of its own; they take turns, start from the same weights and must have the same
losses. How much longer a step takes without a thing is what the thing gives.
"""

from __future__ import annotations

import argparse
import json
import sys
from _statistics import Medians, estimate
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from _contenders import Contender
from _machine import machine
from _options import add_common, check_common
from _shapes import SHAPES, Shape
from _turns import Disagreement, Measured, train
from _worker import WorkerError

SWITCHES = {
    "ours": Contender("_ours", "everything on"),
    "no-numba": Contender("_ours", "fast kernels by Numba", env={"INFINITRAIN_NUMBA": "0"}),
    "no-mallopt": Contender("_ours", "freed memory is kept", env={"INFINITRAIN_MALLOPT": "0"}),
    "one-thread": Contender("_ours", "a second thread", {"threads": 1}),
    "not-flat": Contender("_ours", "parameters and gradients in flat buffers", {"flat": False}),
    "not-in-place": Contender("_ours", "the gradient of the logits in their memory", {"in_place": False}),
}
"""Name -> the contender without a thing; its ``about`` names the thing."""


def rows(shape: Shape, measured: Measured) -> list[dict[str, Any]]:
    """Return, for each switch, the step without and how many times as long it is."""
    rounds = measured.rounds()
    found = []
    for name, trained in measured.trained.items():
        ratio, bounds = estimate(rounds, partial(_ratio, name))
        found.append(
            {
                "switch": name,
                "about": trained.contender.about,
                "env": dict(trained.contender.env),
                "options": dict(trained.contender.options),
                "median_ms": median(median(times) for times in trained.rounds),
                "min_ms": min(min(times) for times in trained.rounds),
                "rss_mb": trained.peak / 2**20,
                "page_faults": trained.faults,
                "ratio": ratio,
                "interval": list(bounds),
            }
        )
    return found


def _ratio(name: str, medians: Medians) -> np.ndarray:
    return medians[name] / medians["ours"]


def show(found: list[dict[str, Any]]) -> None:
    """Print a line for each switch."""
    print(f"{'without':46}{'median ms':>11}{'min ms':>11}{'ratio':>8}{'':18}{'RSS MB':>8}{'page faults':>13}")
    for r in found:
        bounds = f"  [{r['interval'][0]:.3f}, {r['interval'][1]:.3f}]"
        what = "(nothing: everything on)" if r["switch"] == "ours" else r["about"]
        print(
            f"{what:46}{r['median_ms']:11.3f}{r['min_ms']:11.3f}{r['ratio']:8.3f}{bounds:18}{r['rss_mb']:8.0f}"
            f"{r['page_faults']:13.0f}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", required=True, choices=SHAPES)
    parser.add_argument("--patience", type=float, default=0, metavar="S", help="as in train_vs_torch.py")
    add_common(parser, rounds=8)
    args = parser.parse_args()
    check_common(parser, args, torch=False)
    shape = SHAPES[args.shape]
    about = {
        "benchmark": "switches",
        "machine": machine(args.threads),
        "quick": args.quick,
        "rounds": args.rounds,
        "shape": {"name": args.shape, **asdict(shape)},
    }
    try:
        measured = train(
            SWITCHES,
            shape,
            threads=args.threads,
            rounds=args.rounds,
            steps=shape.steps,
            patience=args.patience,
        )
    except (Disagreement, WorkerError) as error:
        print(error, file=sys.stderr)
        return 1
    found = rows(shape, measured)
    show(found)
    if args.json:
        args.json.write_text(json.dumps({**about, "switches": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
