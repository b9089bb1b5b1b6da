"""`infinitrain warmup`: it compiles all that there is, says what it does, and is quick the second time."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from typing import Any

import pytest

from infinitrain.backend.dispatch import clear_plans
from infinitrain.backend.kernels import Kernel
from infinitrain.cli import main, workload
from infinitrain.cpu import fast

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

from infinitrain.cpu import code_cache, compiling

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def infinitrain(*argv: str, before: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys\n{before}\nfrom infinitrain.cli import main\nstatus = main({argv!r})\n"
    code += "print('numba' in sys.modules, file=sys.stderr)\nsys.exit(status)"
    return subprocess.run(
        [sys.executable, "-c", code], check=False, env=os.environ | environ, capture_output=True, text=True
    )


def test_the_steps_use_every_fast_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is added to `fast.KERNELS` has to be used by a step in cli/workload.py."""
    used = set()
    resolve = Kernel.resolve

    def noted(kernel: Kernel) -> Any:
        if isinstance(kernel.fn, str) and kernel.fn.startswith(fast.__name__):
            used.add(kernel.op)
        return resolve(kernel)

    monkeypatch.setattr(Kernel, "resolve", noted)
    clear_plans()
    for _ in workload.steps():
        pass
    assert set(" ".join(fast.KERNELS.values()).split()) - used == set()


@pytest.mark.multiproc
def test_afterwards_all_functions_are_there() -> None:
    done = infinitrain("warmup")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.endswith(f"they are in {', '.join(code_cache.folders())}")
    done = infinitrain("warmup")
    assert done.stdout.startswith("all fast kernels were there already (")
    assert done.stdout.count("\n") == 1
    fast.load_all()
    missing = [cache for cache in code_cache._caches if not cache.holds_any()]
    assert not missing, "no step in cli/workload.py calls these"
    assert len(code_cache._caches) >= compiling.functions() > 5


def test_what_is_printed(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each function; on a terminal one line, which is gone at the end."""

    def steps() -> Any:
        for number, name in ((1, "linear._forward"), (2, "gemm.gemm"), (2, "gemm.gemm"), (2, "")):
            compiling.compilation.listener(name, number)
            yield

    monkeypatch.setattr(workload, "steps", steps)
    monkeypatch.setattr(compiling, "functions", lambda: 9)
    assert main(["warmup"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert (first, second) == ("compiling 1/9 linear._forward, 0 s", "compiling 2/9 gemm.gemm, 0 s")
    assert last.startswith("compiled 2 functions (")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["warmup"]) == 0
    erase = compiling.ERASE_LINE
    shown = capsys.readouterr().out
    assert shown.startswith(f"{erase}compiling 1/9 linear._forward, 0 s{erase}compiling 2/9 gemm.gemm, 0 s")
    assert shown.count("\n") == 1
    assert shown.rpartition(erase)[2].startswith("compiled 2 functions (")


@pytest.mark.multiproc
@pytest.mark.parametrize(
    ("before", "environ", "message"),
    [
        ("", {"INFINITRAIN_NUMBA": "0"}, "INFINITRAIN_NUMBA=0 turns the fast kernels off; unset it"),
        ("", {"INFINITRAIN_KERNELS": "array"}, "INFINITRAIN_KERNELS hides the fast kernels; unset it"),
        (
            "import types; sys.modules['numba'] = types.ModuleType('numba')\n"
            "sys.modules['numba'].__spec__ = sys.modules['os'].__spec__",
            {},
            "the fast kernels need Numba, which does not import here (No module named "
            "'numba.core'; 'numba' is not a package): "
            "pip install --upgrade numba",
        ),
        (
            "sys.modules['numba'] = None",
            {},
            'the fast kernels need Numba: pip install "infinitrain-core[fast]"',
        ),
    ],
)
def test_mistakes_are_one_line(before: str, environ: dict[str, str], message: str) -> None:
    done = infinitrain("warmup", before=before, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:-1] == [f"infinitrain warmup: {message}"]


def test_a_full_disk_is_told(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "steps", lambda: iter(()))
    monkeypatch.setattr(code_cache, "failures", [OSError(28, "No space left on device", "/a/b.nbc")])
    assert main(["warmup"]) == 2
    error = "infinitrain warmup: compiled code could not be kept: [Errno 28] No space left on device: '/a/b.nbc'\n"
    assert capsys.readouterr().err == error


@pytest.mark.multiproc
@pytest.mark.parametrize("argv", [("warmup", "--help"), ("--help",), ("--version",), ("ops",)])
def test_reading_imports_no_numba(argv: tuple[str, ...]) -> None:
    done = infinitrain(*argv)
    assert (done.returncode, done.stderr) == (0, "False\n")


# While a run compiles ------------------------------------------------------------------------------------------------


def announced(stream: io.StringIO) -> str:
    announcer = compiling.Announcer(stream)
    for name, number in (("a.b", 1), ("a.c", 2), ("", 2), ("a.d", 3), ("", 3)):
        announcer.compiles(name, number)
    return stream.getvalue()


def test_a_run_that_compiles_says_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "infinitrain: compiling CPU kernels for this machine, once"
    hint = "(`infinitrain warmup` does it ahead)"
    assert announced(io.StringIO()) == f"{text}; about a minute {hint}\n"
    monkeypatch.setenv("TERM", "dumb")
    assert announced(Terminal()) == f"{text}; about a minute {hint}\n"
    monkeypatch.setenv("INFINITRAIN_QUIET_COMPILE", "1")
    assert announced(Terminal()) == ""


def test_on_a_terminal_it_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    shown = announced(Terminal())
    most = compiling.functions()
    lines = shown.split(compiling.ERASE_LINE)
    assert "\n" not in shown
    assert [line.partition(", once")[2].partition(",")[0] for line in lines] == [
        "",
        f": 1 of at most {most}",
        f": 2 of at most {most}",
        "",
        f": 3 of at most {most}",
        "",
    ]
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, announced(Terminal()).split(compiling.ERASE_LINE))) == 39


def test_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    stream.close()
    compiling.Announcer(stream).compiles("a.b", 1)


def test_functions_of_a_users_own_are_not_announced() -> None:
    import numba

    heard: list[str] = []
    before = compiling.compilation.listener
    compiling.compilation.listener = lambda name, begun: heard.append(name)
    try:
        numba.njit(lambda x: x + 1)(1)
        importlib.import_module(f"{fast.__name__}.gemm")
    finally:
        compiling.compilation.listener = before
    assert heard == []
