"""How long `import infinitrain` takes, as a ratio to `import numpy`: the aim is at most 3.

Each import runs in fresh processes, in turn; the median of what is left after a bare interpreter counts. Not
a test: times on a shared machine vary.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

STATEMENTS = {"nothing": "pass", "numpy": "import numpy", "infinitrain": "import infinitrain"}


def seconds(statement: str) -> float:
    """Return the wall time of a Python process that runs ``statement``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians and the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=15, help="processes per statement")
    repeat = parser.parse_args().repeat
    for statement in STATEMENTS.values():
        seconds(statement)  # compiles and fills the file cache
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(repeat):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    medians = {name: statistics.median(values) for name, values in times.items()}
    numpy, infinitrain = (medians[name] - medians["nothing"] for name in ("numpy", "infinitrain"))
    print(f"import numpy {numpy * 1e3:.0f} ms, import infinitrain {infinitrain * 1e3:.0f} ms")
    print(f"ratio {infinitrain / numpy:.2f} (aim: at most 3)")


if __name__ == "__main__":
    main()
