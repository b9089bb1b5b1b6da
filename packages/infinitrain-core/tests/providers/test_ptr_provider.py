"""GPT-2 trains on a provider that has pointers and C functions only, as it does on the CPU."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from infinitrain.testing import run_python

HERE = Path(__file__).parent

TRAIN = """
import json, random
import infinitrain
import ptr_provider
from infinitrain import nn, optim

ptr_provider.register_backend()
ptr_provider.register_backend()  # again: nothing happens


def train(device):
    config = nn.TransformerConfig(block_size=16, vocab_size=40, n_layer=2, n_head=4, n_embd=32)
    model = nn.TransformerModel(config, seed=1, device=device)
    optimizer = optim.AdamW(optim.decay_groups(model.named_parameters(), 0.1), lr=1e-2)
    loss_fn = nn.CrossEntropyLoss()
    losses, norms = [], []
    for _ in range(5):
        data = random.Random(0)
        model.zero_grad()
        for _ in range(2):  # the second adds to the first one's gradients
            rows = [[data.randrange(40) for _ in range(17)] for _ in range(4)]
            tokens = infinitrain.tensor([row[:-1] for row in rows], device=device)
            target = infinitrain.tensor([row[1:] for row in rows], device=device)
            loss = loss_fn(model(tokens), target)
            loss.backward()
            losses.append(loss.item())
        norms.append(optim.clip_grad_norm(model.parameters(), 1.0))
        optimizer.step()
    parameters = {name: p.to("cpu").flatten().tolist() for name, p in model.named_parameters()}
    return {"losses": losses, "norms": norms, "parameters": parameters}


print(json.dumps([train("cpu"), train("ptr")]))
"""

REFUSALS = """
import infinitrain
import ptr_provider
from infinitrain import errors, ops

ptr_provider.register_backend()


def tensor(data, dtype=None):
    return infinitrain.tensor(data, dtype=dtype, device="ptr")


def refused(error, text, function):
    try:
        function()
    except error as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"no {error.__name__}")


rows = tensor([[1.0, 2.0], [3.0, 4.0]])
refused(IndexError, "EmbeddingForward", lambda: ops.embedding(tensor([2]), rows))
refused(IndexError, "CrossEntropyForward", lambda: ops.cross_entropy(rows, tensor([0, -1])))
refused(errors.UnsupportedDtypeError, "float64", lambda: tensor([1.0], "float64") + tensor([1.0], "float64"))
refused(errors.UnsupportedDtypeError, "int64", lambda: tensor([1]) + tensor([1]))
refused(errors.UnsupportedDtypeError, "int32", lambda: ops.embedding(tensor([1], "int32"), rows))
refused(errors.UnsupportedShapeError, "(2, 1)", lambda: rows + tensor([[1.0], [2.0]]))
refused(errors.KernelNotFoundError, "MulForward", lambda: rows * rows)
refused(errors.NoSuchDeviceError, "ptr:1", lambda: infinitrain.zeros(1, device="ptr:1"))
print(rows + tensor([10.0, 20.0]))
"""

MISSING = """
import infinitrain
import ptr_provider
from infinitrain.errors import BackendInitError

ptr_provider.register_backend()
print(infinitrain.Device.parse("ptr:0"))  # starts nothing
try:
    infinitrain.zeros(1, device="ptr")
except BackendInitError as e:
    print(repr(e.__cause__), e)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Path of the compiled ptr_kernels.c."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "no C compiler: neither cc nor gcc is on PATH; this test needs one"
    path = tmp_path_factory.mktemp("ptr") / "libptr.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(path), str(HERE / "ptr_kernels.c"), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(path)


def test_provider_is_short():
    assert len((HERE / "ptr_provider.py").read_text().splitlines()) < 150


def test_gpt2_trains_as_on_cpu(library):
    output = run_python(TRAIN, str(HERE), INFINITRAIN_PTR_LIBRARY=library)
    cpu, ptr = json.loads(output.splitlines()[-1])
    assert ptr["losses"] == pytest.approx(cpu["losses"], rel=0, abs=1e-5)
    assert ptr["norms"] == pytest.approx(cpu["norms"], rel=1e-4)
    assert ptr["losses"][-1] < ptr["losses"][0] - 0.3
    assert ptr["parameters"].keys() == cpu["parameters"].keys()
    # Loose, because the keys' biases have gradients of rounding errors only, which Adam scales up.
    for name, values in cpu["parameters"].items():
        assert ptr["parameters"][name] == pytest.approx(values, rel=0, abs=1e-3), name


def test_refusals(library):
    assert "[11., 22.]" in run_python(REFUSALS, str(HERE), INFINITRAIN_PTR_LIBRARY=library)


def test_library_missing(tmp_path):
    missing = str(tmp_path / "missing.so")
    output = run_python(MISSING, str(HERE), INFINITRAIN_PTR_LIBRARY=missing)
    assert output.startswith("ptr:0\n")
    assert "OSError" in output
    assert missing in output
