"""Counts by op, dtype and direction: how much of the op table a run has seen."""

from __future__ import annotations

from typing import Any, Final

from .report import OUTCOMES, RAN, Report

DIRECTIONS: Final = {"L1": "base", "L2": "forward", "L3": "backward"}
COLUMNS: Final = {
    "float32": ("float32",), "bfloat16": ("bfloat16",), "float16": ("float16",), "float64": ("float64",),
    "integers": ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), "bool": ("bool",),
}  # fmt: skip
_MARKS: Final = {"failed": "F", "crashed": "C", "xfailed": "x", "unsupported": "u", "skipped": "s"}


def matrix(report: Report) -> dict[str, dict[str, dict[str, int]]]:
    """Return {op: {dtype: {outcome: tests}}}."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    for name, result in report.results.items():
        case = report.cases.get(name)
        if case is not None and case.op is not None and case.dtype is not None:
            cell = counts.setdefault(case.op, {}).setdefault(case.dtype, {})
            cell[result.outcome] = cell.get(result.outcome, 0) + 1
    return {op: counts[op] for op in sorted(counts)}


def coverage(report: Report) -> dict[str, dict[str, dict[str, int]]]:
    """Return {direction: {column: {"ran": ops with an executed test, "ops": ops of the table that take it}}}."""
    seen = matrix(report)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for op, row in report.facts.get("ops", {}).items():
        for column, dtypes in COLUMNS.items():
            takes = set(dtypes) & set(row["dtypes"])
            if not takes:
                continue
            ran = any(seen.get(op, {}).get(d, {}).get(o) for d in takes for o in RAN)
            cell = found.setdefault(row["direction"], {}).setdefault(column, {"ran": 0, "ops": 0})
            cell["ops"] += 1
            cell["ran"] += ran
    return {direction: found[direction] for direction in DIRECTIONS.values() if direction in found}


def coverage_lines(report: Report) -> list[str]:
    """Return the small table: of the table's ops, how many ran, by direction and dtype."""
    table = coverage(report)
    if not matrix(report):
        return []  # no test of an op was asked for
    out = [f"{'ops run':9}" + "".join(f"{column:>10}" for column in COLUMNS)]
    for direction, row in table.items():
        cells = (f"{row[c]['ran']}/{row[c]['ops']}" if c in row else "-" for c in COLUMNS)
        out.append(f"{direction:9}" + "".join(f"{cell:>10}" for cell in cells))
    return out


def matrix_lines(report: Report) -> list[str]:
    """Return the large table, a row for each op: tests passed in each dtype, and F, C, x, u, s for the others."""
    table, ops = matrix(report), report.facts.get("ops", {})
    dtypes = [d for column in COLUMNS.values() for d in column if any(d in row for row in table.values())]
    if not table:
        return []
    marks = ", ".join(f"{mark} {outcome}" for outcome, mark in _MARKS.items())
    width = max(map(len, table))
    out = [f"tests passed by op and dtype; {marks}", " " * (width + 10) + "".join(f"{d:>10}" for d in dtypes)]
    order = list(DIRECTIONS.values())
    direction = {op: ops.get(op, {}).get("direction", "") for op in table}
    for op in sorted(table, key=lambda op: (order.index(direction[op]) if direction[op] else 9, op)):
        cells = (_cell(table[op].get(dtype, {})) for dtype in dtypes)
        out.append(f"{op:{width}} {direction[op]:9}" + "".join(f"{cell:>10}" for cell in cells).rstrip())
    return out


def _cell(counts: dict[str, Any]) -> str:
    parts = [str(counts["passed"])] if counts.get("passed") else []
    parts += [f"{counts[o]}{_MARKS[o]}" for o in OUTCOMES if o in _MARKS and counts.get(o)]
    return " ".join(parts) or "."
