"""`infinitrain new-backend`: names, folders, nothing half-written."""

from __future__ import annotations

import ast
import os
import stat
import tomllib
from pathlib import Path

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
        ("json", "would hide another package"),
        ("___", "would hide another package"),
    ],
)
def test_packages_that_cannot_be(package: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    (problem,) = refused(capsys, "chipx", str(tmp_path / "x"), "--package", package)
    assert said in problem
    assert repr(package) in problem


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


@pytest.mark.parametrize("exists", [False, True])
def test_nothing_is_half_written(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = tmp_path / "x"
    if exists:
        folder.mkdir()
    failing = "rename" if exists else "write_text"
    whole, calls = getattr(Path, failing), 0

    def fail_at_the_fifth(self: Path, *args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise OSError(28, "No space left on device")
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(Path, failing, fail_at_the_fifth)
    assert main(["new-backend", "chipx", str(folder)]) == 2
    assert calls == 5
    assert "nothing was written: [Errno 28] No space left" in capsys.readouterr().err
    assert os.listdir(tmp_path) == (["x"] if exists else [])
    assert not exists or os.listdir(folder) == []


def test_arguments_that_are_missing(capsys: Capture) -> None:
    assert main(["new-backend", "chipx"]) == 2
    assert "the following arguments are required: DIR" in capsys.readouterr().err
