"""Wrong arguments for every row of the op table: each is refused by an error that names op, argument and value.

Valid calls are made once, from the samples and their gradients; what the dispatcher then remembers of them (specs and
attributes) is the pattern of a valid call of every row, gradients included. Each argument in turn is replaced.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLERS, Draw

import infinitrain as it
from infinitrain.backend.dispatch import clear_plans
from infinitrain.backend.optable import DTYPES, OPS, Op, Param
from infinitrain.backend.spec import TensorSpec
from infinitrain.dtype import ALL
from infinitrain.errors import InfiniTrainError, KernelError
from infinitrain.testing import host_backend, temporary_backend

REFUSALS = (InfiniTrainError, TypeError, ValueError, IndexError)
NUMPY = re.compile("numpy|ufunc|broadcast together|operand [0-9]|truth value|out of bounds", re.IGNORECASE)

# What is no tensor, no number, ... by the kind of parameter that it is wrong for.
NO_TENSOR = ["x", 1.0, [1.0], {}, object(), np.ones((2, 3)), np.float64(1.0), (), slice(None)]
NO_NUMBER = ["x", None, [1.0], {}, np.ones(2), 1j, (), slice(None), np.int64(1), b"1"]
NO_LIST = ["x", None, {}, 1.0, np.ones(2), it.ones(2, 3), (None,), ("x",), [it.ones(2), None], ()]
NO_ATTRIBUTE: dict[str, list[Any]] = {
    "int": ["x", None, 1.0, True, np.int64(1), [1], (1,), 2**63, -(2**63) - 1, math.nan],
    "float": ["x", None, True, [1.0], 1j, math.nan, -0.5, 1.5, math.inf],
    "bool": ["x", None, 1, 0.0, np.True_, [True], 2**70],
    "str": [None, 1, "", b"mean", "mea"],
    "tuple": ["x", None, 1, [0], ("x",), (None,), (1.0,), (True,), (2**63,), (np.int64(0),), (2**40,) * 9],
    "DType": ["float32", None, np.dtype("f4"), np.float32, float],
}
# Without momenta SGD is plain gradient descent.
ALLOWED = [("SGD", "momenta", "()")]


# Patterns of valid calls ---------------------------------------------------------------------------------------------


def _run_samples() -> None:
    """Run every row that has samples, and the gradients of those that have any, on shapes without empty axes."""
    for name, sampler in SAMPLERS.items():
        for seed in range(12):
            sample = sampler(Draw(seed, empty=False))
            args = [
                tuple(it.from_numpy(t) for t in a)
                if isinstance(a, list)
                else it.from_numpy(a)
                if isinstance(a, np.ndarray)
                else a
                for a in sample.args
            ]
            OPS[name].call(*args)


def _gradients() -> None:
    """Run the backward of every Function."""
    from infinitrain.autograd import Function

    for cls in _subclasses(Function):
        if cls.row is None or not cls.__module__.startswith("infinitrain."):
            continue
        for seed in range(12):
            sample = SAMPLERS[cls.row.name](Draw(seed, empty=False))
            args: list[Any] = [
                it.from_numpy(a, requires_grad=a.dtype == np.float64) if isinstance(a, np.ndarray) else a
                for a in sample.args
            ]
            if isinstance(args[0], list):  # of Concat, which takes tensors flat
                args = [args[1], *[it.from_numpy(t, requires_grad=True) for t in args[0]]]
            results = cls.apply(*args)
            for y in results if isinstance(results, tuple) else (results,):
                if y.requires_grad:
                    y.backward(it.from_numpy(np.ones(y.shape, y.dtype.numpy)), retain_graph=True)


def _subclasses(base: Any) -> Iterator[Any]:
    for cls in base.__subclasses__():
        yield cls
        yield from _subclasses(cls)


def _others() -> None:
    """Rows that no sample and no gradient calls."""
    logits, target = it.ones(2, 3), it.tensor([0, 2])
    it.ops.CrossEntropyBackwardInPlace(it.ones(), logits, target, it.ones(2), -100, 0.0, "mean")
    mask, valid = it.tensor([True, False]), it.tensor([True, True, False])
    it.ops.VocabParallelCrossEntropyBackward(it.ones(2), it.ones(2, 3), mask, target, valid, 3, 9, 0.1)
    it.ops.LinearBackwardBias(it.ones(2, 3, 5))


@pytest.fixture(scope="module")
def patterns(library: str) -> dict[str, tuple[Any, ...]]:
    """Return of each row the specs and attributes of the valid call with most axes."""
    clear_plans()
    _run_samples()
    _gradients()
    _others()
    found = {}
    for name, row in OPS.items():
        keys = [_arguments_of(row, key) for key in row.call.__globals__["_plans"]]  # type: ignore[attr-defined]
        found[name] = max(keys, key=_richness)
    return found


def _arguments_of(row: Op, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one entry per parameter: the key has the class of a number before its value."""
    entries = iter(key)
    return tuple((next(entries), next(entries))[1] if p.is_number else next(entries) for p in row.params)


def _richness(key: tuple[Any, ...]) -> tuple[int, ...]:
    specs = [s for k in key for s in (k if isinstance(k, tuple) else (k,)) if hasattr(s, "numel")]
    return all(s.numel for s in specs), min(s.ndim for s in specs), sum(s.numel for s in specs)


def _valid(row: Op, pattern: tuple[Any, ...]) -> list[Any]:
    """Return fresh arguments: tensors of ones, indices and masks of zeros."""

    def tensor(spec: Any) -> Any:
        return it.from_numpy(np.full(spec.shape, 0 if p.is_index else 1, spec.dtype.numpy))

    args: list[Any] = []
    for p, k in zip(row.params, pattern, strict=True):
        if p.kind == "list":
            args.append(tuple(tensor(s) for s in k))
        elif p.kind == "scalar":
            args.append(k(0.5) if k is float else 1)
        elif p.kind == "attribute" or k is None:
            args.append(k)
        else:
            args.append(tensor(k))
    return args


# What is wrong ------------------------------------------------------------------------------------------------------

# Of a parameter: a value to replace it with, how to show it, and whether the row must refuse it.
Wrong = tuple[Any, str, bool]


def _other_kinds(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    if p.kind == "attribute":
        values = NO_ATTRIBUTE[p.annotation]
    elif p.kind == "list":
        values = NO_LIST
    elif p.kind == "scalar":
        values = NO_NUMBER
    else:
        values = NO_TENSOR if p.kind == "optional" else [None, *NO_TENSOR]
    for value in values:
        yield value, f"{value!r:.50}", (row.name, p.name, repr(value)) not in ALLOWED


def _other_dtypes(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    if not isinstance(valid, it.Tensor):
        return
    first = next((q for q in row.params if q.kind == "tensor" and not q.is_index), None)
    for dtype in ALL:
        if dtype is not valid.dtype:
            refused = p.is_index or (p is first and dtype not in DTYPES[row.dtypes])
            yield valid.astype(dtype), f"a tensor of {dtype}", refused


def _other_shapes(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    if not isinstance(valid, it.Tensor):
        return
    shape = valid.shape
    longer = [(*shape[:k], n + 1, *shape[k + 1 :]) for k, n in enumerate(shape)]
    for other in [(), (0,), (*shape, 2), (2, *shape), shape[1:], *longer]:
        yield it.from_numpy(np.zeros(other, valid.dtype.numpy)), f"a tensor of shape {other}", False
    one = it.ones(1).astype(valid.dtype)
    yield one.view_as(TensorSpec.of((1,) * 9, one.dtype, one.device)), "a tensor with 9 axes", True


def _other_device(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    if isinstance(valid, it.Tensor):
        yield valid.to("testdev:1"), "a tensor on testdev:1", sum(q.kind == "tensor" for q in row.params) > 1
    elif p.kind == "list":
        yield (*valid, valid[0].to("testdev:1")), "a list on two devices", True


def _other_values(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    if p.annotation == "int" and p.name.startswith("axis"):
        values: list[Any] = [-1, 8, 2**62]
    elif p.name == "axes":
        values = [(-1,), (8,), (0, 0), (0, 8), (2**62,)]
    elif p.annotation == "tuple":
        values = [(-1, 3), (-2, -3), (2**62, 4), (2**31, 2**31, 2), (7,) * 9, (1, 2, 3, 4, 5)]
    else:
        return
    for value in values:
        yield value, repr(value), True


def _other_indices(row: Op, p: Param, valid: Any) -> Iterator[Wrong]:
    # Of these two, a class that is not this rank's, and an index that a mask hides, are no errors.
    if p.annotation != "Index" or row.name.startswith("VocabParallel"):
        return
    for value in (-1, 1000, 2**62, -(2**63)):
        array = np.zeros(valid.shape, np.int64)
        array.flat[-1] = value
        yield it.from_numpy(array), f"an index {value}", True


def _problem(row: Op, p: Param, args: list[Any], shown: str, must: bool) -> str | None:
    """Return what is wrong with how a call is refused, or accepted."""
    try:
        row.call(*args)
    except KernelError as error:
        return f"the kernel is blamed: {error}"
    except REFUSALS as error:
        text = str(error)
        stem = row.name.removesuffix("Forward").removesuffix("Backward").lower()
        if stem not in text.lower():
            return f"{text!r} does not name the op"
        if not re.search(rf"\b{p.name}\b", text):
            return f"{text!r} does not name the argument"
        if NUMPY.search(text) and "numpy" not in shown and "np." not in shown:
            return f"{text!r} is NumPy's"
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted" if must else None


@pytest.mark.parametrize("name", OPS)
def test_wrong_arguments(name: str, patterns: dict[str, Any]) -> None:
    row, problems = OPS[name], []
    ways = (_other_kinds, _other_dtypes, _other_shapes, _other_device, _other_values, _other_indices)
    with temporary_backend(host_backend()):
        for i, p in enumerate(row.params):
            for way in ways:
                for value, shown, must in way(row, p, _valid(row, patterns[name])[i]):
                    args = _valid(row, patterns[name])
                    args[i] = value
                    found = _problem(row, p, args, shown, must)
                    problems += [] if found is None else [f"{name}, {p.name} = {shown}: {found}"]
    assert not problems, "\n".join(["", *problems])


@pytest.mark.parametrize("name", OPS)
def test_a_plan_is_found_again(name: str, patterns: dict[str, Any]) -> None:
    row = OPS[name]
    plans = row.call.__globals__["_plans"]  # type: ignore[attr-defined]
    row.call(*_valid(row, patterns[name]))
    made = dict(plans)
    row.call(*_valid(row, patterns[name]))
    assert all(plans[key] is plan for key, plan in made.items())


@pytest.mark.parametrize("name", [n for n, row in OPS.items() if row.results])
def test_wrong_destinations(name: str, patterns: dict[str, Any]) -> None:
    row = OPS[name]
    args = _valid(row, patterns[name])
    results = row.call(*args)
    right = results if isinstance(results, tuple) else (results,)
    wider = it.from_numpy(np.zeros((*right[0].shape, 2), right[0].dtype.numpy))
    for first in ["x", 1.0, [right[0]], np.zeros(right[0].shape), wider]:
        with pytest.raises((KernelError, TypeError), match=f"^{name}: out "):
            row.call(*args, out=(first, *right[1:]) if len(right) > 1 else first)
    with pytest.raises(TypeError, match=f"^{name}: out has {len(right) + 1} tensors"):
        row.call(*args, out=(*right, right[0]))


def test_destinations_of_results_without_elements() -> None:
    """Those that are not given are made: a leaf's gradient lands, the other argument's is returned."""
    x, weight = it.ones(2, 0) * 1.0, it.ones(3, 0, requires_grad=True)
    x.requires_grad = True
    hidden = x * 2.0
    it.ops.linear_cross_entropy(hidden, weight, it.tensor([0, 2])).backward()
    assert weight.grad.shape == (3, 0)
    assert x.grad.shape == (2, 0)


def check(call: Callable[[], Any]) -> str:
    with pytest.raises(REFUSALS) as refused:
        call()
    return str(refused.value)


def test_equal_attributes_of_other_types_do_not_meet_a_cached_plan() -> None:
    x = it.ones(2, 3)
    it.ops.IndexSelectForward(x, it.tensor([0]), 1)
    for wrong in (True, 1.0, np.float64(1.0)):
        assert "IndexSelectForward: axis is an int" in check(
            lambda wrong=wrong: it.ops.IndexSelectForward(x, it.tensor([0]), wrong)
        )


def test_rows_of_a_tensor_are_no_list() -> None:
    it.ops.GlobalNorm([it.ones(3), it.ones(3)])
    assert "GlobalNorm: tensors is a list or tuple" in check(lambda: it.ops.GlobalNorm(it.ones(2, 3)))
