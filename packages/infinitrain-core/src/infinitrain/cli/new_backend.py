"""``infinitrain new-backend``: the repository of a provider that passes the conformance suite from the start."""

from __future__ import annotations

import argparse
import keyword
import os
import re
import shutil
import sys
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ..__about__ import __version__
from ..backend import CONTRACT
from ..device import BUILTIN_NAMES
from .usage import UsageError

HELP: Final = "write the repository of a new provider"
DESCRIPTION: Final = """\
Write a repository for the device NAME into DIR, which must not exist or be empty: a package over host memory that
passes the conformance suite, with comments where the vendor's driver and array library go."""
EPILOG: Final = """\
examples:
  infinitrain new-backend mychip ./infinitrain-mychip
  infinitrain new-backend mychip2 . --package acme_mychip2

exit status: 0 written; 2 usage, with every problem of the names and of DIR
"""

TAKEN: Final = {
    "infinitrain",
    *(f"infinitrain-{name}" for name in ("conformance", "core", "examples", "fake", *BUILTIN_NAMES)),
}
"""Distributions of the project's own."""
SUFFIX: Final = ".tmpl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the subcommand takes."""
    parser.add_argument("name", metavar="NAME", help="the device's name: [a-z0-9_]+ [contract 1.3]")
    parser.add_argument("dir", metavar="DIR", type=Path, help="the folder to write")
    parser.add_argument("--package", metavar="NAME", help="the import package (default: infinitrain_NAME)")


def run(args: argparse.Namespace) -> int:
    """Write the repository and print what to do next; return the exit status."""
    package = f"infinitrain_{args.name}" if args.package is None else args.package
    problems = [*name_problems(args.name), *package_problems(package), *folder_problems(args.dir)]
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise UsageError(f"infinitrain new-backend: nothing was written:{lines}")
    rendered = render(args.name, package)
    try:
        write(rendered, args.dir)
    except OSError as error:
        raise UsageError(f"infinitrain new-backend: nothing was written: {error}") from error
    print(f"wrote {args.dir}: the device {args.name!r}, {len(rendered)} files")
    for command, purpose in next_steps(args.name, args.dir):
        print(f"  {command:<52} {purpose}")
    print("then replace what is marked VENDOR, step by step; README.md there has the order")
    return 0


def next_steps(name: str, folder: Path) -> list[tuple[str, str]]:
    """Return the commands that come next, with their purpose."""
    return [
        (f'pip install -e "{folder}[test]"', "install it, and the conformance suite"),
        (f"infinitrain-conformance --backend {name}", "does it keep the contract?"),
        (f"infinitrain ops --missing {name}", "which ops does it lack?"),
    ]


# What may be asked for -------------------------------------------------------------------------------------------


def name_problems(name: str) -> list[str]:
    """Return what is wrong with a device's name [contract 1.3]."""
    if not re.fullmatch(r"[a-z0-9_]+", name, re.ASCII):
        return [
            f"name {name!r} must be lowercase ASCII letters, digits, underscores: [a-z0-9_]+ [contract 1.3]"
        ]
    if name in BUILTIN_NAMES:
        return [f"name {name!r} is reserved: choose the name of your own device [contract 1.3]"]
    return []


def package_problems(package: str) -> list[str]:
    """Return why an import package cannot have this name."""
    if not (package.isascii() and package.isidentifier()) or keyword.iskeyword(package):
        return [f"package {package!r} is no name of a Python package: give another one with --package"]
    if distribution_of(package) in TAKEN:
        return [f"package {package!r} is one of InfiniTrain's own: give another one with --package"]
    if package in {*sys.stdlib_module_names, "numpy", "ml_dtypes", "pytest"} or not distribution_of(package):
        return [f"package {package!r} would hide another package: give another one with --package"]
    return []


def distribution_of(package: str) -> str:
    """Return the distribution's name, as package indices normalise it."""
    return re.sub(r"[-_.]+", "-", package).strip("-").lower()


def folder_problems(folder: Path) -> list[str]:
    """Return why nothing can be written to a folder."""
    if folder.is_dir():
        found = sorted(os.listdir(folder))
        return [f"folder {folder} is not empty: it has {', '.join(found[:3])}"] if found else []
    if os.path.lexists(folder):
        return [f"{folder} exists and is no folder"]
    parent = folder.absolute().parent
    return [] if parent.is_dir() else [f"there is no folder {parent} to write {folder.name} into"]


# What is written -------------------------------------------------------------------------------------------------


def render(name: str, package: str) -> dict[str, str]:
    """Return the files of the repository: path -> text."""
    values = {
        "@name@": name,
        "@package@": package,
        "@distribution@": distribution_of(package),
        "@contract@": str(CONTRACT),
        "@core@": ".".join(__version__.split(".")[:2]),
    }
    found = {}
    for path, text in _templates(files(__package__) / "template", ""):
        for token, value in values.items():
            text = text.replace(token, value)
        found[path.replace("PACKAGE", package).replace("dot_", ".")] = text
    return dict(sorted(found.items()))


def _templates(folder: Traversable, at: str) -> list[tuple[str, str]]:
    found = []
    for item in folder.iterdir():
        if item.is_dir():
            found += _templates(item, f"{at}{item.name}/")
        elif item.name.endswith(SUFFIX):
            found.append((at + item.name.removesuffix(SUFFIX), item.read_text(encoding="utf-8")))
    return found


def write(rendered: dict[str, str], folder: Path) -> None:
    """Write the files into ``folder``: all of them, or, after any error, none. Raises OSError."""
    folder = folder.resolve()
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch, "repository")  # not the temporary folder itself, which is its owner's alone
        made.mkdir()
        for path, text in rendered.items():
            target = made / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
        if folder.is_dir():
            _move_into(made, folder)
        else:
            made.rename(folder)


def _move_into(made: Path, folder: Path) -> None:
    """Fill an empty folder that somebody may stand in, which is why it is not replaced."""
    moved: list[Path] = []
    try:
        for item in sorted(made.iterdir()):
            moved.append(item.rename(folder / item.name))  # noqa: PERF401 - known after an error too
    except BaseException:
        for path in moved:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise
