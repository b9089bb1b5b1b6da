"""Wrong arguments for every function of infinitrain.ops, methods of tensors and functions that make tensors.

Each argument of a valid call in turn is replaced by things of all kinds. The call either works, as numbers and tensors
may stand for each other in many places, or is refused by an error that names the function and is no library's.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import InfiniTrainError, KernelError

REFUSALS = (InfiniTrainError, TypeError, ValueError, IndexError)


def _f(*shape: int) -> Any:
    return it.from_numpy(np.linspace(0.1, 0.9, math.prod(shape), dtype=np.float32).reshape(shape))


def _i(data: Any) -> Any:
    return it.tensor(data, dtype="int64")


X, ROW = _f(2, 3), _f(3)
UNARY = "abs cos erf exp isfinite isnan log logical_not neg reciprocal relu rsqrt sigmoid silu sin sqrt tanh clone"
BINARY = "add sub mul div pow maximum minimum equals not_equals lt le gt ge logical_and logical_or"
REDUCE = "argmax argmin sum mean max min norm var std"
CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(UNARY.split(), (X,)),
    **dict.fromkeys(BINARY.split(), (X, ROW)),
    **dict.fromkeys(REDUCE.split(), (X, 1, False)),
    "AccumulateGrad": (X, 1.0, _f(2, 3)),
    "Fill": (X, 1.0),
    "add_layer_norm": (X, _f(2, 3), ROW, _f(3), 1e-5),
    "add_rms_norm": (X, _f(2, 3), ROW, 1e-5),
    "attention": (_f(1, 2, 6), 1, 1),
    "broadcast_to": (X, (4, 2, 3)),
    "cast": (X, it.float64),
    "clamp": (X, 0.0, 1.0),
    "concat": ([X, X], 0),
    "cross_entropy": (X, _i([0, 1]), -100),
    "cumsum": (X, 1),
    "dropout": (X, 0.5, "a"),
    "embedding": (_i([0, 1]), X),
    "expand": (X, (4, 2, 3)),
    "flatten": (X, 0, 1),
    "from_numpy": (np.ones(3), "cpu"),
    "gather": (X, 1, _i([[0], [1]])),
    "gelu": (X, "tanh"),
    "getitem": (X, (0, 1)),
    "index_select": (X, 1, _i([0, 1])),
    "layer_norm": (X, ROW, _f(3), 1e-5),
    "linear": (X, _f(4, 3), _f(4)),
    "linear_cross_entropy": (X, _f(4, 3), _i([0, 1]), -100),
    "linear_gelu": (X, _f(4, 3), _f(4), "tanh"),
    "log_softmax": (X, 1),
    "masked_fill": (X, it.tensor([True, False, True]), 1.0),
    "matmul": (X, _f(3, 2)),
    "one_hot": (_i([0, 1]), 3, "int64"),
    "outer": (_f(2), ROW),
    "permute": (X, (1, 0)),
    "repeat_interleave": (X, 2, 1),
    "rms_norm": (X, ROW, 1e-5),
    "rope": (_f(1, 2, 4), _f(3, 2), _f(3, 2), 1, 1),
    "rope_table": (4, 3, 10000.0),
    "scatter": (_f(2, 1), 1, _i([[0], [1]]), (2, 3)),
    "scatter_add": (X, 1, _i([[0], [1]]), _f(2, 1)),
    "setitem": (X, (0, 1), 1.0),
    "softmax": (X, 1),
    "split": (X, 1, 1),
    "squeeze": (_f(2, 1, 3), 1),
    "stack": ([X, X], 0),
    "swiglu": (_f(2, 4),),
    "to_device": (X, it.Device.parse("cpu")),
    "topk": (X, 2, 1, True),
    "transpose": (X, 0, 1),
    "tril": (X, 0),
    "triu": (X, 0),
    "unsqueeze": (X, 1),
    "view": (X, (3, 2)),
    "where": (it.tensor([True, False, True]), X, ROW),
}
METHODS: dict[str, tuple[Any, ...]] = {
    "add_": (X, 1.0),
    "astype": ("float64",),
    "backward": (X,),
    "copy_": (X,),
    "fill_": (1.0,),
    "new_full": ((2,), 1.0),
    "reshape": (3, 2),
    "to": ("cpu",),
    "view": ((3, 2),),
}
MAKERS: dict[str, tuple[Any, ...]] = {
    "arange": (0, 5, 1),
    "empty": (2, 3),
    "from_dlpack": (np.ones(3),),
    "full": ((2,), 1.0),
    "ones": ((2,),),
    "tensor": ([1.0], "float32", "cpu"),
    "zeros": (2, 3),
}
# How a function calls itself where that is not its name.
NAMES = {
    "add_": "add_|AccumulateGrad",
    "astype": "dtype",
    "broadcast_to": "broadcast_to|Expand",
    "cast": "Cast|cast",
    "copy_": "copy_|from_numpy",
    "div": "div|Div",
    "expand": "broadcast_to|Expand",
    "masked_fill": "masked_fill|Mask",
    "outer": "outer|Matmul",
    "equals": "==|Equals",
    "from_numpy": "from_numpy|device",
    "ge": ">=|Ge",
    "getitem": "getitem|index|ind",
    "gt": ">|Gt",
    "le": "<=|Le",
    "logical_and": "&|And",
    "logical_not": "Not",
    "logical_or": "[|]|Or",
    "lt": "<|Lt",
    "not_equals": "!=|NotEquals",
    "one_hot": "one_hot|OneHot|dtype",
    "setitem": r"setitem|ind|Slice|x\[",
    "tensor": "tensor|dtype|device",
    "reshape": "view|NoOp",
    "to": "device|dtype",
    "view": "view|NoOp",
    "where": "where|Mask",
}
WRONG: dict[str, Any] = {
    "a str": "x",
    "None": None,
    "a list": [1.5],
    "an array": np.ones((2, 3)),
    "a dict": {},
    "an object": object(),
    "NaN": math.nan,
    "infinity": math.inf,
    "2**70": 2**70,
    "-7": -7,
    "-2**63 - 1": -(2**63) - 1,
    "1.5": 1.5,
    "True": True,
    "bytes": b"x",
    "1j": 1j,
    "complex64": np.complex64(1),
    "a slice": slice(None),
    "a set": {1},
    "a generator": (i for i in [1]),
    "()": (),
    "[0]": [0],
    "('x',)": ("x",),
    "a large shape": (2**62, 2**62),
    "(-1, 3)": (-1, 3),
    "(-2, -3)": (-2, -3),
    "(None,)": (None,),
    "(0, 0)": (0, 0),
    "(1.5,)": (1.5,),
    "9 axes": (1,) * 9,
    "int64(1)": np.int64(1),
    "float64(1)": np.float64(1),
    "a 0-d array": np.array(1),
    "a 0-d tensor": it.tensor(1.0),
    "integers": _i([[0, 5, 7]]),
    "negative integers": _i([-1, 0]),
    "bools": it.tensor([[True]]),
    "float64": it.tensor(np.ones((2, 3))),
    "uint64": it.tensor(np.ones((2, 3), np.uint64)),
    "an empty tensor": it.ones(0, 3),
    "4 axes": it.ones(2, 3, 4, 5),
}


def test_every_function_is_here() -> None:
    others = {"OPS", "is_grad_enabled", "no_grad"}
    assert set(ops.__all__) - others == set(CALLS)


def _copied(value: Any, recorded: bool = False) -> Any:
    if not isinstance(value, it.Tensor):
        return value
    copy = value.clone()
    copy.requires_grad = recorded and copy.dtype.is_floating
    return copy


def _problem(name: str, call: Callable[..., Any], args: list[Any]) -> str | None:
    try:
        call(*args)
    except KernelError as error:
        return f"the kernel is blamed: {error}"
    except REFUSALS as error:
        if not _raised_here(error):
            return f"a library's {type(error).__name__}: {error}"
        # Errors from below the function name the op: AddLayerNorm for add_layer_norm.
        names = f"{name}|{name.replace('_', '')}|{NAMES.get(name, name)}"
        if not re.search(names, str(error), re.IGNORECASE):
            return f"no name of the function: {error}"
        return None
    except Exception as error:  # what a library raises of itself
        return f"{type(error).__name__}: {error}"
    return None


def _raised_here(error: BaseException) -> bool:
    """Tell whether a ``raise`` of infinitrain's own raised the error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    assert at is not None
    module = sys.modules.get(at.tb_frame.f_globals.get("__name__", ""))
    if isinstance(error, InfiniTrainError):
        return True
    if module is None or not module.__name__.startswith("infinitrain"):
        return False
    with open(module.__file__ or "") as source:  # a line that does not raise failed of itself
        lines = source.read().splitlines()
    return any("raise " in line for line in lines[max(0, at.tb_lineno - 6) : at.tb_lineno + 3])


def _check(name: str, call: Callable[..., Any], valid: tuple[Any, ...], recorded: bool = False) -> None:
    call(*[_copied(a, recorded) for a in valid])
    problems = []
    for i in range(len(valid)):
        for what, wrong in WRONG.items():
            args = [_copied(wrong if j == i else a, recorded) for j, a in enumerate(valid)]
            found = _problem(name, call, args)
            problems += [] if found is None else [f"{name}, argument {i} {what}: {found}"]
    assert not problems, "\n".join(["", *problems])


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    _check(name, getattr(ops, name), CALLS[name])


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"AccumulateGrad", "Fill", "setitem"}))
def test_functions_recorded_in_autocast(name: str) -> None:
    """What is accepted is differentiated as well."""

    def call(*args: Any) -> None:
        with it.autocast("cpu", "bfloat16"):
            results = getattr(ops, name)(*args)
        for y in results if isinstance(results, tuple) else (results,):
            if isinstance(y, it.Tensor) and y.requires_grad:
                (y * y).sum().backward(retain_graph=True)

    _check(name, call, CALLS[name], recorded=True)


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    def call(*args: Any) -> Any:
        x = _f(2, 3)
        x.requires_grad = name == "backward"
        return getattr(x, name)(*args)

    _check(name, call, METHODS[name])


@pytest.mark.parametrize("name", MAKERS)
def test_makers(name: str) -> None:
    _check(name, getattr(it, name), MAKERS[name])
