"""What the READMEs show of the command is what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infinitrain.cli import main

ROOT = Path(__file__).parents[4]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## Bring your accelerator\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", SECTION, re.S)
STEPS = BLOCKS[0][1].splitlines()


def shown(start: str) -> str:
    """Return the block of output that starts with a text."""
    (found,) = [text for kind, text in BLOCKS if kind == "text" and text.startswith(start)]
    return found


def test_four_commands() -> None:
    assert [step.split()[0] for step in STEPS] == ["pip", "infinitrain", "pip", "infinitrain-conformance"]
    for folder in STEPS[0].split()[2:]:
        assert (ROOT / folder / "pyproject.toml").is_file()


def test_what_new_backend_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    assert main(STEPS[1].split()[1:]) == 0
    printed = capsys.readouterr().out
    assert printed == shown("wrote ")
    for step in STEPS[2:]:
        assert f"  {step}  " in printed


def test_an_op(capsys: pytest.CaptureFixture[str]) -> None:
    """When this fails because the row changed: paste what the command prints."""
    (name,) = re.findall(r"^(\w+)\(.*\) -> ", SECTION, re.M)
    assert main(["ops", "--op", name]) == 0
    assert capsys.readouterr().out == shown(name)


def test_the_end_of_the_suite() -> None:
    """Figures grow with the suite; what it says of them does not."""
    (end,) = [text for _, text in BLOCKS if "provider mychip (infinitrain-mychip 0.1.0), slot" in text]
    found = re.search(
        r"^ran (\d+) of (\d+) \(floor (\d+)\), 0 failed.*: conformant on what it ran$", end, re.M
    )
    assert found is not None
    ran, selected, floor = map(int, found.groups())
    assert selected >= ran > floor > 0


def test_the_recipe_of_an_op_names_files_that_are_there() -> None:
    """In CONTRIBUTING.md, for the family norm, as far as every family has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = text.partition("## Add an op\n")[2].partition("\n## ")[0]
    core, suite = ROOT / "packages" / "infinitrain-core" / "src", ROOT / "conformance" / "src"
    named = re.findall(r"^\| \d+ \| `([\w./-]+)`", recipe, re.M)
    assert len(named) > 9
    for name in named:
        if not name.endswith(("_composite.py", "CHANGELOG.md", "cases/norm.py")):
            assert any((folder / name).exists() for folder in (ROOT, core, suite)), name
    for list_name in re.findall(r"in `((?:kernels|families|ops)/\w+\.py)`", recipe):
        places = (core / "infinitrain", suite / "infinitrain_conformance")
        assert any((folder / list_name).is_file() for folder in places), list_name
