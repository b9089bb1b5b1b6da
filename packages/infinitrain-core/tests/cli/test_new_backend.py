"""`infinitrain new-backend`: names, folders, nothing half-written."""

from __future__ import annotations

import ast
import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinitrain.cli import main, new_backend
from infinitrain.device import BUILTIN_NAMES

Capture = pytest.CaptureFixture[str]
FILES = {
    ".github/workflows/ci.yml", ".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "noxfile.py", "pyproject.toml",
    "src/infinitrain_chipx/__init__.py", "src/infinitrain_chipx/backend.py", "src/infinitrain_chipx/kernels.py",
    "src/infinitrain_chipx/py.typed", "src/infinitrain_chipx/runtime.py", "tests/test_conformance.py",
}  # fmt: skip


def tree(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def refused(capsys: Capture, *argv: str) -> list[str]:
    """Return the problems that are told for a command line that is refused."""
    assert main(["new-backend", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, *problems = err.splitlines()
    assert first == "infinitrain new-backend: nothing was written:"
    return problems


def test_what_is_written(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "mine"
    assert main(["new-backend", "chipx", str(folder)]) == 0
    out = capsys.readouterr().out
    assert tree(folder) == FILES
    assert os.listdir(tmp_path) == ["mine"]
    for command in (f'pip install -e "{folder}[test]"', "infinitrain-conformance --backend chipx"):
        assert command in out


@pytest.mark.parametrize("name", ["x", "a_chip_whose_name_is_longer_than_most"])
def test_columns_are_aligned_for_names_of_any_length(name: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["new-backend", name, str(tmp_path / "out")]) == 0
    install, suite, _ = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert install.index(" install it") == suite.index(" does it")
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert not [line for line in readme.splitlines() if name in line and "  # " in line]


def test_no_token_is_left_and_python_parses(tmp_path: Path) -> None:
    for path, text in new_backend.render("chip_9", "acme_chip").items():
        for token in ("@name@", "@package@", "@distribution@", "@contract@", "@core@", "PACKAGE"):
            assert token not in text + path, path
        if path.endswith(".py"):
            ast.parse(text)
        assert text == "" or text.endswith("\n")


def test_the_provider_is_short() -> None:
    rendered = new_backend.render("chipx", "infinitrain_chipx")
    assert sum(len(t.splitlines()) for p, t in rendered.items() if p.startswith("src/")) < 200


def test_every_place_to_fill_in_is_marked() -> None:
    """In what README.md lists, and each with a clause or a word on what goes there."""
    rendered = new_backend.render("chipx", "infinitrain_chipx")
    runtime = rendered["src/infinitrain_chipx/runtime.py"]
    lines = runtime.splitlines()
    functions = {
        node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in ast.walk(ast.parse(runtime))
        if isinstance(node, ast.FunctionDef)
    }
    for name in (
        "initialize",
        "device_count",
        "set_device",
        "_raw_malloc",
        "_raw_free",
        "memcpy",
        "native_array",
        "adopt",
    ):
        assert "VENDOR" in functions[name], name
        assert f"`{name}`" in rendered["README.md"], name
    assert rendered["src/infinitrain_chipx/backend.py"].count("VENDOR") == 2


def test_the_project_file(tmp_path: Path) -> None:
    project = tomllib.loads(new_backend.render("chip_9", "acme_chip")["pyproject.toml"])["project"]
    assert project["name"] == "acme-chip"
    assert project["entry-points"]["infinitrain.backends"] == {"chip_9": "acme_chip:register_backend"}
    assert "infinitrain-core>=0.1" in project["dependencies"]


def test_another_package(tmp_path: Path) -> None:
    assert main(["new-backend", "chipx", str(tmp_path / "x"), "--package", "acme"]) == 0
    assert (tmp_path / "x" / "src" / "acme" / "backend.py").is_file()


@pytest.mark.parametrize(
    "name", ["Chip", "my-chip", "chip:1", "chip ", "chip\n", "", "çhip", "chip٣", *BUILTIN_NAMES]
)
def test_names_that_no_device_can_have(name: str, tmp_path: Path, capsys: Capture) -> None:
    """[contract 1.3]"""
    assert any(
        "[contract 1.3]" in line for line in refused(capsys, name, str(tmp_path / "x"), "--package", "acme")
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["cpux", "cuda2", "9", "chip_9", "x" * 60])
def test_ordinary_names(name: str, tmp_path: Path) -> None:
    """[contract 1.3]"""
    assert main(["new-backend", name, str(tmp_path / "x")]) == 0


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("my-chip", "no name of a Python package"),
        ("class", "no name of a Python package"),
        ("9chip", "no name of a Python package"),
        ("", "no name of a Python package"),
        ("a.b", "no name of a Python package"),
        ("infinitrain", "InfiniTrain's own"),
        ("infinitrain_core", "InfiniTrain's own"),
        ("Infinitrain_Conformance", "InfiniTrain's own"),
        ("numpy", "would hide another package"),
        ("json", "one of Python's standard library"),
        ("JSON", "one of Python's standard library"),
        ("torch", "a well-known one"),
        ("ML_dtypes", "a well-known one"),
        ("pluggy", "pluggy can be imported here"),
        ("__main__", "__main__ can be imported here"),
        ("infinitrain_fake", "InfiniTrain's own"),
        ("infinitrain_examples", "InfiniTrain's own"),
        ("infinitrain_cuda", "InfiniTrain's own"),
        ("___", "would hide another package"),
    ],
)
def test_packages_that_cannot_be(package: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    (problem,) = refused(capsys, "chipx", str(tmp_path / "x"), "--package", package)
    assert said in problem
    assert repr(package) in problem


def test_packages_that_are_installed(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules, folders without ``__init__.py`` and distributions; but not the folder that the command runs beside."""
    site = tmp_path / "site"
    (site / "acme_one.py").parent.mkdir()
    (site / "acme_one.py").write_text("raise AssertionError('it is not to be imported')")
    (site / "acme_space" / "part").mkdir(parents=True)
    (site / "acme_beside").mkdir()
    (site / "acme_name-1.5.dist-info").mkdir()
    (site / "acme_name-1.5.dist-info" / "METADATA").write_text("Name: acme-name\nVersion: 1.5\n")
    (site / "acme_name-1.5.dist-info" / "top_level.txt").write_text("acme_space\n")
    monkeypatch.syspath_prepend(site)
    for package, said in (
        ("acme_one", f"acme_one can be imported here, from {site / 'acme_one.py'}"),
        ("acme_space", "acme_space is installed here by acme-name"),
        ("Acme_Name", "the distribution acme-name 1.5 is installed here"),
    ):
        (problem,) = refused(capsys, "chipx", str(tmp_path / "x"), "--package", package)
        assert said in problem
    assert main(["new-backend", "chipx", str(tmp_path / "x"), "--package", "acme_beside"]) == 0


def test_names_with_dot_(tmp_path: Path) -> None:
    """Only the template's own names begin with a dot."""
    assert main(["new-backend", "dot_chip", str(tmp_path / "a")]) == 0
    assert tree(tmp_path / "a") == {f.replace("_chipx", "_dot_chip") for f in FILES}
    assert main(["new-backend", "chipx", str(tmp_path / "b"), "--package", "dot_x"]) == 0
    assert tree(tmp_path / "b") == {f.replace("infinitrain_chipx", "dot_x") for f in FILES}
    assert main(["new-backend", "chipx", str(tmp_path / "c"), "--package", "PACKAGE_x"]) == 0
    assert tree(tmp_path / "c") == {f.replace("infinitrain_chipx", "PACKAGE_x") for f in FILES}


def test_a_device_named_as_one_of_our_packages(tmp_path: Path, capsys: Capture) -> None:
    (problem,) = refused(capsys, "core", str(tmp_path / "x"))
    assert "--package" in problem
    assert main(["new-backend", "core", str(tmp_path / "x"), "--package", "acme_core"]) == 0


def test_all_problems_are_told_at_once(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    told = refused(capsys, "My-Chip", str(tmp_path / "file"), "--package", "class")
    assert len(told) == 3
    assert [line.split()[1] for line in told] == ["name", "package", str(tmp_path / "file")]


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / ".keep").write_text("mine")
    (problem,) = refused(capsys, "chipx", str(tmp_path))
    assert "is not empty: it has .keep" in problem
    assert tree(tmp_path) == {".keep"}


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: Capture) -> None:
    (problem,) = refused(capsys, "chipx", str(tmp_path / "no" / "such"))
    assert f"there is no folder {tmp_path / 'no'}" in problem
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (problem,) = refused(capsys, "chipx", str(tmp_path / "dangling"))
    assert "exists and is no folder" in problem


def test_the_empty_folder_that_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    number = os.stat(".").st_ino
    assert main(["new-backend", "chipx", "."]) == 0
    assert os.stat(".").st_ino == number == (tmp_path / "here").stat().st_ino
    assert tree(Path()) == FILES
    assert os.listdir(tmp_path) == ["here"]


def test_permissions_are_those_of_any_new_folder(tmp_path: Path) -> None:
    (tmp_path / "ordinary").mkdir()
    assert main(["new-backend", "chipx", str(tmp_path / "x")]) == 0
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("x", "ordinary")]
    assert modes[0] == modes[1]


def stop_at(
    number: int,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Path], None] | None = None,
) -> Callable[[], int]:
    """Let the creation of the file with this number fail; return what counts the attempts."""
    whole, calls = new_backend._create, 0

    def create(target: Path, *args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            target.parent.mkdir(parents=True, exist_ok=True)
            if before is None:
                raise error
            before(target)
        whole(target, *args)

    monkeypatch.setattr(new_backend, "_create", create)
    return lambda: calls


@pytest.mark.parametrize("number", [1, 3, 13])
def test_a_file_that_appears_meanwhile_is_left_alone(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    appeared: list[Path] = []

    def write(target: Path) -> None:
        target.write_text("mine")
        appeared.append(target)

    stop_at(number, OSError(), monkeypatch, write)
    assert main(["new-backend", "chipx", str(tmp_path)]) == 2
    assert "nothing was written: [Errno 17] File exists" in capsys.readouterr().err
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == appeared
    assert appeared[0].read_text() == "mine"


def test_the_parent_of_an_empty_folder_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another file system, or not be one's own."""
    (tmp_path / "here").mkdir()
    os.utime(tmp_path, (1, 1))
    monkeypatch.setattr(new_backend.tempfile, "TemporaryDirectory", None)
    monkeypatch.setattr(os, "rename", None)
    assert main(["new-backend", "chipx", str(tmp_path / "here")]) == 0
    assert tree(tmp_path / "here") == FILES
    assert tmp_path.stat().st_mtime == 1


KILLED = """
import os, sys
from infinitrain.cli import main, new_backend
whole, number = new_backend._create, int(sys.argv[1])
def create(target, text, *args):
    global number
    number -= 1
    if number == 0:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text[:40])
        os.kill(os.getpid(), 9)
    whole(target, text, *args)
new_backend._create = create
main(["new-backend", "chipx", sys.argv[2]])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
@pytest.mark.parametrize("exists", [False, True])
def test_after_a_kill_it_can_be_tried_again(exists: bool, tmp_path: Path, capsys: Capture) -> None:
    for number in (1, 2, 6, 13):
        folder = tmp_path / f"x{number}"
        if exists:
            folder.mkdir()
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", KILLED, str(number), str(folder)], env=env, check=False)
        assert done.returncode == -9
        if exists and number == 6:  # nothing of somebody else's goes
            (folder / "mine").write_text("")
            (problem,) = refused(capsys, "acme", str(folder))
            assert "is not empty: it has mine" in problem
            (folder / "mine").unlink()
        assert main(["new-backend", "acme", str(folder)]) == 0
        capsys.readouterr()
        assert tree(folder) == {f.replace("chipx", "acme") for f in FILES}


def test_a_note_cannot_remove_what_is_elsewhere_or_changed(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (tmp_path / "outside").write_text("a")
    (folder / "changed").write_text("ab")
    note = {"../outside": "a", str(tmp_path / "outside"): "a", "changed": "a"}
    (folder / new_backend.UNFINISHED).write_text(json.dumps(note))
    assert "it has changed" in refused(capsys, "chipx", str(folder))[0]
    (folder / "changed").unlink()
    assert main(["new-backend", "chipx", str(folder)]) == 0
    assert (tmp_path / "outside").read_text() == "a"


@pytest.mark.parametrize("exists", [False, True])
def test_nothing_is_half_written(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "x"
    if exists:
        folder.mkdir()
    calls = stop_at(5, OSError(28, "No space left on device"), monkeypatch)
    assert main(["new-backend", "chipx", str(folder)]) == 2
    assert calls() == 5
    assert "nothing was written: [Errno 28] No space left" in capsys.readouterr().err
    assert os.listdir(tmp_path) == (["x"] if exists else [])
    assert not exists or os.listdir(folder) == []


def test_arguments_that_are_missing(capsys: Capture) -> None:
    assert main(["new-backend", "chipx"]) == 2
    assert "the following arguments are required: DIR" in capsys.readouterr().err
