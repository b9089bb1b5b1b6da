"""The providers that docs/contract.md prints pass what the document says they pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONTRACT = Path(__file__).parents[2] / "docs" / "contract.md"
BLOCK = re.compile(r"```\w+\n(?:# |/\* )([\w/]+\.(?:py|c))(?: \*/)?\n(.*?)```", re.DOTALL)


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Write every file that the document prints; return the folder, which Python finds."""
    (tmp_path / "infinitrain_toy").mkdir()
    for name, text in BLOCK.findall(CONTRACT.read_text(encoding="utf-8")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.multiproc
@pytest.mark.parametrize("module", ["infinitrain_toy", "infinitrain_toy.arrays", "infinitrain_toy.pointers"])
def test_levels_0_and_1(
    module: str, examples: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(examples), os.environ["PYTHONPATH"])))
    options: tuple[str, ...] = ()
    if module.endswith("pointers"):
        compiler = shutil.which("cc") or shutil.which("gcc")
        assert compiler, "no C compiler: neither cc nor gcc is on PATH; this test needs one"
        library = examples / "libtoy.so"
        done = subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", str(examples / "toy.c"), "-o", str(library), "-lm"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        options = ("--backend_option", f"library={library}")
    got = command("--backend", "toy", "--backend_module", module, *options, "--level", "L0,L1")
    assert got.code == 0, got.out
    assert got.report["summary"]["below_floor"] == []
