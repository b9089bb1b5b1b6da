"""A training step of infinitrain against PyTorch's, in float32: tokens per second and peak memory.

    python benchmarks/train_vs_torch.py --shape gpt2-124m-256 [--json FILE] [--rounds 8] [--quick] [--gate]

Contenders run in processes of their own and take turns; while one works, the others sleep. All start from the same
weights and see the same tokens: when float32 losses differ by more than 1e-5 of themselves, the script says so and
exits 1. Warm-up is left out of the times and reported apart. `-malloc` is an allocator told to keep freed memory; bf16
is not float32 and stands there for information.
"""

from __future__ import annotations

import argparse
import json
import sys
from _statistics import Medians, estimate, round_medians
from dataclasses import asdict
from typing import Any

import numpy as np
from _contenders import CONTENDERS, TORCH, unknown
from _gates import GATES
from _machine import machine
from _options import add_common, check_common, positive
from _shapes import SHAPES, Shape
from _turns import QUIET, Disagreement, Measured, Trained, train
from _worker import WorkerError


def summary(name: str, shape: Shape, measured: Measured) -> dict[str, Any]:
    """Return the result as it is written: contenders, ratios with intervals, the limit, gates."""
    contenders = {n: _contender(t, shape) for n, t in measured.trained.items()}
    values = {
        f"ratio_vs_{name}": _ratio(measured, rivals)
        for name, rivals in (("eager", TORCH[:1]), ("compile", TORCH[2:3]), ("best_torch", TORCH))
    }
    sgemm = None
    values["share_of_sgemm_limit"] = None
    if measured.sgemm:
        products = sum(p.flops for p in shape.products())
        limits = [[s * 1e3 * shape.flops() / products] for s in measured.sgemm]
        sgemm = {
            "gflops": products / float(np.median(measured.sgemm)) / 1e9,
            "flops": shape.flops(),
            "limit_ms": float(np.median(limits)),
        }
        if "ours" in measured.trained:
            both = {"ours": measured.trained["ours"].rounds, "limit": limits}
            values["share_of_sgemm_limit"] = estimate(both, lambda m: m["limit"] / m["ours"])
    rss = None
    if {"ours", "eager"} <= set(contenders):
        rss = contenders["ours"]["rss_mb"] / contenders["eager"]["rss_mb"]
    result = {
        "shape": {"name": name, **asdict(shape)},
        "parameters": shape.size(),
        "others": [round(share, 3) for share in measured.others],
        "disturbed": sum(share > QUIET for share in measured.others),  # rounds
        "repeats": measured.repeats,
        "contenders": contenders,
        **{key: value and value[0] for key, value in values.items()},
        "ratio_rss": rss,
        "interval": {key: list(value[1]) for key, value in values.items() if value},
        "sgemm": sgemm,
    }
    result["gates"] = [gate.check(result) for gate in GATES.get(name, ())]
    return result


def _contender(trained: Trained, shape: Shape) -> dict[str, Any]:
    middle = float(np.median(round_medians(trained.rounds)))
    return {
        "about": trained.contender.about,
        "float32": trained.contender.float32,
        "tokens_per_s": shape.tokens / middle * 1e3,
        "median_ms": middle,
        "min_ms": min(min(times) for times in trained.rounds),
        "rss_mb": trained.peak / 2**20,
        "first_step_s": trained.first_step,
        "losses": trained.losses,
        "rounds_ms": [round(ms, 4) for ms in round_medians(trained.rounds)],
        "sitting": trained.sitting,
    }


def _ratio(measured: Measured, rivals: tuple[str, ...]) -> tuple[float, tuple[float, float]] | None:
    """Return how many times as fast ours is as the fastest of ``rivals``, and the interval."""
    rounds = measured.rounds(sitting=0)
    if not {"ours", *rivals} <= set(rounds):
        return None

    def value(medians: Medians) -> np.ndarray:
        return np.min([medians[r] for r in rivals], axis=0) / medians["ours"]

    return estimate(rounds, value)


def show(result: dict[str, Any]) -> None:
    """Print a result for people."""
    m, shape = result["machine"], result["shape"]
    print(
        f"{shape['name']}: {result['parameters'] / 1e6:.2f}M parameters, {shape['batch']} x {shape['time']} tokens"
    )
    versions = ", ".join(f"{k} {v}" for k, v in m["versions"].items() if v)
    print(f"{m['cpu']}, {m['cores']} cores, {m['threads']} threads; Python {m['python']}, {versions}")
    print(
        f"{result['rounds']} rounds of {result['steps']} steps{' (QUICK: no result)' if result['quick'] else ''}, "
        f"{result['repeats']} done again; load before {m['load_before']}, other programs used up to "
        f"{max(result['others']):.0%} of the processors in a round\n"
    )
    if result["disturbed"]:
        print(f"WARNING: {disturbed(result)}\n")
    print(f"{'':16}{'tokens/s':>10}{'median ms':>12}{'min ms':>12}{'RSS MB':>9}{'first step s':>14}")
    for name, c in result["contenders"].items():
        print(
            f"{name:16}{c['tokens_per_s']:10.0f}{c['median_ms']:12.3f}{c['min_ms']:12.3f}{c['rss_mb']:9.0f}"
            f"{c['first_step_s']:14.1f}{'' if c['float32'] else '  not float32'}"
            f"{'' if c['sitting'] == 0 else '  measured after the others: no room'}"
        )
    print()
    for key in (
        "ratio_vs_eager",
        "ratio_vs_compile",
        "ratio_vs_best_torch",
        "ratio_rss",
        "share_of_sgemm_limit",
    ):
        if result[key] is not None:
            bounds = result["interval"].get(key)
            print(f"{key:22} {result[key]:.3f}" + (f"  [{bounds[0]:.3f}, {bounds[1]:.3f}]" if bounds else ""))
    if result["sgemm"]:
        print(
            "{:22} {gflops:.0f} GFLOP/s, at which a step takes {limit_ms:.3f} ms".format(
                "sgemm", **result["sgemm"]
            )
        )
    for gate in result["gates"]:
        print(gate_text(gate))


def disturbed(result: dict[str, Any]) -> str:
    """Tell how many rounds other programs spoilt."""
    return (
        f"in {result['disturbed']} of {len(result['others'])} rounds other programs used more than {QUIET:.0%} of the "
        "processors, which threads that wait for each other suffer from most: measure again on a quiet machine"
    )


def gate_text(gate: dict[str, Any]) -> str:
    """Return a line: the gate, what was measured, and whether it is met."""
    bound = f">= {gate['least']}" if gate["least"] is not None else f"<= {gate['most']}"
    goal = f" (goal {gate['goal']})" if gate["goal"] else ""
    measured = "" if gate["measured"] is None else f": {gate['measured']:.3f}"
    verdict = {True: "met", False: "MISSED", None: "not measured"}[gate["met"]]
    return f"gate {gate['value']} {bound}{goal}{measured} {verdict}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", required=True, choices=SHAPES)
    parser.add_argument("--steps", type=positive, help="timed steps in a turn (default: by shape)")
    parser.add_argument(
        "--contenders", nargs="+", metavar="NAME", default=list(CONTENDERS), help=f"of {' '.join(CONTENDERS)}"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        metavar="S",
        help="repeat rounds while others compute, for S seconds",
    )
    parser.add_argument(
        "--gate", action="store_true", help="exit 1 when a gate is missed or was not measured"
    )
    add_common(parser, rounds=8)
    args = parser.parse_args()
    strange = unknown(args.contenders)
    if strange:
        parser.error(f"no contender {', '.join(strange)}; there are {', '.join(CONTENDERS)}")
    check_common(parser, args, torch=any(CONTENDERS[name].program == "_torch" for name in args.contenders))
    return args


def main() -> int:
    args = _arguments()
    shape = SHAPES[args.shape]
    steps = args.steps or shape.steps
    about = {
        "benchmark": "train_vs_torch",
        "machine": machine(args.threads),
        "quick": args.quick,
        "rounds": args.rounds,
        "steps": steps,
    }
    chosen = {name: CONTENDERS[name] for name in args.contenders}
    try:
        measured = train(
            chosen,
            shape,
            threads=args.threads,
            rounds=args.rounds,
            steps=steps,
            sgemm=True,
            patience=args.patience,
        )
    except (Disagreement, WorkerError) as error:
        print(error, file=sys.stderr)
        return 1
    result = {**about, **summary(args.shape, shape, measured)}
    show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return int(args.gate and not all(gate["met"] for gate in result["gates"]))


if __name__ == "__main__":
    sys.exit(main())
