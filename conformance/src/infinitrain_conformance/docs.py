"""Writes docs/ops-matrix.md: ``python -m infinitrain_conformance.docs docs [--check]``.

What the op table, this suite and two backends say of each op. It needs infinitrain-fake beside the suite.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from infinitrain.backend import OPS, BackendDescription, describe_backend
from infinitrain.backend import docs as core
from infinitrain.backend.optable import PROFILES
from infinitrain.backend.optext import markdown_table

from .tolerances import DEFAULT, TABLE, Tolerance, tolerance_of

MODULE = "infinitrain_conformance.docs"


def backends() -> list[BackendDescription]:
    """Return the descriptions of ``cpu`` and ``fake``, whatever this process has registered."""
    from infinitrain.testing import temporary_backend
    from infinitrain_fake import register_backend

    with temporary_backend(register_backend):
        return [describe_backend("cpu"), describe_backend("fake")]


def matrix_page(described: Sequence[BackendDescription]) -> str:
    """Return docs/ops-matrix.md."""
    header = ["op", "profile", "dtypes", "gradient", "tolerance", "autocast", *(b.name for b in described)]
    order = sorted(OPS.values(), key=lambda row: PROFILES.index(row.profile))
    rows = [
        [
            row.name,
            row.profile,
            row.dtypes,
            ", ".join(row.gradient) or "-",
            _short(tolerance_of(row.name)),
            row.autocast,
            *(str(b.op(row.name)) for b in described),
        ]
        for row in order
    ]
    tolerances = [["default", *_numbers(DEFAULT), ""]]
    tolerances += [[name, *_numbers(row), row.reason] for name, row in TABLE.items() if name in OPS]
    return f"""\
# Ops: tolerances and kernels

Written by `python -m {MODULE} docs` from the op table, the conformance suite and the backends; do not edit.

What a kernel takes and gives is in [ops.md](ops.md). The layers of a backend are `explicit`, `array` and `composite`
[contract 4.3], in parentheses the dtypes to which a layer is limited; a call gets the first that takes its dtypes and
is not hidden by `INFINITRAIN_KERNELS`. Any backend's own table: `infinitrain ops --backend NAME --markdown`. The
tolerance is in units of the accumulator; see below.

{markdown_table(header, rows)}

## Tolerances

A result may differ from its float64 oracle by *rounding* units in its own last place, and by (*constant* + *root* √n)
units of the accumulator (float32; float64 for float64 results) of the sum of the absolute values of its n terms; in
half precision also by *half* units of that sum. Integers and bools are exact.

{markdown_table(["op", "rounding", "constant", "root", "half", "reason"], tolerances)}
"""


def _short(row: Tolerance) -> str:
    parts = [f"{row.constant:g}"] if row.constant else []
    parts += [f"{row.root:g} √n"] if row.root else []
    parts += [f"{row.half:g} half"] if row.half else []
    return " + ".join(parts) or ("rounded once" if row.rounding else "exact")


def _numbers(row: Tolerance) -> list[str]:
    return [f"{value:g}" for value in (row.rounding, row.constant, row.root, row.half)]


def pages(folder: Path) -> dict[Path, str]:
    """Return the file under ``folder`` that this module writes, as it should be."""
    return {folder / "ops-matrix.md": matrix_page(backends())}


def main(arguments: list[str]) -> int:
    """Write or check the table; return the exit status."""
    try:
        import infinitrain_fake  # noqa: F401
    except ImportError:
        print(f"{MODULE} describes the backend fake too: pip install infinitrain-fake", file=sys.stderr)
        return 2
    return core.main(arguments, pages, MODULE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
