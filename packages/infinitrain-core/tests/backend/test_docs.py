"""docs/contract.md and docs/ops.md agree with the code, and the providers in them work."""

import re
from pathlib import Path

import pytest

from infinitrain.backend import docs
from infinitrain.backend.guard_impl import GROUPS, DeviceGuardImpl
from infinitrain.testing import run_python

ROOT = Path(__file__).parents[4]
CONTRACT = ROOT / "docs" / "contract.md"


def block(first_line: str) -> str:
    """Return the code block of the contract that starts with a comment."""
    text = CONTRACT.read_text(encoding="utf-8")
    found = re.search(rf"```python\n# {re.escape(first_line)}\n(.*?)```", text, re.S)
    assert found is not None, first_line
    return found[1]


@pytest.fixture
def toy(tmp_path: Path) -> str:
    """Write both providers of the document as a package; return its folder."""
    package = tmp_path / "infinitrain_toy"
    package.mkdir()
    (package / "__init__.py").write_text(block("infinitrain_toy/__init__.py"))
    (package / "arrays.py").write_text(block("infinitrain_toy/arrays.py"))
    return str(tmp_path)


def test_tables_are_fresh() -> None:
    """When this fails: python -m infinitrain.backend.docs docs"""
    assert docs.stale(ROOT / "docs") == []


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
