"""Compiled code on disk: two processes at once, damaged files, folders that cannot be written, a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import infinitrain

numba = pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

from infinitrain.cpu.code_cache import CodeCache, code_cache  # noqa: E402 - needs Numba

TYPES = ("float32", "float64", "int32", "int64")


def total(x):
    found = x[0] * 0
    for value in x:
        found += value
    return found


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, int]]:
    """Return a function that sums 0 .. 9 in a dtype like a new process; it gives the sum and what was compiled."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def call(dtype: str, version: str = "1") -> tuple[float, int]:
        dispatcher = numba.njit(total)
        dispatcher._cache = code_cache(total, version)
        assert isinstance(dispatcher._cache, CodeCache)
        result = dispatcher(np.arange(10, dtype=dtype))
        return float(result), sum(dispatcher.stats.cache_misses.values())

    return call


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_code_is_kept_for_each_type(compiled: Callable[..., Any], tmp_path: Path) -> None:
    assert [compiled(dtype) for dtype in TYPES] == [(45.0, 1)] * 4
    assert [compiled(dtype) for dtype in TYPES] == [(45.0, 0)] * 4
    assert len(files(tmp_path)) == 4


def test_another_version_is_compiled_and_takes_the_place(
    compiled: Callable[..., Any], tmp_path: Path
) -> None:
    assert [compiled("float32", version) for version in "1122"] == [
        (45.0, 1),
        (45.0, 0),
        (45.0, 1),
        (45.0, 0),
    ]
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("keep", [0, 1, 31, 32, 33, 1000, -1])
def test_a_damaged_file_is_compiled_again(keep: int, compiled: Callable[..., Any], tmp_path: Path) -> None:
    compiled("float32")
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:keep])
    assert compiled("float32") == (45.0, 1)
    middle = len(whole) // 2
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert compiled("float32") == (45.0, 1)
    assert compiled("float32") == (45.0, 0)


def test_a_full_disk_is_no_error(
    compiled: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        assert compiled("float32") == (45.0, 1)
    assert files(tmp_path) == []


COMPILE = """
import sys
sys.path.insert(0, {folder!r})
from test_code_cache import code_cache, numba, np, total
for dtype in sys.argv[1:]:
    dispatcher = numba.njit(total)
    dispatcher._cache = code_cache(total, "1")
    assert dispatcher(np.arange(10, dtype=dtype)) == 45
    print(sum(dispatcher.stats.cache_misses.values()), flush=True)
"""


def start(cache: Path, *dtypes: str) -> subprocess.Popen[str]:
    code = COMPILE.format(folder=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", code, *dtypes],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.multiproc
def test_two_processes_at_once(tmp_path: Path) -> None:
    """Each writes what the other reads; with Numba's index, one's code could get the other's number."""
    both = [start(tmp_path, *TYPES), start(tmp_path, *reversed(TYPES))]
    for process in both:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    out, error = start(tmp_path, *TYPES).communicate(timeout=120)
    assert out.split() == ["0"] * 4, error
    assert len(files(tmp_path)) == 4


@pytest.mark.multiproc
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_kill_leaves_a_cache_that_works(tmp_path: Path) -> None:
    process = start(tmp_path, *TYPES)
    deadline = time.monotonic() + 60
    while not files(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert files(tmp_path)
    out, error = start(tmp_path, *TYPES).communicate(timeout=120)
    assert len(out.split()) == 4, error


# Where it is kept ----------------------------------------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package, in which no code can be kept: even root makes no folder there."""
    source = Path(infinitrain.__file__).parent
    copy = tmp_path / "site" / "infinitrain"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "template"))
    shutil.copytree(source / "cli" / "template", copy / "cli" / "template")
    (copy / "cpu" / "fast" / "__pycache__").touch()
    return copy.parent


def run(code: str, package: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    env |= {"PYTHONPATH": str(package), "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=False, env=env, capture_output=True, text=True
    )


SUM = """
import infinitrain as it
print(it.__file__, it.ops.LinearBackwardBias(it.ones(300, 400)).tolist() == [300.0] * 400)
"""


@pytest.mark.multiproc
def test_a_read_only_install_keeps_code_in_the_users_folder(read_only: Path, tmp_path: Path) -> None:
    done = run(SUM, read_only, tmp_path / "home")
    assert (done.returncode, done.stdout.split()) == (0, [f"{read_only}/infinitrain/__init__.py", "True"]), (
        done
    )
    assert "compiling CPU kernels for this machine" in done.stderr
    assert {path.suffix for path in files(tmp_path / "home")} == {".nbc"}
    again = run(SUM, read_only, tmp_path / "home")
    assert (again.stdout, again.stderr) == (done.stdout, "")


@pytest.mark.multiproc
def test_with_no_folder_at_all_it_runs_and_the_command_says_so(read_only: Path, tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    done = run(SUM, read_only, tmp_path / "home")
    assert (done.returncode, done.stdout.split()[1:]) == (0, ["True"]), done.stderr
    done = run(
        "import sys; from infinitrain.cli import main; sys.exit(main(['warmup']))",
        read_only,
        tmp_path / "home",
    )
    assert done.returncode == 2
    assert done.stderr.startswith("infinitrain warmup: no folder can keep compiled code: ")
    assert done.stderr.endswith("set NUMBA_CACHE_DIR to one that can\n")
    assert done.stderr.count("\n") == 1
