#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2025.2.9"]
# ///
"""Every check that a developer or CI runs. `nox -l` explains each; `nox` runs those marked with a star.

Arguments after `--` go to the session; some have a help of their own: `nox -s conformance -- --help`.
`nox -R -s tests` skips the installs of a session that ran before.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.2.9"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True  # a check that cannot run has failed; it is never skipped

ROOT = Path(__file__).parent
WORKSPACE = nox.project.load_toml(ROOT / "pyproject.toml")
WORKERS = "2"  # of pytest-xdist
# `cpu-numpy` is the CPU without Numba. `strict` is the provider over array_api_strict that core's tests hold; it takes
# minutes, so that only CI runs it.
OWN_BACKENDS = ("cpu", "cpu-numpy", "fake", "strict")
FAST_OFF = {"INFINITRAIN_NUMBA": "0"}
BACKEND_ENV = {
    "cpu-numpy": FAST_OFF,
    "strict": {"PYTHONPATH": str(ROOT / "packages" / "infinitrain-core" / "tests" / "providers")},
}
# What computes on the CPU, for the tests that run again without its fast kernels.
FAST_OFF_TESTS = (
    *(f"packages/infinitrain-core/tests/{name}" for name in ("autograd", "cpu", "nn", "ops", "optim")),
    "packages/infinitrain-examples/tests/test_gpt2.py",
)


@dataclass(frozen=True)
class Package:
    """One distribution of the workspace."""

    name: str  # short, as in `--package core` and in the tag core-v0.1.0
    folder: str
    module: str

    @property
    def path(self) -> Path:
        return ROOT / self.folder

    @property
    def project(self) -> dict[str, Any]:
        project: dict[str, Any] = nox.project.load_toml(self.path / "pyproject.toml")["project"]
        return project

    @property
    def version(self) -> str:
        namespace: dict[str, str] = {}
        exec((self.path / "src" / self.module / "__about__.py").read_text(encoding="utf-8"), namespace)
        return namespace["__version__"]

    @property
    def wheel(self) -> str:
        return f"infinitrain_{self.name}-{self.version}-py3-none-any.whl"

    @property
    def sdist(self) -> str:
        return f"infinitrain_{self.name}-{self.version}.tar.gz"


PACKAGES = {
    package.name: package
    for package in (
        Package("core", "packages/infinitrain-core", "infinitrain"),
        Package("cuda", "packages/infinitrain-cuda", "infinitrain_cuda"),
        Package("fake", "packages/infinitrain-fake", "infinitrain_fake"),
        Package("examples", "packages/infinitrain-examples", "infinitrain_examples"),
        Package("conformance", "conformance", "infinitrain_conformance"),
    )
}
PYTHON_VERSIONS = nox.project.python_versions({"project": PACKAGES["core"].project})


# The default sessions: what `nox` runs ------------------------------------------------------------------


@nox.session
def tests(session: nox.Session) -> None:
    """
    Run the packages' own tests, some again without Numba. `-- --package fake` for one, `-- -m slow` for the slow ones.
    """
    parser = _parser(session, rest="pytest")
    parser.add_argument(
        "--package", action="append", choices=PACKAGES, default=[], help="repeatable; default: all"
    )
    args, pytest_args = parser.parse_known_args(session.posargs)

    _install_editable(session)
    session.run("infinitrain", "warmup")
    folders = [f"{PACKAGES[name].folder}/tests" for name in args.package]
    _pytest(session, "-n", WORKERS, *folders, *pytest_args)
    if not session.posargs:
        _pytest(session, "-n", WORKERS, *FAST_OFF_TESTS, env=FAST_OFF)


@nox.session
def conformance(session: nox.Session) -> None:
    """
    Run the conformance suite on built wheels. `-- --backend NAME` for one backend, own or a vendor's.
    """
    parser = _parser(session, rest="infinitrain-conformance")
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="repeatable; default: cpu, cpu-numpy (without Numba) and fake; `strict` is ours too",
    )
    parser.add_argument(
        "--write_known_skips",
        action="store_true",
        help="write conformance/expected/ anew: which tests are unsupported or skipped on our own backends",
    )
    parser.add_argument(
        "--install",
        action="append",
        default=[],
        metavar="PATH_OR_REQ",
        help="also install this (a folder, a wheel, a requirement), such as a vendor's package; repeatable",
    )
    parser.add_argument(
        "--no_venv",
        action="store_true",
        help="install nothing: use the infinitrain-conformance on PATH and what is installed beside it",
    )
    args, suite_args = parser.parse_known_args(session.posargs)
    backends = args.backend or OWN_BACKENDS[: 4 if args.write_known_skips else 3]

    command = "infinitrain-conformance"
    no_venv = args.no_venv or session.virtualenv.venv_backend == "none"
    if no_venv:
        if args.install:
            session.error("--install needs the session's own environment: drop it, or drop --no_venv")
        command = shutil.which(command) or session.error(
            "--no_venv found no infinitrain-conformance on PATH: activate the environment that has it, "
            "or `pip install` it beside the provider"
        )
    else:
        names = ["core", "conformance", *(["fake"] if "fake" in backends else [])]
        extra = [str(Path(item).resolve()) if Path(item).exists() else item for item in args.install]
        strict = "strict" in backends
        extra += [req for req in _group("test") if strict and req.startswith("array-api-strict")]
        _install_wheels(session, *names, extra=extra, fast="cpu" in backends)
        if "cpu" in backends:
            session.run("infinitrain", "warmup")

    failed = []
    for name in backends:
        ours = _own_backend(name, suite_args, write=args.write_known_skips) if name in OWN_BACKENDS else []
        suite = (command, "--backend", name.removesuffix("-numpy"), *ours, *suite_args)
        try:
            session.run(*suite, external=no_venv, env=BACKEND_ENV.get(name, {}))
        except nox.command.CommandFailed:
            failed.append(name)  # the other backends still report
    if failed:
        session.error(f"Not conformant: {', '.join(failed)}")


def _own_backend(name: str, suite_args: Sequence[str], *, write: bool) -> list[str]:
    """Return what the suite needs for a backend of this repository; a whole run must skip what is listed."""
    args = []
    if name == "strict":
        args += ["--backend_module", "strict_provider:register_backend", "--workers", WORKERS]
    if not {"--level", "--op", "-k", "--"} & set(suite_args):
        known = str(ROOT / "conformance" / "expected" / f"{name.removesuffix('-numpy')}.toml")
        args += ["--write_known_skips" if write else "--known_skips", known]
    return args


@nox.session
def lint(session: nox.Session) -> None:
    """
    Check style and format with ruff. `-- --fix` repairs what it can.
    """
    parser = _parser(session, rest="`ruff check`")
    parser.add_argument("--fix", action="store_true", help="repair in place instead of reporting")
    args, ruff_args = parser.parse_known_args(session.posargs)

    session.install(*_group("lint"))
    session.run("ruff", "check", *(["--fix"] if args.fix else []), *ruff_args)
    session.run("ruff", "format", *([] if args.fix else ["--check"]))


@nox.session
def typecheck(session: nox.Session) -> None:
    """
    Check types with mypy: strictly for infinitrain.backend and the conformance suite.
    """
    session.install(*_group("typecheck"), *_third_party_dependencies())
    session.run("mypy", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """
    Build all distributions into dist/, check them, and import each from an empty environment.
    """
    session.install(*_group("build"))
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    for package in PACKAGES.values():
        session.run(
            "python", "-m", "build", "--no-isolation", "--outdir", str(dist), str(package.path), silent=True
        )

    expected = sorted(name for package in PACKAGES.values() for name in (package.sdist, package.wheel))
    built = sorted(path.name for path in dist.glob("*"))
    if built != expected:
        session.error(f"dist/ holds {built}, but should hold {expected}")
    session.run("twine", "check", "--strict", *(str(dist / name) for name in expected))

    for package in PACKAGES.values():
        _check_contents(session, package, dist)
        _import_from_empty_environment(session, package, dist)


# On demand: `nox -s NAME` --------------------------------------------------------------------------------


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """
    Check that the conformance suite sees defects: planted in the fake device, generated from the op table.
    """
    _install_wheels(session, "core", "conformance", "fake")
    session.run("infinitrain-conformance", "--faults", *session.posargs)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """
    Run the examples in docs/ and in every README.
    """
    _install_editable(session, "docs")
    places = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs"]
    places += [package.path / "README.md" for package in PACKAGES.values()]
    paths = [str(path.relative_to(ROOT)) for path in places if path.exists()]
    _pytest(session, "-p", "no:xdist", *paths, *session.posargs)


@nox.session(python=PYTHON_VERSIONS, default=False)
def pythons(session: nox.Session) -> None:
    """
    Run the quick tests under each supported Python. A missing interpreter is an error.
    """
    _install_editable(session)
    session.run("infinitrain", "warmup")
    _pytest(session, "-n", WORKERS, "-m", "not slow and not gpu and not multiproc", *session.posargs)


@nox.session(python="3.11", default=False)
def parity(session: nox.Session) -> None:
    """
    Compare with PyTorch and transformers: the tests in tests-parity/. The only session with torch.
    """
    if not any((ROOT / "tests-parity").glob("**/test_*.py")):
        session.error("tests-parity/ holds no tests")
    _install_editable(session, "parity")
    _pytest(session, "tests-parity", "-m", "not gpu", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """
    Run a benchmark: `-- NAME` with the arguments after it. `--` alone lists them. Installs PyTorch to compare with.
    """
    scripts = {
        path.stem.removeprefix("bench_"): path
        for path in sorted(ROOT.glob("benchmarks/*.py"))
        if not path.stem.startswith("_")
    }
    name, *script_args = session.posargs or [""]
    if name not in scripts:
        if name:
            session.error(f"No benchmark {name!r}. There are: {', '.join(scripts)}")
        for known, path in scripts.items():
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            print(f"{known:16} {about.partition(chr(10))[0]}")
        return
    _install_editable(session, "bench")
    session.run("python", str(scripts[name].relative_to(ROOT)), *script_args)


# Helpers -------------------------------------------------------------------------------------------------


def _parser(session: nox.Session, rest: str) -> argparse.ArgumentParser:
    """Return a parser for the arguments after `--`; for parse_known_args, as `rest` takes the others."""
    return argparse.ArgumentParser(
        prog=f"nox -s {session.name} --",
        epilog=f"Everything else goes to {rest}.",
        allow_abbrev=False,
    )


def _group(name: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of the workspace."""
    return nox.project.dependency_groups(WORKSPACE, name)


def _third_party_dependencies() -> list[str]:
    """Return what the packages need from outside the workspace."""
    needed = {dep for package in PACKAGES.values() for dep in package.project["dependencies"]}
    return sorted(dep for dep in needed if not dep.startswith("infinitrain-"))


def _install_editable(session: nox.Session, group: str = "test") -> None:
    """Install a dependency group and all packages, such that an edit of the sources needs no new install."""
    # One build backend for all, instead of an isolated environment for each: three times as fast.
    session.install("hatchling>=1.27", "editables", *_group(group))
    editable = [arg for package in PACKAGES.values() for arg in ("-e", f"./{package.folder}")]
    session.install("--no-build-isolation", *editable)


def _install_wheels(session: nox.Session, *names: str, extra: Sequence[str] = (), fast: bool = False) -> None:
    """Build wheels of our packages and install them as a vendor would, with `extra` beside them; `fast`: with Numba."""
    session.install("hatchling>=1.27")
    out = Path(session.create_tmp()).resolve() / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    folders = [f"./{PACKAGES[name].folder}" for name in names]  # without ./, `conformance` is a name on PyPI
    session.run(
        *("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--wheel-dir", str(out), *folders),
        silent=True,
    )
    wheels = [str(out / PACKAGES[name].wheel) for name in names]
    core = str(out / PACKAGES["core"].wheel)
    session.install(*(f"{w}[fast]" if fast and w == core else w for w in wheels), *extra)
    # pip keeps an installed wheel of the same version, but a reused environment holds yesterday's.
    session.install("--force-reinstall", "--no-deps", *wheels)


def _pytest(session: nox.Session, *args: str, env: Mapping[str, str] = {}) -> None:
    """Run pytest; with several workers, each keeps to one thread."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1"} if "-n" in args else {}
    session.run("python", "-m", "pytest", *args, env={**one_thread, **env})


def _check_contents(session: nox.Session, package: Package, dist: Path) -> None:
    """Check that wheel and sdist carry the type marker and a licence that is the project's."""
    if (package.path / "LICENSE").read_bytes() != (ROOT / "LICENSE").read_bytes():
        session.error(f"{package.folder}/LICENSE differs from LICENSE: copy it anew")
    with zipfile.ZipFile(dist / package.wheel) as wheel:
        stem = package.wheel.removesuffix("-py3-none-any.whl")
        shipped = wheel.namelist()
        missing = {f"{package.module}/py.typed", f"{stem}.dist-info/licenses/LICENSE"} - set(shipped)
    with tarfile.open(dist / package.sdist) as sdist:
        stem = package.sdist.removesuffix(".tar.gz")
        typed = f"src/{package.module}/py.typed"
        files = ("LICENSE", "README.md", "CHANGELOG.md", "tests/test_about.py", typed)
        missing |= {f"{stem}/{name}" for name in files} - set(sdist.getnames())
        shipped += sdist.getnames()
    if missing:
        session.error(f"infinitrain-{package.name} lacks {', '.join(sorted(missing))}")
    compiled = [name for name in shipped if "__pycache__" in name or ".nbc" in name]
    if compiled:
        session.error(f"infinitrain-{package.name} ships compiled code: {', '.join(compiled)}")


def _import_from_empty_environment(session: nox.Session, package: Package, dist: Path) -> None:
    """Install a wheel where nothing else is, and import it there."""
    siblings = [
        other.wheel
        for other in PACKAGES.values()
        if any(dep.startswith(f"infinitrain-{other.name}") for dep in package.project["dependencies"])
    ]
    empty = Path(session.create_tmp()).resolve() / "empty"
    session.run("python", "-m", "venv", "--clear", "--without-pip", str(empty))
    python = str(empty / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    # Siblings come from dist/ by path: an index must not be able to offer others under their names.
    wheels = [str(dist / name) for name in (package.wheel, *siblings)]
    session.run("python", "-m", "pip", "--quiet", "--python", python, "install", *wheels, silent=True)
    code = (
        "import importlib, importlib.metadata as metadata, importlib.resources as resources\n"
        f"module = importlib.import_module({package.module!r})\n"
        f"about = importlib.import_module({package.module + '.__about__'!r})\n"
        f"assert metadata.version('infinitrain-{package.name}') == about.__version__ == {package.version!r}\n"
        f"assert (resources.files({package.module!r}) / 'py.typed').is_file()\n"
        "print(module.__name__, about.__version__, 'from', module.__file__)\n"
    )
    if package.name == "core":  # computes without Numba, which is an extra
        code += (
            "import sys\n"
            "x = module.ones(300, 400)\n"
            "assert module.ops.linear(x, x).sum().item() == 300 * 300 * 400\n"
            "assert 'numba' not in sys.modules\n"
        )
    session.run(python, "-I", "-c", code, external=True, log=False)


def _activate_pyenv_versions() -> None:
    """
    Make nox find the interpreters that pyenv installed.

    pyenv's shim `python3.12` fails unless a 3.12 is active, which is rarely so for more than one version.
    PYENV_VERSION activates several; the one that is in use stays first.
    """
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = {path.name for path in (root / "versions").glob("3.*") if (path / "bin" / "python").exists()}
    active = [name for name in os.environ.get("PYENV_VERSION", "").split(":") if name]
    if not active and platform.python_version() in installed:
        active = [platform.python_version()]
    for wanted in PYTHON_VERSIONS:
        if not any(name.startswith(f"{wanted}.") for name in active):
            patches = [name.split(".")[2] for name in installed if name.startswith(f"{wanted}.")]
            numbers = sorted(int(patch) for patch in patches if patch.isdigit())
            active += [f"{wanted}.{numbers[-1]}"] if numbers else []
    if active:
        os.environ["PYENV_VERSION"] = ":".join(active)
        os.environ["PATH"] += os.pathsep + str(root / "shims")


_activate_pyenv_versions()

if __name__ == "__main__":
    nox.main()
