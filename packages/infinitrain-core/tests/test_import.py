"""`import infinitrain` is light: laziness is a property of the design [contract 3.2]."""

from infinitrain.testing import run_python

HEAVY = [
    "numba",
    "cupy",
    "torch",
    "tokenizers",
    "transformers",
    "safetensors",
    "matplotlib",
    "rich",
    "tyro",
    "tensorboardX",
    "mpi4py",
    "scipy",
    "multiprocessing",
    "subprocess",
    "importlib.metadata",
    "concurrent.futures",
    "asyncio",
    "unittest",
    "numpy.testing",
]


def test_import_loads_nothing_heavy() -> None:
    """Measured besides: benchmarks/bench_import_time.py."""
    code = f"""
import numpy, ml_dtypes, sys
before = set(sys.modules)
import infinitrain
loaded = set(sys.modules) - before
print([m for m in {HEAVY} if m in loaded])
"""
    assert run_python(code).strip() == "[]"


def test_import_starts_no_backend() -> None:
    """[contract 3.2]"""
    code = """
import infinitrain
from infinitrain.backend import runtime
from infinitrain.device import Device
print(Device.parse("cpu"), repr(Device.parse("cuda:1")), runtime._ready, runtime._current.__dict__)
"""
    assert run_python(code).strip() == "cpu Device(cuda, 1) {} {}"
