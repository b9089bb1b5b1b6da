import os
from importlib import import_module

import pytest

import infinitrain as it

if os.environ.get("INFINITRAIN_NUMBA") == "0":  # the run without the fast kernels, which these are about
    collect_ignore_glob = ["test_fast*.py", "test_threads.py", "test_code_cache.py"]


@pytest.fixture(params=[1, 2, 3])
def nt(request):
    """A number of threads, set for the time of the test."""
    before = it.get_num_threads()
    it.set_num_threads(request.param)
    yield request.param
    it.set_num_threads(before)


@pytest.fixture
def fast(nt, monkeypatch):
    """A function that imports a file of fast kernels, which then split any work into ``nt`` parts."""

    def load(name):
        module = import_module(f"infinitrain.cpu.fast.{name}")
        monkeypatch.setattr(module, "GRAIN", 0)
        return module

    return load
