"""What `infinitrain new-backend` writes keeps the contract as it is, and every step that it prints works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from infinitrain.cli import main
from infinitrain.testing import run_python

ROOT = Path(__file__).parents[4]
NAME = "chip_9"  # a digit and an underscore, which its distribution has not


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "generated"
    assert main(["new-backend", NAME, str(folder)]) == 0
    return folder


def call(command: str, folder: Path, **env: str) -> str:
    """Run a command line in a folder; return its output. Raises AssertionError with it when it fails."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def summary(report: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.read_text())["summary"]
    return found


@pytest.mark.multiproc
def test_it_is_registered_and_passes_l0_and_l1(repository: Path, tmp_path: Path) -> None:
    """From its sources, without an installation."""
    path = os.pathsep.join([str(repository / "src"), *filter(None, sys.path)])
    suite = f'"{sys.executable}" -m infinitrain_conformance --backend {NAME} --level L0,L1'
    call(f"{suite} --backend_module infinitrain_{NAME} --json report.json", tmp_path, PYTHONPATH=path)
    found = summary(tmp_path / "report.json")
    assert found["below_floor"] == []
    assert found["ran"] > found["floor"] > 100
    assert {level: counts["failed"] for level, counts in found["levels"].items()} == {"L0": 0, "L1": 0}


def test_the_kernel_of_its_own_agrees_with_numpy(repository: Path) -> None:
    code = f"""
import numpy as np, infinitrain as it
from infinitrain.backend import OPS, describe_backend, load_backend_module
load_backend_module("infinitrain_{NAME}")
assert [k.name for k in describe_backend("{NAME}").op("LinearForward").layers] == ["explicit", "array"]
rng = np.random.default_rng(3)
x, w, b = (rng.gamma(2.0, 3.0, s) for s in ((2, 5, 7), (4, 7), (4,)))
on = lambda a: it.from_numpy(a, "{NAME}:1")
np.testing.assert_allclose(OPS["LinearForward"].call(on(x), on(w), on(b)).numpy(), x @ w.T + b, rtol=1e-14)
np.testing.assert_allclose(OPS["LinearForward"].call(on(x), on(w), None).numpy(), x @ w.T, rtol=1e-14)
print(it.Device.parse("{NAME}:1"))
"""
    assert run_python(code, str(repository / "src")).strip() == f"{NAME}:1"


@pytest.mark.slow
@pytest.mark.multiproc
def test_every_step_works_from_the_wheels(repository: Path, tmp_path: Path) -> None:
    """As a vendor would: our wheels, a new environment, the steps that are printed, its own checks."""
    wheels, bin = tmp_path / "wheels", tmp_path / "venv" / "bin"
    venv.create(tmp_path / "venv", with_pip=True)
    env = {
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    ours = f"{ROOT / 'packages' / 'infinitrain-core'} {ROOT / 'conformance'}"
    call(f"pip wheel --quiet --no-deps --wheel-dir {wheels} {ours}", tmp_path, **env)
    call("pip install --quiet infinitrain-core", tmp_path, **env)
    printed = call(f"infinitrain new-backend {NAME} made", tmp_path, **env)
    steps = re.findall(r"^  (\S.*?) {2,}", printed, re.M)
    assert [step.split()[0] for step in steps] == ["pip", "infinitrain-conformance", "infinitrain"]
    install, conformance, missing = steps

    call(install, tmp_path, **env)
    assert "conformant on what it ran" in call(f"{conformance} --json report.json", tmp_path, **env)
    found = summary(tmp_path / "report.json")
    assert found["ran"] > found["floor"] > 400
    assert found["below_floor"] == []
    assert {level: counts["failed"] for level, counts in found["levels"].items()} == {
        "L0": 0, "L1": 0, "L2": 0, "L3": 0,
    }  # fmt: skip
    assert found["levels"]["L0"]["passed"] == sum(found["levels"]["L0"].values()), (
        "the entry point is tested too"
    )
    assert found["levels"]["L2"]["passed"] > 500
    assert found["levels"]["L3"]["passed"] > 300
    assert f"backend {NAME} (infinitrain-chip-9 0.1.0), contract 1.0" in call(missing, tmp_path, **env)

    made = tmp_path / "made"
    (example,) = re.findall(r"```python\n(.*?)```", (made / "README.md").read_text(), re.S)
    (tmp_path / "example.py").write_text(example)
    assert call("python example.py", tmp_path, **env).startswith("tensor([2., 4., 6.]")
    call("pip install --quiet 'ruff>=0.17,<0.18' 'mypy>=2.4,<2.5'", tmp_path, **env)
    call("ruff check && ruff format --check && mypy", made, **env)
    call("mypy --strict src", made, **env)
    call(f'pip install --quiet --force-reinstall --no-deps "{made}"', tmp_path, **env)
    assert call(f"infinitrain-conformance --backend {NAME} --level L0", tmp_path, **env)
