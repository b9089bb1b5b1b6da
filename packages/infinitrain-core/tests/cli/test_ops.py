"""`infinitrain ops`: the table, one op, what a provider lacks; mistakes are told in a line, with exit status 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infinitrain import __version__
from infinitrain.backend import NO_OP_KERNELS, OPS, register_kernel
from infinitrain.backend.guard_impl import DeviceGuardImpl
from infinitrain.cli import main
from infinitrain.device import DeviceType
from infinitrain.testing import HostRuntime, host_backend, run_python, temporary_backend

Capture = pytest.CaptureFixture[str]
TYPE = DeviceType.PRIVATEUSE1
PROVIDER = """
from infinitrain.testing import host_backend
register_backend = host_backend(name="chipx")
broken = host_backend(name="chipx", contract=None)
"""


def run(capsys: Capture, *argv: str) -> tuple[int, str, str]:
    """Return exit status, output and error output of a command line."""
    status = main(argv)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, out, err


def command(*argv: str, folder: Path | str = "", **env: str) -> tuple[int, str, str]:
    """Likewise, in a process of its own, which has ``folder`` on its path."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "infinitrain", *argv],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


class Bare(HostRuntime):
    """A runtime without arrays."""

    native_array = DeviceGuardImpl.native_array
    adopt = DeviceGuardImpl.adopt


def base_kernels() -> None:
    for name in ("Cast", "Fill"):
        register_kernel(TYPE, name, f"not_there:{name}", dtypes=("float32", "int64"))
    for name, kernel in NO_OP_KERNELS.items():
        register_kernel(TYPE, name, kernel)


# The table -------------------------------------------------------------------------------------------------------


def test_the_table_has_a_line_for_every_op(capsys: Capture) -> None:
    status, out, err = run(capsys, "ops")
    header, *lines = out.splitlines()
    assert (status, err) == (0, "")
    assert header.split() == (
        ["op", "profile", "since", "dtypes", "autocast", "parameters", "results", "gradient", "doc"]
    )
    assert [line.split()[0] for line in lines] == list(OPS)
    (linear,) = [line for line in lines if line.startswith("LinearForward ")]
    assert linear.split("  ")[-1].startswith("y = x weightᵀ + bias")
    for cell in ("training", "1.0", "lower", "x, weight, bias", "LinearBackwardInput, "):
        assert f"  {cell}" in linear


def test_a_profile_and_a_backends_layers(capsys: Capture) -> None:
    with temporary_backend(host_backend(Bare(), name="chipx", register_kernels=base_kernels)):
        status, out, _ = run(capsys, "ops", "--profile", "base", "--backend", "cpu", "--backend", "chipx")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert lines[0][5:7] == ["cpu", "chipx"]
    assert [line[0] for line in lines[1:]] == [n for n, row in OPS.items() if row.profile == "base"]
    assert {line[0]: line[6] for line in lines[1:]}["Cast"] == "explicit(float32,int64)"


def test_an_op_without_any_layer_is_a_dash(capsys: Capture) -> None:
    with temporary_backend(host_backend(Bare(), name="chipx", register_kernels=base_kernels)):
        _, out, _ = run(capsys, "ops", "--profile", "training", "--backend", "chipx", "--json")
        _, table, _ = run(capsys, "ops", "--profile", "training", "--backend", "chipx")
    rows = {row["name"]: row for row in json.loads(out)}
    assert rows["AddForward"]["backends"] == {"chipx": []}
    (line,) = [line for line in table.splitlines() if line.startswith("AddForward ")]
    assert line.split()[5] == "-"


def test_a_profile_without_ops_says_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinitrain.cli.ops.OPS", {})
    assert run(capsys, "ops", "--profile", "moe") == (0, "no op has the profile moe yet\n", "")


def test_json_is_the_whole_row(capsys: Capture) -> None:
    rows = {row["name"]: row for row in json.loads(run(capsys, "ops", "--json")[1])}
    assert list(rows) == list(OPS)
    linear = rows["LinearForward"]
    assert [p["name"] for p in linear["parameters"]] == ["x", "weight", "bias"]
    assert [p["kind"] for p in linear["parameters"]] == ["tensor", "tensor", "optional"]
    assert linear["dtypes"] == ["bfloat16", "float16", "float32", "float64"]
    assert linear["autocast"] == "lower"
    assert rows["Fill"]["writes"] == ["x"]
    assert rows["LinearBackwardWeight"]["accumulates"] == ["dweight"]


def test_markdown(capsys: Capture) -> None:
    header, rule, *lines = run(capsys, "ops", "--profile", "base", "--markdown")[1].splitlines()
    assert header.startswith("| op | profile | since |")
    assert rule == "| " + " | ".join(["---"] * 9) + " |"
    assert len(lines) == sum(row.profile == "base" for row in OPS.values())


def test_a_bar_in_a_cell_is_escaped() -> None:
    from infinitrain.backend.optext import markdown_table

    assert markdown_table(["a"], [["exp(|x|)"]]).splitlines()[-1] == r"| exp(\|x\|) |"


# One op ----------------------------------------------------------------------------------------------------------


def test_one_op_in_full(capsys: Capture) -> None:
    status, out, _ = run(capsys, "ops", "--op", "LinearBackwardWeight", "--backend", "cpu")
    assert status == 0
    assert out.startswith("LinearBackwardWeight(x: Tensor, grad: Tensor) -> dweight +=\n")
    assert "x (..., in)" in out
    assert "def LinearBackwardWeight(x, grad, *, out, accumulate=False): ..." in out
    assert "def LinearBackwardWeight(x, grad): ..." in out
    assert "explicit" in out
    assert 'register_kernel(DeviceType.PRIVATEUSE1, "LinearBackwardWeight"' in out


def test_the_shown_kernels_are_those_that_a_registration_takes(capsys: Capture) -> None:
    """Both styles of every op, as printed, register without a problem [contract 2.3]."""
    from infinitrain.backend import optext

    for number in range(2):

        def kernels(number: int = number) -> None:
            for row in OPS.values():
                styles = list(optext.kernel_styles(row).values())
                space: dict[str, object] = {}
                exec(styles[min(number, len(styles) - 1)], space)
                register_kernel(TYPE, row.name, space[row.name])  # type: ignore[arg-type]

        with temporary_backend(host_backend(Bare(), name="chipx", register_kernels=kernels)):
            assert run(capsys, "ops", "--missing", "chipx")[0] == 0


def test_an_op_that_writes_in_place(capsys: Capture) -> None:
    out = run(capsys, "ops", "--op", "Fill")[1]
    assert out.startswith("Fill(x!: Tensor, value: Scalar)\n")
    assert "def Fill(x, value): ...  # writes x" in out
    assert "destination style" not in out


def test_one_op_for_machines(capsys: Capture) -> None:
    row = json.loads(run(capsys, "ops", "--op", "GeluForward", "--json", "--backend", "cpu")[1])
    assert row["name"] == "GeluForward"
    assert row["kernel"].keys() == {"destination", "value"}
    assert row["backends"]["cpu"][-1] == {
        "layer": "array",
        "dtypes": None,
        "functions": ["infinitrain.kernels.activation:GeluForward"],
    }


def test_of_several_explicit_kernels_the_first_is_told_first(capsys: Capture) -> None:
    def kernels() -> None:
        for dtype in ("float64", "float32"):
            register_kernel(DeviceType.PRIVATEUSE1, "LinearForward", f"chipx.{dtype}:linear", dtypes=(dtype,))

    with temporary_backend(host_backend(name="chipx", kernels=kernels)):
        out = " ".join(run(capsys, "ops", "--op", "LinearForward", "--backend", "chipx")[1].split())
    order = "explicit: chipx.float64:linear, then chipx.float32:linear"
    assert f"chipx explicit(float64,float32)+array; {order} A kernel" in out


# What a provider lacks -------------------------------------------------------------------------------------------


def test_nothing_is_missing(capsys: Capture) -> None:
    with temporary_backend(host_backend(name="chipx")):
        status, out, _ = run(capsys, "ops", "--missing", "chipx")
    assert status == 0
    assert out.startswith("backend chipx, contract 1.0\n")
    assert "missing" not in out


def test_what_is_missing_and_what_that_blocks(capsys: Capture) -> None:
    with temporary_backend(host_backend(Bare(), name="chipx", register_kernels=base_kernels)):
        status, out, _ = run(capsys, "ops", "--missing", "chipx")
        told = json.loads(run(capsys, "ops", "--missing", "chipx", "--json")[1])
        base = run(capsys, "ops", "--missing", "chipx", "--profile", "base")
    assert status == 1
    assert "base        4 of 4 ops" in out
    assert "GPT-2" in out.partition("blocks:")[2]
    assert "LinearForward" in " ".join(out.split()).partition("missing: ")[2]
    assert "  fused       0 of " in out
    text = " ".join(out.split())
    assert (
        "RmsNormForward: its composite cannot run without RsqrtForward, MulForward, AddScalarForward" in text
    )
    assert "composed by core" not in out
    assert "does not run: kernel Cast: ModuleNotFoundError: No module named 'not_there' [contract 2.9]" in out
    assert set(told["missing"]["training"]) == {n for n, r in OPS.items() if r.profile == "training"}
    assert not told["composed"]
    assert told["blocked"]["AddLayerNormForward"] == ["LayerNormForward", "AddForward"]
    assert told["blocked"]["AddRmsNormForward"][:2] == ["AddForward", "RsqrtForward"]
    assert "base" not in told["missing"]
    assert "GPT-2" in told["blocks"]["training"]
    assert base[0] == 1
    assert base[1].splitlines()[:2] == ["backend chipx, contract 1.0", "  base        4 of 4 ops"]


def test_a_composite_runs_where_the_ops_that_it_needs_are(capsys: Capture) -> None:
    def kernels() -> None:
        register_kernel(TYPE, "Cast", lambda x, dtype: x)
        register_kernel(TYPE, "Fill", lambda x, value: None)
        for name, kernel in NO_OP_KERNELS.items():
            register_kernel(TYPE, name, kernel)
        for name in ("GeluForward", "LinearForward"):
            register_kernel(TYPE, name, "json:loads", params=[p.name for p in OPS[name].params])

    with temporary_backend(host_backend(Bare(), name="chipx", register_kernels=kernels)):
        out = run(capsys, "ops", "--missing", "chipx")[1]
    assert "  fused       1 of " in out
    assert "composed by core from other ops: LinearGeluForward\n" in out


def test_asking_starts_no_device(capsys: Capture) -> None:
    """[contract 3.2]"""
    runtime = HostRuntime()
    with temporary_backend(host_backend(runtime, name="chipx")):
        run(capsys, "ops", "--missing", "chipx")
        run(capsys, "ops", "--backend", "chipx")
    assert runtime.log == []


def test_a_provider_that_is_not_installed(tmp_path: Path) -> None:
    """[contract 2.8]"""
    (tmp_path / "chipx_provider.py").write_text(PROVIDER)
    module = ("--backend_module", "chipx_provider")
    assert command("ops", "--missing", "chipx", *module, folder=tmp_path)[0] == 0
    status, _, err = command("ops", "--missing", "chipy", *module, folder=tmp_path)
    assert status == 2
    assert "unknown device 'chipy'. Did you mean chipx?" in err
    status, _, err = command(
        "ops", "--missing", "chipx", "--backend_module", "chipx_provider:broken", folder=tmp_path
    )
    assert status == 3
    assert "contract=None must be the version" in err
    status, _, err = command(
        "ops", "--missing", "chipx", "--backend_module", "chipx_provide", folder=tmp_path
    )
    assert status == 3
    assert "No module named 'chipx_provide'" in err


def test_an_installed_provider_that_does_not_load(tmp_path: Path) -> None:
    """[contract 2.8]"""
    info = tmp_path / "chipx-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chipx\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[infinitrain.backends]\nchipx = chipx_broken:register\n")
    (tmp_path / "chipx_broken.py").write_text("import libvendor_that_is_not_there\n")
    status, _, err = command("ops", "--missing", "chipx", folder=tmp_path)
    assert status == 3
    assert "chipx 1.2" in err
    assert "libvendor_that_is_not_there" in err
    (tmp_path / "chipx_broken.py").write_text(PROVIDER + "register = register_backend\n")
    status, out, _ = command("ops", "--missing", "chipx", folder=tmp_path)
    assert status == 0
    assert out.startswith("backend chipx (chipx 1.2), contract 1.0\n")


# Mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "give a command: ops or new-backend"),
        (["opps"], "unknown command 'opps'. Did you mean ops?"),
        (["zzz"], "unknown command 'zzz'. See infinitrain --help"),
        (["--version", "--verison"], None),
        (["--verison"], "unknown flag --verison. Did you mean --version?"),
        (
            ["ops", "--op", "linearforward"],
            "no op 'linearforward'; `infinitrain ops` lists all. Did you mean Linear",
        ),
        (["ops", "--op", "LayerNrmForward"], "Did you mean LayerNormForward"),
        (["ops", "--op", "softmax"], "SoftmaxForward"),
        (["ops", "--op"], "argument --op: expected one argument"),
        (["ops", "--op", ""], "no op ''; `infinitrain ops` lists all"),
        (["ops", "--profile", "trainig"], "Did you mean training?"),
        (["ops", "--backend-module", "x"], "unknown flag --backend-module. Did you mean --backend_module"),
        (["ops", "--prof", "base"], "unknown flag --prof"),
        (["ops", "LinearForward"], "unrecognized arguments: LinearForward"),
        (["ops", "--json", "--markdown"], "not allowed with argument --json"),
        (["ops", "--op", "Cast", "--missing", "cpu"], "not allowed with argument --op"),
        (["ops", "--op", "Cast", "--profile", "base"], "--op shows one op"),
        (["ops", "--missing", "cpu", "--backend", "cpu"], "--missing is about one backend"),
        (["ops", "--missing", "no such"], "unknown device 'no such'"),
        (["ops", "--backend", "cpu:1"], "[contract 1.2]"),
    ],
)
def test_mistakes_are_told_in_a_line(argv: list[str], said: str | None, capsys: Capture) -> None:
    with temporary_backend():
        status, out, err = run(capsys, *argv)
    if said is None:
        assert (status, out) == (0, f"{__version__}\n")
        return
    assert status == 2
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1


def test_help_shows_examples(capsys: Capture) -> None:
    for argv in (["-h"], ["ops", "-h"], ["new-backend", "--help"]):
        status, out, _ = run(capsys, *argv)
        assert status == 0
        assert "examples:\n  infinitrain " in out
        assert "exit status" in out


def test_a_device_without_backend(capsys: Capture) -> None:
    status, _, err = run(capsys, "ops", "--missing", "cuda")
    assert status == 3
    assert "device 'cuda' has no backend" in err


# The process -----------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    error_output = tmp_path / "stderr"
    shell = (
        f'"{sys.executable}" -m infinitrain ops --json 2>{error_output}; echo "status $?" >> {error_output}'
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.read(2)
        process.stdout.close()
        process.wait(60)
    assert error_output.read_text() == "status 0\n"


def test_a_terminal_without_unicode() -> None:
    status, out, _ = command("ops", "--op", "LinearForward", PYTHONIOENCODING="ascii")
    assert status == 0
    assert "y = x weight? + bias" in out


def test_without_docstrings() -> None:
    """`python -OO` has no documentation of ops; the rest is there."""
    code = "from infinitrain.cli import main; raise SystemExit(main(['ops', '--op', 'Fill']))"
    done = subprocess.run(
        [sys.executable, "-OO", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Fill(x!: Tensor, value: Scalar)" in done.stdout


def test_the_command_imports_nothing_heavy() -> None:
    code = """
import sys
from infinitrain.cli import main
before = set(sys.modules)
assert main(["ops", "--profile", "base"]) == 0
heavy = ("importlib.metadata", "asyncio", "multiprocessing", "subprocess", "unittest", "pytest", "matplotlib")
print([m for m in heavy if m in sys.modules])
"""
    assert run_python(code).splitlines()[-1] == "[]"
