"""A row of the op table as text: for docs/ops.md, for the command ``infinitrain ops``, and for machines."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from .optable import DTYPES, Op, Param


def signature(row: Op) -> str:
    """Return parameters with their kinds, and results; ``!`` is changed in place, ``+=`` may be added to."""
    shown = [_parameter(p, "!" if p.name in row.writes else "") for p in row.params]
    return f"{row.name}({', '.join(shown)})" + (f" -> {results(row)}" if row.results else "")


def _parameter(p: Param, mark: str) -> str:
    default = "" if p.required else f" = {p.default!r}"
    since = "" if p.since == (1, 0) else f" since {dotted(p.since)}"
    return f"{p.name}{mark}: {p.annotation}{default}{since}"


def parameters(row: Op) -> str:
    """Return the names of the parameters, those that are changed in place with ``!``."""
    return ", ".join(f"{p.name}!" if p.name in row.writes else p.name for p in row.params)


def results(row: Op) -> str:
    """Return the names of the results, those that may be added to their destination with ``+=``."""
    return ", ".join(f"{name} +=" if name in row.accumulates else name for name in row.results)


def doc(row: Op) -> str:
    """Return all that the row says of itself: formula and shapes ("" under ``python -OO``)."""
    return " ".join(inspect.cleandoc(row.infer.__doc__ or "").split()).replace("``", "`")


def facts(row: Op) -> list[str]:
    """Return what else is known of the row, each as a few words."""
    index = {"Index": "int64", "BoolMask": "bool"}
    found = [f"dtypes {row.dtypes}"]
    found += [f"{p.name} {index[p.annotation]}" for p in row.params if p.is_index]
    found.append(f"autocast {row.autocast}")
    if row.gradient:
        found.append(f"gradient {', '.join(row.gradient)}")
    if row.view:
        found.append("a view")
    if row.host_sync:
        found.append("waits for the device")
    if row.since != (1, 0):
        found.append(f"since {dotted(row.since)}")
    return found


def kernel_styles(row: Op) -> dict[str, str]:
    """Return how a kernel of this op may be declared, by style [contract 4.4]."""
    names = [p.name for p in row.params]
    head = f"def {row.name}("
    if not row.results:
        return {"in place": f"{head}{', '.join(names)}): ...  # writes {', '.join(row.writes)}"}
    count = "a tuple of tensors" if len(row.results) > 1 or row.results[0].startswith("*") else "a tensor"
    adding = ["accumulate=False"] if row.accumulates else []
    return {
        "destination": f"{head}{', '.join([*names, '*', 'out', *adding])}): ...  # fills out, {count}",
        "value": f"{head}{', '.join(names)}): ...  # returns {count}: {', '.join(row.results)}",
    }


def as_dict(row: Op) -> dict[str, Any]:
    """Return the row for machines."""
    return {
        "name": row.name,
        "profile": row.profile,
        "parameters": [
            {"name": p.name, "kind": p.kind, "annotation": p.annotation, "since": dotted(p.since)}
            | ({} if p.required else {"default": p.default})
            for p in row.params
        ],
        "results": list(row.results),
        "writes": list(row.writes),
        "accumulates": list(row.accumulates),
        "dtypes": [d.name for d in DTYPES[row.dtypes]],
        "gradient": list(row.gradient),
        "autocast": row.autocast,
        "view": row.view,
        "host_sync": row.host_sync,
        "since": dotted(row.since),
        "doc": doc(row),
        "kernel": kernel_styles(row),
    }


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def dotted(version: tuple[int, int]) -> str:
    """Return a contract version as people write it."""
    return f"{version[0]}.{version[1]}"
