"""docs/contract.md and docs/ops.md agree with the code, and the providers in them work."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infinitrain.backend import BASE_OPS, OPS, docs
from infinitrain.backend.dispatch import COMPOSITES
from infinitrain.backend.guard_impl import GROUPS, DeviceGuardImpl
from infinitrain.dtype import ALL
from infinitrain.testing import run_python

ROOT = Path(__file__).parents[4]
CONTRACT = ROOT / "docs" / "contract.md"


def block(file: str) -> str:
    """Return the code block of the contract that starts with a comment: the file's name."""
    first_line = f"/* {file} */" if file.endswith(".c") else f"# {file}"
    text = CONTRACT.read_text(encoding="utf-8")
    found = re.search(rf"```\w+\n{re.escape(first_line)}\n(.*?)```", text, re.S)
    assert found is not None, file
    return found[1]


@pytest.fixture
def toy(tmp_path: Path) -> str:
    """Write the providers of the document as a package; return its folder."""
    (tmp_path / "infinitrain_toy").mkdir()
    for name in ("__init__", "arrays", "native", "pointers"):
        file = f"infinitrain_toy/{name}.py"
        (tmp_path / file).write_text(block(file))
    return str(tmp_path)


@pytest.fixture
def library(tmp_path: Path) -> str:
    """Compile toy.c of the document; return the library's path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "no C compiler: neither cc nor gcc is on PATH; this test needs one"
    source, made = tmp_path / "toy.c", tmp_path / "libtoy.so"
    source.write_text(block("toy.c"))
    command = [compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", str(source), "-o", str(made), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(made)


def test_tables_are_fresh() -> None:
    """When this fails: python -m infinitrain.backend.docs docs"""
    assert docs.stale(docs.pages(ROOT / "docs")) == []


def test_a_changed_table_is_stale(tmp_path: Path) -> None:
    (tmp_path / "contract.md").write_text(CONTRACT.read_text(encoding="utf-8").replace("`malloc(", "`alloc("))
    (tmp_path / "ops.md").write_text("old")
    assert docs.main([str(tmp_path), "--check"]) == 1
    assert docs.main([str(tmp_path)]) == 0
    assert docs.main([str(tmp_path), "--check"]) == 0


def test_documents_are_found_or_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main([str(tmp_path)]) == 2
    assert docs.main([]) == 2
    assert "contract.md" in capsys.readouterr().err


def test_every_method_is_in_one_group() -> None:
    """[contract 3.1]"""
    listed = [name for names in GROUPS.values() for name in names]
    helpers = {"has_streams", "has_arrays", "host_visible"}
    public = {n for n in vars(DeviceGuardImpl) if not n.startswith("_")} - helpers
    assert sorted(listed) == sorted(public)


def test_every_clause_is_documented() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    counts = {1: 8, 2: 10, 3: 11, 4: 10, 5: 3, 6: 7, 8: 3, 9: 2}
    clauses = [f"{c}.{n}" for c, last in counts.items() for n in range(1, last + 1)]
    assert [c for c in clauses if f"\n{c} " not in text] == []


def test_minimal_provider_is_short() -> None:
    assert len(block("infinitrain_toy/__init__.py").splitlines()) < 60


def test_minimal_provider_works(toy: str) -> None:
    code = """
import infinitrain as it
from infinitrain.backend import load_backend_module, check_kernels
from infinitrain.device import DeviceType
load_backend_module("infinitrain_toy")
load_backend_module("infinitrain_toy")  # idempotent
assert check_kernels(DeviceType.PRIVATEUSE1) == []
x = it.tensor([[1.5, -2.5, 3.0], [4.0, 0.25, -1.0]], device="toy:1")
assert str(x.device) == "toy:1" and x.device == it.device.Device(DeviceType.PRIVATEUSE1, 1)
assert x.view(3, 2).tolist() == [[1.5, -2.5], [3.0, 4.0], [0.25, -1.0]]
assert x.astype("int32").tolist() == [[1, -2, 3], [4, 0, -1]]
assert x.to("toy:0").tolist() == x.cpu().tolist() == x.clone().tolist()
assert it.zeros(0, 3, device="toy").shape == (0, 3)
assert all(it.zeros(n, device="toy").ptr % 64 == 0 for n in [0] * 20 + [1, 100])
print(it.full((2,), 7.0, device="toy"))
"""
    assert run_python(code, toy).strip() == "tensor([7., 7.], device='toy:0')"


def test_array_provider_works(toy: str) -> None:
    code = """
import numpy as np, infinitrain as it
from infinitrain.backend import OPS, load_backend_module, check_kernels
from infinitrain.device import DeviceType
load_backend_module("infinitrain_toy.arrays")
assert check_kernels(DeviceType.PRIVATEUSE1) == []
rng = np.random.default_rng(5)
x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 3), (2, 3), (2,)))
on = lambda a, **o: it.from_numpy(a, "toy:1", **o)
y = OPS["LinearForward"].call(on(x), on(w), on(b))
np.testing.assert_allclose(y.numpy(), x @ w.T + b, rtol=1e-5)
y = OPS["LinearForward"].call(on(x), on(w), None)
np.testing.assert_allclose(y.numpy(), x @ w.T, rtol=1e-5)
half = OPS["LinearForward"].call(on(x).astype("bfloat16"), on(w).astype("bfloat16"), None)
np.testing.assert_allclose(half.numpy().astype(np.float32), x @ w.T, rtol=0.05, atol=0.05)
sums = OPS["AddForward"].call(on(x), on(b[:1]))
np.testing.assert_allclose(sums.numpy(), x + b[0], rtol=1e-6)
print("ok")
"""
    assert run_python(code, toy).strip() == "ok"


def test_pointer_provider_works(toy: str, library: str) -> None:
    code = """
import numpy as np, infinitrain as it
from infinitrain.backend import OPS, load_backend_module, check_kernels
from infinitrain.device import DeviceType
from infinitrain.errors import UnsupportedDtypeError, UnsupportedShapeError
load_backend_module("infinitrain_toy.pointers")
assert check_kernels(DeviceType.PRIVATEUSE1) == []
rng = np.random.default_rng(7)
x, grad, held = (rng.standard_normal(s).astype(np.float32) for s in ((2, 5, 3), (2, 5, 4), (4, 3)))
on = lambda a: it.from_numpy(a, "toy:1")
np.testing.assert_allclose(OPS["TanhForward"].call(on(x)).numpy(), np.tanh(x.astype(np.float64)), rtol=1e-6)
want = grad.reshape(10, 4).astype(np.float64).T @ x.reshape(10, 3)
op, out = OPS["LinearBackwardWeight"], on(held)
np.testing.assert_allclose(op.call(on(x), on(grad)).numpy(), want, rtol=1e-5, atol=1e-6)
op.call(on(x), on(grad), out=out, accumulate=True)
np.testing.assert_allclose(out.numpy(), held + want, rtol=1e-5, atol=1e-6)
op.call(on(x), on(grad), out=out)
np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-6)
try:
    op.call(on(np.ones((1, 70_000), np.float32)), on(np.ones((1, 1), np.float32)))
except UnsupportedShapeError as error:
    assert error.op == "LinearBackwardWeight" and str(error.device) == "toy:1", (error.op, error.device)
else:
    raise AssertionError("no UnsupportedShapeError")
try:
    OPS["TanhForward"].call(on(x.astype(np.float64)))
except UnsupportedDtypeError as error:
    assert "float64" in str(error)
else:
    raise AssertionError("no UnsupportedDtypeError")
print("ok")
"""
    assert run_python(code, toy, INFINITRAIN_TOY_LIBRARY=library).strip() == "ok"


def test_a_missing_library_is_told_at_first_use(toy: str) -> None:
    code = """
import infinitrain as it
from infinitrain.backend import load_backend_module, set_backend_options
from infinitrain.errors import MissingLibraryError
load_backend_module("infinitrain_toy.pointers")
set_backend_options({"library": "/nowhere/libtoy.so"})
try:
    it.zeros(1, device="toy")
except MissingLibraryError as error:
    print(error.library, error.provider)
"""
    assert run_python(code, toy).strip() == "/nowhere/libtoy.so toy"


def test_adopted_memory_is_the_arrays_own(toy: str) -> None:
    """[contract 3.9]"""
    code = """
import gc, weakref
import numpy as np, infinitrain as it
from infinitrain.backend import get_device_guard_impl, load_backend_module, set_current_device
from infinitrain.device import Device, DeviceType
load_backend_module("infinitrain_toy.arrays")
runtime, device = get_device_guard_impl(DeviceType.PRIVATEUSE1), Device(DeviceType.PRIVATEUSE1, 1)
set_current_device(device)
for lead in (0, 3, 16):
    whole = np.arange(40, dtype=np.float32)
    array = whole[lead:]
    buffer, offset = runtime.adopt(array)
    assert buffer.ptr % 64 == 0 and buffer.ptr + offset == array.ctypes.data
    assert buffer.nbytes >= offset + array.nbytes and buffer.device is device
    view = runtime.native_array(buffer, offset + 4, (3,), it.float32)
    view[...] = -1.0
    assert whole[lead + 1 : lead + 4].tolist() == [-1.0] * 3 and whole[lead] == lead
    dropped = weakref.ref(whole)
    del whole, array, buffer
    gc.collect()
    assert dropped() is not None and view.tolist() == [-1.0] * 3
    del view
    gc.collect()
    assert dropped() is None
print("ok")
"""
    assert run_python(code, toy).strip() == "ok"


def first_ops() -> dict[str, set[str]]:
    """Return the table "What to write first": purpose -> ops."""
    text = CONTRACT.read_text(encoding="utf-8").partition("## What to write first")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", text, re.M)[1:]
    return {purpose: {n for n in re.findall(r"`(\w+)`", ops) if n in OPS} for purpose, ops in rows}


def test_the_ops_to_write_first_are_those_that_training_calls() -> None:
    code = """
import os
import infinitrain as it
from infinitrain import nn, optim
from infinitrain.backend import OPS, dispatch

seen, real = set(), dispatch.find_kernel
dispatch.find_kernel = lambda row, *rest: (seen.add(row.name), real(row, *rest))[1]
config = nn.TransformerConfig(block_size=8, vocab_size=11, n_layer=1, n_head=2, n_embd=8)
model, tokens = nn.TransformerModel(config, seed=1), it.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
optimizer = optim.AdamW(model.named_parameters(), lr=0.01)
for _ in range(2):
    nn.CrossEntropyLoss()(model(tokens), tokens).backward()
optim.clip_grad_norm(model.parameters(), 0.01)
optimizer.step()
print(*seen)
os.environ["INFINITRAIN_KERNELS"] = "composite"
seen.clear()
qkv = it.ones(2, 130, 8)  # in blocks of queries
y, lse = OPS["AttentionForward"].call(qkv, 2, 1, True)
OPS["AttentionBackward"].call(qkv, y, lse, y, 2, 1, True)
print(*seen)
"""
    called, composite = (set(line.split()) for line in run_python(code).splitlines())
    base, gpt2, fused, parts = first_ops().values()
    assert base == set(BASE_OPS)
    assert fused == {op for op in called if op in COMPOSITES} - gpt2
    training = (called - fused).union(*(COMPOSITES[op].calls for op in fused))
    assert (
        gpt2 - {"AccumulateGrad"} == training - base
    )  # the CPU's kernels add to every destination themselves
    assert parts == composite - base - gpt2


def test_the_dtypes_are_listed() -> None:
    listed = re.search(r"The 13 dtypes.*?\n\n", CONTRACT.read_text(encoding="utf-8"), re.S)
    assert listed is not None
    assert {d.name for d in ALL} <= set(re.findall(r"\w+", listed[0]))
