"""``infinitrain ops``: the op table, one op, or what a provider lacks."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any, Final

from ..backend import (
    OPS,
    BackendDescription,
    Op,
    OpSupport,
    check_kernels,
    describe_backend,
    load_backend_module,
    optext,
)
from ..backend.describe import BLOCKS
from ..backend.optable import DTYPES, PROFILES
from ..device import Device
from .usage import UsageError, did_you_mean

HELP: Final = "the op table, one op, or what a provider lacks"
DESCRIPTION: Final = """\
The op table of contract 4.1: what each op is called with, takes and gives. `!` marks a parameter that is changed
in place, `+=` a result that may be added to its destination."""
EPILOG: Final = """\
examples:
  infinitrain ops --profile training --backend cpu --backend fake
  infinitrain ops --op LinearBackwardWeight
  infinitrain ops --json > ops.json
  infinitrain ops --missing mychip --backend_module mychip.backend:register_backend

exit status: 0 done; with --missing, 1 when an op of the profiles base or training is missing, or the import path of
a kernel or an array library does not resolve (which is tried, so this imports them); 2 usage, or a name
that is no device; 3 the backend is there but does not load
"""

GIVE_WAY: Final = ("gradient", "parameters", "results", "since", "autocast", "dtypes", "profile")
"""Columns that a narrow terminal does without, the first of them first."""
LEAST: Final = 24
"""How much of the documentation has to fit before another column is left out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the subcommand takes."""
    parser.add_argument("--profile", metavar="P", help=f"only this profile: {', '.join(PROFILES)}")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--op", metavar="NAME", help="one op in full, with the signature of its kernel")
    what.add_argument(
        "--missing", metavar="NAME", help="what backend NAME lacks, by profile, and what that blocks"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for machines")
    form.add_argument("--markdown", action="store_true", help="the table in Markdown")
    form.add_argument(
        "--wide", action="store_true", help="the whole table on a terminal, as it is when it goes elsewhere"
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        action="append",
        default=[],
        help="also show the layers that backend NAME has; repeatable",
    )
    parser.add_argument(
        "--backend_module",
        metavar="PKG.MOD[:FN]",
        help="registrar to call first, for a provider that is not installed",
    )


def run(args: argparse.Namespace) -> int:
    """Print what was asked for; return the exit status."""
    if args.profile is not None and args.profile not in PROFILES:
        raise UsageError(
            f"infinitrain ops: --profile {args.profile!r} is none of {', '.join(PROFILES)}"
            f"{did_you_mean(args.profile, PROFILES)}"
        )
    if args.op is not None and args.op not in OPS:
        raise UsageError(
            f"infinitrain ops: no op {args.op!r}; `infinitrain ops` lists all{did_you_mean(args.op, OPS)}"
        )
    if args.op is not None and (args.profile or args.markdown):
        raise UsageError("infinitrain ops: --op shows one op: drop --profile and --markdown")
    if args.missing is not None and (args.backend or args.markdown):
        raise UsageError("infinitrain ops: --missing is about one backend: drop --backend and --markdown")
    if args.backend_module is not None:
        load_backend_module(args.backend_module)
    if args.missing is not None:
        return _missing(_describe(args.missing), args.profile, args.json)
    backends = [_describe(name) for name in dict.fromkeys(args.backend)]
    rows = [OPS[args.op]] if args.op else [r for r in OPS.values() if args.profile in (None, r.profile)]
    if args.json:
        objects = [_object(row, backends) for row in rows]
        print(json.dumps(objects[0] if args.op else objects, indent=2, ensure_ascii=False, default=str))
    elif args.op:
        print(_whole(rows[0], backends))
    elif not rows:
        print(f"no op has the profile {args.profile} yet")
    elif args.markdown:
        print(optext.markdown_table(*_cells(rows, backends)))
    else:
        narrow = sys.stdout.isatty() and not args.wide
        print(_table(*_cells(rows, backends), shutil.get_terminal_size().columns if narrow else None))
    return 0


def _describe(name: str) -> BackendDescription:
    try:
        device = Device.parse(name)
    except ValueError as error:  # UnknownDeviceError is one
        raise UsageError(f"infinitrain ops: {error}") from error
    return describe_backend(device)


# The table -------------------------------------------------------------------------------------------------------


def _cells(rows: list[Op], backends: list[BackendDescription]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of the table; what may be long stands at the end."""
    header = ["op", "profile", "since", "dtypes", "autocast", *(b.name for b in backends)]
    header += ["parameters", "results", "gradient", "doc"]
    lines = []
    for row in rows:
        layers = [str(b.op(row.name)) for b in backends]
        line = [row.name, row.profile, optext.dotted(row.since), row.dtypes, row.autocast, *layers]
        line += [optext.parameters(row), optext.results(row) or "-", ", ".join(row.gradient) or "-", row.doc]
        lines.append(line)
    return header, lines


def _table(header: list[str], lines: list[list[str]], columns: int | None = None) -> str:
    """Return the table with one line for each op, not wider than ``columns``."""
    note: tuple[str, ...] = ()
    if columns is not None:
        header, lines, note = _fitted(header, lines, columns)
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (header, *lines)
    ]
    return "\n".join([*(text if columns is None else _cut(text, columns) for text in shown), *note])


def _fitted(
    header: list[str], lines: list[list[str]], columns: int
) -> tuple[list[str], list[list[str]], tuple[str, ...]]:
    """Return the columns of the table for which there is room beside the documentation, and what tells of the rest."""
    widths = {
        name: max(map(len, c)) + 2 for name, c in zip(header, zip(header, *lines, strict=True), strict=True)
    }
    doc = widths.pop("doc")
    left_out: list[str] = []
    for name in GIVE_WAY:
        if sum(widths.values()) + min(doc, LEAST) <= columns:
            break
        del widths[name]
        left_out.append(name)
    room = max(columns - sum(widths.values()), 0)
    keep = [header.index(name) for name in (*widths, "doc")]
    told = [[line[k] for k in keep[:-1]] + [_cut(line[-1], room)] for line in (header, *lines)]
    adds = [name for name in header if name in left_out] + ["all of doc"] * (doc - 2 > room)
    return told[0], told[1:], (f"--wide adds {', '.join(adds)}",) if adds else ()


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else text[: max(columns - 1, 0)].rstrip() + "…"


def _object(row: Op, backends: list[BackendDescription]) -> dict[str, Any]:
    layers = {b.name: b.as_dict()["ops"][row.name] for b in backends}
    return optext.as_dict(row) | ({"backends": layers} if backends else {})


# One op ----------------------------------------------------------------------------------------------------------


def _whole(row: Op, backends: list[BackendDescription]) -> str:
    facts = {
        "profile": f"{row.profile}; ops missing from it block {BLOCKS[row.profile]}",
        "dtypes": f"{row.dtypes}: {', '.join(d.name for d in DTYPES[row.dtypes])}",
        "autocast": row.autocast,
        "gradient": ", ".join(row.gradient) or "none",
        "since": f"contract {optext.dotted(row.since)}",
    }
    if row.writes:
        facts["writes"] = ", ".join(row.writes)
    if row.accumulates:
        facts["adds to"] = f"destinations of {', '.join(row.accumulates)}, when asked to"
    if row.view:
        facts["view"] = "the result shares the argument's memory"
    if row.host_sync:
        facts["waits"] = "for the device, to answer on the host"
    facts |= {b.name: _kernels(b.op(row.name)) for b in backends}
    width = max(map(len, facts))
    lines = [optext.signature(row), "", *textwrap.wrap(optext.doc(row), 100), ""]
    for name, text in facts.items():
        lines += textwrap.wrap(
            text, 100, initial_indent=f"  {name:{width}}  ", subsequent_indent=" " * (width + 4)
        )
    lines += ["", "A kernel, called with tensors and numbers in this order [contract 4.4]:"]
    for style, text in optext.kernel_styles(row).items():
        lines += [f"  {style} style" if style != "in place" else "  in place", f"    {text}"]
    lines += [f'  register_kernel(DeviceType.PRIVATEUSE1, "{row.name}", {row.name})']
    return "\n".join(lines)


def _kernels(support: OpSupport) -> str:
    """Return the layers, and where there are several explicit kernels, which is asked first."""
    explicit = next((k.functions for k in support.layers if k.name == "explicit"), ())
    order = f"; explicit: {', then '.join(explicit)}" if len(explicit) > 1 else ""
    return f"{support}{order}"


# What a backend lacks --------------------------------------------------------------------------------------------


def _missing(backend: BackendDescription, profile: str | None, as_json: bool) -> int:
    profiles = [profile] if profile else list(PROFILES)
    shown = [o for o in backend.ops if o.profile in profiles]
    total = {p: sum(o.profile == p for o in shown) for p in profiles}
    missing = {p: backend.missing[p] for p in profiles if p in backend.missing}
    blocked = {o.name: o.needs for o in shown if o.needs}
    composed = [o.name for o in shown if o.composed and not o.needs]
    broken = check_kernels(backend.slot)
    status = int(bool({"base", "training"} & missing.keys() or broken))
    if as_json:
        told = {
            "backend": backend.name,
            "contract": optext.dotted(backend.contract),
            "distribution": backend.distribution,
            "ops": total,
            "missing": {p: list(names) for p, names in missing.items()},
            "blocks": {p: BLOCKS[p] for p in missing},
            "composed": composed,
            "blocked": {op: list(needs) for op, needs in blocked.items()},
            "broken": broken,
        }
        print(json.dumps(told, indent=2))
        return status
    source = f" ({backend.distribution})" if backend.distribution else ""
    print(f"backend {backend.name}{source}, contract {optext.dotted(backend.contract)}")
    for p in profiles:
        if total[p]:
            waiting = {o.name: o.needs for o in shown if o.profile == p and o.needs}
            print(f"  {p:9} {total[p] - len(missing.get(p, ())) - len(waiting):3} of {total[p]} ops")
            if p in missing:
                print(_wrap(f"missing: {', '.join(missing[p])}"))
                print(_wrap(f"blocks: {BLOCKS[p]}"))
            for op, needs in waiting.items():
                print(_wrap(f"{op}: its composite cannot run without {', '.join(needs)}"))
    if composed:
        print(f"  without a kernel of their own, composed by core from other ops: {', '.join(composed)}")
    for problem in broken:
        print(f"  does not run: {problem}")
    return status


def _wrap(text: str) -> str:
    return textwrap.fill(text, 110, initial_indent=" " * 12, subsequent_indent=" " * 14)
