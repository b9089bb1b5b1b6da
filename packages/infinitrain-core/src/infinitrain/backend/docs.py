"""Writes the documents' tables from the code: ``python -m infinitrain.backend.docs docs [--check]``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import optext
from .ccl import REQUIRED, CclImpl
from .guard_impl import GROUPS, WHOLE_GROUPS, DeviceGuardImpl
from .optable import OPS, PROFILES, Op

_INDENTED = re.compile(r"\n\s*\n.*", re.DOTALL)


def methods_table() -> str:
    """Return the table of [contract 3.1]: every method of DeviceGuardImpl, by group."""
    lines = ["| group | method | required | |", "|---|---|---|---|"]
    for group, names in GROUPS.items():
        for name in names:
            member = getattr(DeviceGuardImpl, name)
            required = getattr(member, "__isabstractmethod__", False)
            word = "yes" if required else "with the group" if group in WHOLE_GROUPS else "no"
            lines.append(f"| {group} | {_signature(name, member)} | {word} | {_summary(member)} |")
    return "\n".join(lines)


def collectives_table() -> str:
    """Return the table of [contract 6.1]: every method of CclImpl."""
    lines = ["| method | required | |", "|---|---|---|"]
    for name, member in vars(CclImpl).items():
        if not name.startswith("_"):
            required = "yes" if name == "type" or name in REQUIRED else "no"
            lines.append(f"| {_signature(name, member)} | {required} | {_summary(member)} |")
    return "\n".join(lines)


def _signature(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"`{name}`"
    if member is None:
        return f"`{name}(op_name, reads, writes)`"
    parameters = [p for p in inspect.signature(member).parameters.values() if p.name != "self"]
    shown = [
        f"{p.name}: {p.annotation}" + ("" if p.default is p.empty else f" = {p.default!r}")
        for p in parameters
    ]
    result = inspect.signature(member).return_annotation
    return f"`{name}({', '.join(shown)}) -> {result}`".replace("|", "\\|")


def _summary(member: Any) -> str:
    doc = (
        inspect.cleandoc(member.__doc__ or "")
        if member is not None
        else "A context manager around every kernel [contract 3.9]; None when not needed."
    )
    return _INDENTED.sub("", doc).replace("\n", " ").replace("``", "`").replace("|", "\\|")


def ops_page() -> str:
    """Return docs/ops.md: the op table, by profile."""
    lines = [
        "# Ops",
        "",
        "Written by `python -m infinitrain.backend.docs docs` from the op table [contract 4.1]; do not edit.",
        "",
        "A kernel gets these parameters, positionally and in this order; destination style takes `out` too.",
        "Results marked `+=` may be added to their destination, parameters marked `!` are changed in place",
        "([contract 4.4](contract.md#4-ops-kernels-dispatch)). *Dtypes* are those of the first tensor that is no",
        "index: `floating` bfloat16, float16, float32, float64; `integer` the eight of them; `numeric` both;",
        "`all` bool too. An `Index` holds int64, a `BoolMask` bool, and `register_kernel(..., dtypes=...)` does not",
        "count them [contract 4.3]. Statistics (`mean`, `rstd`, `lse`, and `loss`) are float32, of float64 float64.",
        "*Autocast* [contract 5.1] is `lower`, `float32`, `widest` or `keep`. Tolerances, and the kernels of our",
        "own backends, are in [ops-matrix.md](ops-matrix.md); `infinitrain ops --op NAME` prints one op.",
    ]
    for profile in PROFILES:
        rows = [row for row in OPS.values() if row.profile == profile]
        if rows:
            lines += ["", f"## {profile}", "", f"{len(rows)} ops."]
            for row in rows:
                lines += ["", *_op_lines(row)]
    return "\n".join(lines) + "\n"


def _op_lines(row: Op) -> list[str]:
    facts = "; ".join(optext.facts(row))
    return [f"### {row.name}", "", f"`{optext.signature(row)}`  ", f"{optext.doc(row)}  ", f"*{facts}*"]


def with_tables(text: str) -> str:
    """Return a document with what is between ``<!-- generated: NAME -->`` and ``<!-- end -->`` made anew."""
    tables: dict[str, Callable[[], str]] = {"methods": methods_table, "collectives": collectives_table}
    return re.sub(
        r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{tables[found[2]]()}\n\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def pages(folder: Path) -> dict[Path, str]:
    """Return the files under ``folder`` that have tables of core's, as they should be."""
    contract = folder / "contract.md"
    return {contract: with_tables(contract.read_text(encoding="utf-8")), folder / "ops.md": ops_page()}


def stale(wanted: dict[Path, str], write: bool = False) -> list[Path]:
    """Return the files that differ from what is wanted; with ``write``, bring them up to date."""
    old = [p for p, text in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    if write:
        for path in old:
            path.write_text(wanted[path], encoding="utf-8")
    return old


def main(
    arguments: list[str],
    make: Callable[[Path], dict[Path, str]] = pages,
    module: str = "infinitrain.backend.docs",
) -> int:
    """Write or check what ``make`` says of a folder; return the exit status."""
    folders = [a for a in arguments if a != "--check"]
    if len(folders) != 1 or not Path(folders[0], "contract.md").is_file():
        print(f"usage: python -m {module} FOLDER [--check]; FOLDER holds contract.md", file=sys.stderr)
        return 2
    check = "--check" in arguments
    found = stale(make(Path(folders[0])), write=not check)
    for path in found:
        print(f"{path} {'is stale' if check else 'written'}")
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
