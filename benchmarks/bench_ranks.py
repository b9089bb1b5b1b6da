"""Ranks as threads or processes: the time of a training step, and the speed of the all-reduce.

    python benchmarks/bench_ranks.py [--rounds 5] [--steps 15] [--patience 600]

Every number is the median of the rounds' medians, with the fastest round in brackets; the configurations take
turns in each round, and what others disturbed is done again. One rank with 2 b samples does the work of two.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _quiet import Quiet

ROOT = Path(__file__).resolve().parents[1]
HARNESS = ROOT / "packages/infinitrain-core/tests/experiments"
sys.path.insert(0, str(HARNESS))

# name, mode, ranks, BLAS threads, share of the samples, interpreter's switch interval in s, environment
SETUPS: tuple[tuple[str, str, int, int, int, float | None, dict[str, str]], ...] = (
    ("1 rank x 1 thread, b samples", "thread", 1, 1, 1, None, {}),
    ("1 rank x 2 BLAS threads, 2 b", "thread", 1, 2, 2, None, {}),
    ("2 thread ranks x 1, b each", "thread", 2, 1, 1, None, {}),
    ("  switching threads after 0.1 ms", "thread", 2, 1, 1, 1e-4, {}),
    ("  malloc as it comes", "thread", 2, 1, 1, None, {"INFINITRAIN_MALLOPT": "0"}),
    ("2 process ranks x 1, b each", "process", 2, 1, 1, None, {}),
)
SIZES = {
    "tiny": {"batch": 4, "time": 16, "width": 32, "heads": 4},
    "small": {"batch": 8, "time": 64, "width": 128, "heads": 4},
    "medium": {"batch": 8, "time": 64, "width": 256, "heads": 8},
    "wide": {"batch": 4, "time": 128, "width": 768, "heads": 12},
    "classes": {"batch": 8, "time": 128, "width": 128, "heads": 4, "classes": 20_000},
}


def environment(blas_threads: int) -> dict[str, str]:
    """Return the environment of a measured process: BLAS as it comes, with so many threads."""
    found = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    return {**found, "OPENBLAS_NUM_THREADS": str(blas_threads)}


def run(
    mode: str, ranks: int, blas_threads: int, config: dict[str, Any], given: dict[str, str]
) -> tuple[float, float]:
    """Return (ms of the slowest rank's median step, page faults per step)."""
    command = [sys.executable, str(HARNESS / "rank_launch.py"), mode, str(ranks), json.dumps(config)]
    env = environment(blas_threads) | given
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return max(r["ms"] for r in results), max(r["faults"] for r in results)


def steps(args: argparse.Namespace, quiet: Quiet) -> None:
    print("\nStep in ms (Linear, LayerNorm, GELU, attention, cross-entropy, all-reduce, AdamW; float32)")
    for size in args.sizes:
        shape = SIZES[size]
        count = args.steps * (20 if size == "tiny" else 4 if size == "small" else 1)
        got: dict[str, list[tuple[float, float]]] = {name: [] for name, *_ in SETUPS}
        for _ in range(args.rounds):
            for name, mode, ranks, blas, share, switch, given in SETUPS:
                config = {**shape, "batch": shape["batch"] * share, "steps": count + 3, "warmup": 3}
                config |= {"switch": switch} if switch else {}
                got[name].append(quiet(partial(run, mode, ranks, blas, config, given)))
        gradients = _parameters(shape) * 4 / 2**20
        print(
            f"\n{size}: b = {shape['batch']}, T = {shape['time']}, C = {shape['width']}, "
            f"{shape.get('classes', 41)} classes, {gradients:.2f} MiB of gradients, "
            f"{count} steps in each of {args.rounds} rounds"
        )
        alone = median(ms for ms, _ in got[SETUPS[0][0]])
        for name, rounds in got.items():
            ms = [m for m, _ in rounds]
            work = 1 if name == SETUPS[0][0] else 2
            print(
                f"  {name:32s} {median(ms):8.2f} ({min(ms):7.2f})   "
                f"{work * alone / median(ms):4.2f} x the samples/s of 1 x 1   "
                f"{median(f for _, f in rounds):6.0f} page faults/step"
            )


def _parameters(shape: dict[str, int]) -> int:
    from rank_training import Config

    return Config(**shape).count()


def bandwidth(args: argparse.Namespace, quiet: Quiet) -> None:
    print("\nAll-reduce (mean) of 2 ranks: ms and GB/s, counting one buffer's bytes")
    for mib in (3, 200):
        got: dict[str, list[float]] = {"threads": [], "processes": []}
        for _ in range(args.rounds):
            got["threads"].append(quiet(partial(_threads, mib, args.repeat)))
            got["processes"].append(quiet(partial(_processes, mib, args.repeat)))
        for name, times in got.items():
            ms, best = median(times) * 1e3, min(times) * 1e3
            rate = mib * 2**20 / 1e6
            print(
                f"  {mib:4d} MiB  {name:10s} {ms:8.3f} ms ({best:8.3f})   "
                f"{rate / ms:6.2f} GB/s ({rate / best:.2f})"
            )
    got = {"threads": [], "processes": []}
    for _ in range(args.rounds):
        got["threads"].append(quiet(partial(_threads, 0, 2000)))
        got["processes"].append(quiet(partial(_processes, 0, 2000)))
    for name, times in got.items():
        print(f"  1 element  {name:10s} {median(times) * 1e6:8.1f} us ({min(times) * 1e6:.1f}): two barriers")


def _time(comm: Any, repeat: int) -> float:
    from rank_comm import all_reduce_mean

    comm.buffers[comm.rank][:] = comm.rank + 1.0
    all_reduce_mean(comm)
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        all_reduce_mean(comm)
        times.append(time.perf_counter() - began)
    if not (comm.buffers[comm.rank] == 1.5).all():
        raise SystemExit("all-reduce gave a wrong mean")
    return median(times)


def _count(mib: int) -> int:
    return mib * 2**18 or 2


def _threads(mib: int, repeat: int) -> float:
    from rank_comm import Threads

    group, times = Threads(2, _count(mib)), [0.0, 0.0]

    def main(rank: int) -> None:
        times[rank] = _time(group.comm(rank), repeat)

    ranks = [threading.Thread(target=main, args=(r,)) for r in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return max(times)


def _processes(mib: int, repeat: int) -> float:
    from rank_comm import make_memory, make_sockets

    memory, sockets = make_memory(2, _count(mib)), make_sockets(2)
    ranks = []
    for rank in range(2):
        fds = {peer: end.fileno() for peer, end in sockets[rank].items()}
        given = json.dumps({"rank": rank, "memory": memory, "peers": fds, "mib": mib, "repeat": repeat})
        command = [sys.executable, __file__, "--as_rank", given]
        passed = (memory, *fds.values())
        ranks.append(
            subprocess.Popen(command, pass_fds=passed, env=environment(1), stdout=subprocess.PIPE, text=True)
        )
    os.close(memory)
    for ends in sockets:
        for end in ends.values():
            end.close()
    return max(float(r.communicate()[0]) for r in ranks)


def as_rank(text: str) -> None:
    from rank_comm import ProcessComm

    given = json.loads(text)
    comm = ProcessComm(given["rank"], given["memory"], {int(r): fd for r, fd in given["peers"].items()})
    comm.limit(_count(given["mib"]))
    print(_time(comm, given["repeat"]))


def machine() -> str:
    """Return one line on the machine and the versions."""
    import numpy as np

    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return (
        f"{model}, {os.cpu_count()} logical cores ({len(os.sched_getaffinity(0))} for us), "
        f"{platform.system()} {platform.release()}, {' '.join(platform.libc_ver())}, "
        f"Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {blas['name']} {blas['version']}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=15, help="of the larger sizes; the small ones take more")
    parser.add_argument("--repeat", type=int, default=15, help="all-reduces in a round")
    parser.add_argument(
        "--patience", type=float, default=600, help="seconds for repeats of what others disturbed"
    )
    parser.add_argument("--as_rank", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_rank:
        return as_rank(args.as_rank)
    print("machine:", machine())
    quiet = Quiet(args.patience)
    steps(args, quiet)
    bandwidth(args, quiet)
    print(f"\n{quiet}")


if __name__ == "__main__":
    main()
