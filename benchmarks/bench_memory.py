"""What telling glibc to keep freed memory is worth: a GPT-2 step with and without (INFINITRAIN_MALLOPT).

Alternating processes, each a few steps; prints the median of the processes' fastest steps, and page faults per step.

    python benchmarks/bench_memory.py [tiny128 gpt2-124m]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from statistics import median

ROUNDS = 3
STEPS = {"tiny128": 12, "gpt2-124m": 3}


def child(name: str) -> None:
    """Print the fastest step in ms and the page faults of a step."""
    import numpy as np
    from bench_overhead import SIZES, Framework

    size = SIZES[name]
    framework = Framework(size)
    rng = np.random.default_rng(0)
    batch = [rng.integers(0, size.vocab, (size.batch, size.time)) for _ in range(2)]
    framework.step(*batch)
    framework.step(*batch)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    times = []
    for _ in range(STEPS[name]):
        start = time.perf_counter()
        framework.step(*batch)
        times.append((time.perf_counter() - start) * 1e3)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps([min(times), faults / STEPS[name]]))


def main(names: list[str]) -> None:
    for name in names:
        found: dict[str, list[list[float]]] = {"0": [], "1": []}
        for _ in range(ROUNDS):
            for setting, results in found.items():
                env = {**os.environ, "INFINITRAIN_MALLOPT": setting}
                out = subprocess.run(
                    [sys.executable, __file__, "--child", name],
                    env=env,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                results.append(json.loads(out))
        for setting, what in (("0", "as it comes"), ("1", "kept")):
            ms = median(r[0] for r in found[setting])
            faults = median(r[1] for r in found[setting])
            print(f"{name:10s} freed memory {what:12s} {ms:9.2f} ms a step, {faults:8.0f} page faults")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main(sys.argv[1:] or list(STEPS))
