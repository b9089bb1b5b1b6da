"""``infinitrain new-backend``: the repository of a provider that passes the conformance suite from the start."""

from __future__ import annotations

import argparse
import importlib.util
import json
import keyword
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
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
NEEDED: Final = {
    "numpy",
    "ml_dtypes",
    "pytest",
    "hatchling",
    "nox",
    "ruff",
    "mypy",
    "pip",
    "setuptools",
    "wheel",
}
"""What the provider or its tests import, or its repository runs, wherever the command is run."""
WELL_KNOWN: Final = {
    "torch",
    "jax",
    "jaxlib",
    "tensorflow",
    "cupy",
    "scipy",
    "dpctl",
    "dpnp",
    "array_api_compat",
}
"""Array libraries that a provider may be about to import."""
SUFFIX: Final = ".tmpl"
UNFINISHED: Final = ".new-backend-unfinished"
"""What tells, in a folder that was empty, which files are being written there."""


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
    steps = next_steps(args.name, args.dir)
    width = max(52, *(len(command) for command, _ in steps))
    for command, purpose in steps:
        print(f"  {command:<{width}} {purpose}")
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
    hidden = _hidden(package)
    if hidden is not None:
        return [f"package {package!r} would hide another package, {hidden}: give another one with --package"]
    return []


def _hidden(package: str) -> str | None:
    """Return what an import package of this name would be taken for, or would be taken for it."""
    import importlib.metadata as metadata  # slow to import

    name = distribution_of(package)
    if not name:
        return "as no distribution can have this name"
    if package.lower() in {module.lower() for module in sys.stdlib_module_names}:
        return "one of Python's standard library"
    if name in map(distribution_of, NEEDED | WELL_KNOWN):
        return "a well-known one"
    spec = None if package in sys.modules else importlib.util.find_spec(package)
    # A folder without __init__.py counts where it was installed; one that the command is started beside does not.
    namespace = spec is not None and spec.origin is None
    if package in sys.modules or (spec is not None and not namespace):
        return f"{package} can be imported here" + (f", from {spec.origin}" if spec and spec.origin else "")
    if namespace and package in metadata.packages_distributions():
        return f"{package} is installed here by {', '.join(metadata.packages_distributions()[package])}"
    try:
        return f"the distribution {name} {metadata.version(name)} is installed here"
    except metadata.PackageNotFoundError:
        return None


def distribution_of(package: str) -> str:
    """Return the distribution's name, as package indices normalise it."""
    return re.sub(r"[-_.]+", "-", package).strip("-").lower()


def folder_problems(folder: Path) -> list[str]:
    """Return why nothing can be written to a folder."""
    if folder.is_dir():
        found = _strangers(folder)
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
        found["/".join(_segment(part, package) for part in path.split("/"))] = text
    return dict(sorted(found.items()))


def _segment(part: str, package: str) -> str:
    """Return a part of a template's path as it is written: names with a dot are no files of a wheel."""
    return package if part == "PACKAGE" else re.sub("^dot_", ".", part)


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
    if folder.is_dir():
        _fill(rendered, folder)
        return
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        made = Path(scratch, "repository")  # not the temporary folder itself, which is its owner's alone
        made.mkdir()
        for path, text in rendered.items():
            _create(made / path, text)
        made.rename(folder)


def _fill(rendered: dict[str, str], folder: Path) -> None:
    """Write into an empty folder that somebody may stand in, or that is mounted, which is why it is not replaced."""
    noted = _noted(folder)
    if noted is not None:  # a run was killed here
        _remove([*_ours(noted), folder / UNFINISHED], noted, folder)
    paths = [folder / path for path in rendered]
    written = [folder / UNFINISHED]
    with written[0].open("x", encoding="utf-8") as note:
        try:
            json.dump(rendered, note)
            note.flush()
            for path, text in zip(paths, rendered.values(), strict=True):
                _create(path, text, written)
        except BaseException:
            note.close()  # before it can be removed on Windows
            _remove(reversed(written), paths, folder)
            raise
    written[0].unlink()


def _create(target: Path, text: str, written: list[Path] | None = None) -> None:
    """Write a file that is not there yet. Raises FileExistsError, and leaves the file, when it has appeared."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("x", encoding="utf-8", newline="\n") as file:
        if written is not None:
            written.append(target)
        file.write(text)


def _noted(folder: Path) -> dict[Path, bytes] | None:
    """Return what a run that was killed in ``folder`` was writing, by its note; None without one."""
    note = folder / UNFINISHED
    if note.is_symlink() or not note.is_file():
        return None
    try:
        told = json.loads(note.read_bytes())
    except ValueError:
        return {}  # killed before anything else was written
    paths = {path: str(text).encode() for path, text in told.items()} if isinstance(told, dict) else {}
    inside = [path for path in paths if ".." not in Path(path).parts and not Path(path).is_absolute()]
    return {folder / path: paths[path] for path in inside}


def _ours(noted: dict[Path, bytes]) -> list[Path]:
    """Return the files that are there with the text that was being written, or the beginning of it."""
    files = [path for path in noted if path.is_file() and not path.is_symlink()]
    return [path for path in files if noted[path].startswith(path.read_bytes())]


def _strangers(folder: Path) -> list[str]:
    """Return the names of what is in a folder beside what a run that was killed has left there."""
    noted = _noted(folder)
    if noted is None:
        return sorted(os.listdir(folder))
    known = {folder / UNFINISHED, *_ours(noted), *_folders(noted, folder)}
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path not in known)


def _folders(paths: Iterable[Path], folder: Path) -> Iterator[Path]:
    """Yield the folders that files need, those inside others first."""
    found = {parent for path in paths for parent in path.parents if folder in parent.parents}
    yield from sorted(found, key=lambda path: -len(path.parts))


def _remove(files: Iterable[Path], paths: Iterable[Path], folder: Path) -> None:
    """Remove files, and the folders of ``paths`` where nothing else is in them."""
    for path in files:
        path.unlink(missing_ok=True)
    for made in _folders(paths, folder):
        if made.is_dir() and not any(made.iterdir()):
            made.rmdir()
