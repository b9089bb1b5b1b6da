"""Every test of the ops runs twice: on the CPU's kernels, and on array kernels over array_api_strict.

array_api_strict refuses what the standard leaves open: the second run shows what other libraries may lack.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest

from infinitrain.backend.dispatch import clear_plans
from infinitrain.backend.optable import OPS
from infinitrain.dtype import HALF, DType
from infinitrain.kernels.namespace import Namespace
from infinitrain.kernels.registry import ARRAY_KERNELS, ArrayFunction, load_families

sys.path.insert(0, str(Path(__file__).parent))  # for op_samples, which several tests draw from

_STRICT = {np.dtype(t) for t in ("bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")}


def _strictly(function: ArrayFunction, strict: Namespace) -> ArrayFunction:
    """Return the kernel over array_api_strict; arrays that it has no dtype for (half floats) stay NumPy's."""

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return array_api_strict.asarray(value, copy=True)
        return tuple(convert(v) for v in value) if isinstance(value, tuple) else value

    def arrays(value: Any) -> list[np.ndarray]:
        if isinstance(value, np.ndarray):
            return [value]
        return [a for v in value for a in arrays(v)] if isinstance(value, tuple) else []

    def back(result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple(back(r) for r in result)
        assert isinstance(result, type(array_api_strict.asarray(0))), (
            f"not made by the library: {type(result)}"
        )
        return np.array(np.from_dlpack(result))

    def fn(xp: Namespace, *args: Any) -> Any:
        if not {a.dtype for a in arrays(args)} <= _STRICT or any(
            a in HALF for a in args if isinstance(a, DType)
        ):
            return function.fn(xp, *args)
        return back(function.fn(strict, *convert(args)))

    return ArrayFunction(fn, function.exact, function.needs)


@pytest.fixture(params=["cpu", "array_api_strict"], autouse=True, scope="module")
def library(request: pytest.FixtureRequest) -> Iterator[str]:
    clear_plans()
    monkeypatch = pytest.MonkeyPatch()
    if request.param == "array_api_strict":
        array_api_strict.set_array_api_strict_flags(api_version="2024.12")
        monkeypatch.setenv("INFINITRAIN_KERNELS", "array")
        strict = Namespace(array_api_strict)
        for name, function in load_families().items():
            if OPS[name].results:
                monkeypatch.setitem(ARRAY_KERNELS, name, _strictly(function, strict))
    yield request.param
    monkeypatch.undo()
    array_api_strict.reset_array_api_strict_flags()
    clear_plans()


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(sum(request.node.originalname.encode()))


@pytest.fixture(params=["kernels", "composites"], scope="module")
def layer(request: pytest.FixtureRequest, library: str) -> Iterator[str]:
    """For fused ops, by ``pytest.mark.usefixtures("layer")``: once more as their composites [contract 4.3]."""
    if request.param == "kernels":
        yield request.param
        return
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("INFINITRAIN_KERNELS", "composite")
        clear_plans()
        yield request.param
    clear_plans()
