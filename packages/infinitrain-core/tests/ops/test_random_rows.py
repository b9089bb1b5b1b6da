"""Random cases of every row, fixed seeds: 0-d, empty, size-1 axes, odd sizes, broadcasting both ways, offset views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLERS, Draw, Sample

import infinitrain as it
from infinitrain.autograd import Function
from infinitrain.backend.dispatch import COMPOSITES, clear_plans
from infinitrain.backend.optable import OPS
from infinitrain.backend.spec import TensorSpec
from infinitrain.gradcheck import GradcheckError

# How far a result may be from NumPy's, in the epsilons of its dtype, relative to the largest element.
ALLOWED = 64


def _functions(base: type[Function] = Function) -> dict[str, type[Function]]:
    found: dict[str, type[Function]] = {}
    for cls in base.__subclasses__():
        if cls.__module__.startswith("infinitrain.") and cls.row is not None:
            found[cls.row.name] = cls
        found |= _functions(cls)
    return found


FUNCTIONS = _functions()


def test_every_row_has_samples_or_is_a_gradient_of_one_that_has():
    gradients = {g for name in SAMPLERS for g in OPS[name].gradient}
    # What a Function's backward calls beside, or instead of, what its row names.
    gradients |= {"NoOpBackward", "CrossEntropyBackwardInPlace", "VocabParallelCrossEntropyBackward"}
    gradients.add("LinearBackward")
    assert set(FUNCTIONS) <= set(SAMPLERS)
    assert set(OPS) - set(SAMPLERS) <= gradients, sorted(set(OPS) - set(SAMPLERS) - gradients)


# Where a tensor lies in its memory -----------------------------------------------------------------------------------


class Memory:
    """Makes tensors of arrays: over memory of their own, or as views into larger buffers, whose rest is guarded."""

    def __init__(self, views: bool, dtype: Any) -> None:
        self.views, self.dtype = views, np.dtype(dtype)
        self.guards: list[Any] = []

    def tensor(self, array: np.ndarray) -> Any:
        return self._place(array.astype(self.dtype) if array.dtype == np.float64 else array)

    def _place(self, array: np.ndarray) -> Any:
        if not self.views:
            return it.from_numpy(array)
        before, after = 3, 2  # elements: an offset that no vector unit likes
        poison = np.full(before + array.size + after, np.nan if array.dtype.kind == "f" else 1, array.dtype)
        poison[before : before + array.size] = array.ravel()
        whole = it.from_numpy(poison)
        view = whole.view_as(
            TensorSpec.of(array.shape, whole.dtype, whole.device), before * whole.dtype.itemsize
        )
        self.guards.append((whole, poison, before, array.size))
        return view

    def argument(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple(self.tensor(v) for v in value)
        return self.tensor(value) if isinstance(value, np.ndarray) else value

    def destination(self, like: Any) -> Any:
        """Return a tensor to fill, which holds NaN so far."""
        odd = np.nan if like.dtype.is_floating else 1
        return self._place(np.full(like.shape, odd, like.dtype.numpy))

    def check(self, written: tuple[Any, ...] = ()) -> None:
        """Check that nothing beside a view was written, and arguments only where that is the row's job."""
        for whole, poison, before, size in self.guards:
            now = whole.numpy()
            np.testing.assert_array_equal(now[:before], poison[:before])
            np.testing.assert_array_equal(now[before + size :], poison[before + size :])


def _close(got: Any, want: Any, what: str) -> None:
    found, want = got.numpy(), np.asarray(want)
    assert found.shape == want.shape, f"{what}: {found.shape}, expected {want.shape}"
    if found.dtype.kind == "f":
        scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        atol = ALLOWED * np.finfo(found.dtype).eps * scale
        np.testing.assert_allclose(found.astype(np.float64), want, rtol=0, atol=atol, err_msg=what)
    else:
        assert found.astype(np.float64).tolist() == want.astype(np.float64).tolist(), what


def _flat(values: Any) -> tuple[Any, ...]:
    return tuple(t for v in values for t in (v if isinstance(v, tuple) else (v,)))


def _describe(name: str, seed: int, sample: Sample) -> str:
    shown = [
        a.shape if isinstance(a, np.ndarray) else [t.shape for t in a] if isinstance(a, list) else a
        for a in sample.args
    ]
    return f"{name} seed {seed}: {shown}"


def _check_forward(name: str, seed: int) -> None:
    row, draw = OPS[name], Draw(seed)
    sample, memory = SAMPLERS[name](draw), Memory(draw.flag(), draw.one_of("float32", "float64"))
    what = f"{_describe(name, seed, sample)} {memory.dtype} {'views' if memory.views else ''}"
    args = [memory.argument(a) for a in sample.args]
    before = [t.numpy() for t in _flat(args) if isinstance(t, it.Tensor)]
    got = row.call(*args)
    if not row.results:
        got = _flat([args[i] for i in row.write_index])
    results = got if isinstance(got, tuple) else (got,)
    assert len(results) == len(sample.want), what
    for k, (result, want) in enumerate(zip(results, sample.want, strict=True)):
        _close(result, want, f"{what}, result {k}")
    if row.results and not row.view:
        outs = tuple(memory.destination(r) for r in results)
        into = row.call(*args, out=outs if len(outs) > 1 else outs[0])
        for given, filled, want in zip(
            outs, into if isinstance(into, tuple) else (into,), sample.want, strict=True
        ):
            assert filled is given, what
            _close(given, want, f"{what}, into a destination")
    if row.results:
        for now, then in zip([t for t in _flat(args) if isinstance(t, it.Tensor)], before, strict=True):
            np.testing.assert_array_equal(now.numpy(), then, err_msg=f"{what}: an argument has changed")
    memory.check()


@pytest.mark.parametrize("name", SAMPLERS)
def test_forward(name: str) -> None:
    for seed in range(12):
        _check_forward(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
def test_forward_many(name: str) -> None:
    for seed in range(12, 500):
        _check_forward(name, seed)


@pytest.fixture
def composites(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("INFINITRAIN_KERNELS", "composite")
    clear_plans()
    yield
    clear_plans()


@pytest.mark.parametrize("name", [n for n in SAMPLERS if n in COMPOSITES])
@pytest.mark.usefixtures("composites")
def test_composite(name: str) -> None:
    for seed in range(12):
        _check_forward(name, seed)


def _check_gradient(name: str, seed: int) -> None:
    sample = SAMPLERS[name](Draw(seed, most=20))
    if not sample.smooth:
        return
    function = FUNCTIONS[name]
    args = [
        [it.from_numpy(t, requires_grad=True) for t in a]
        if isinstance(a, list)
        else it.from_numpy(a, requires_grad=a.dtype == np.float64 and p.name not in ("cos", "sin"))
        if isinstance(a, np.ndarray)
        else a
        for a, p in zip(sample.args, OPS[name].params, strict=True)
    ]
    if name == "ConcatForward":
        (tensors, axis), args = args, []
        args = [axis, *tensors]
    try:
        it.gradcheck(function.apply, *args, atol=1e-6)
    except GradcheckError as error:
        raise AssertionError(f"{_describe(name, seed, sample)}: {error}") from None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name: str) -> None:
    for seed in range(5):
        _check_gradient(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_many(name: str) -> None:
    for seed in range(5, 60):
        _check_gradient(name, seed)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n in COMPOSITES])
@pytest.mark.usefixtures("composites")
def test_gradient_of_composite(name: str) -> None:
    for seed in range(5):
        _check_gradient(name, seed)


# Gradients of views land in views -------------------------------------------------------------------------------------


def _backward(name: str, args: list[Any]) -> None:
    results = FUNCTIONS[name].apply(*args)
    for k, y in enumerate(results if isinstance(results, tuple) else (results,)):
        if y.requires_grad:
            upstream = np.random.default_rng(k).standard_normal(y.shape).astype(y.dtype.numpy)
            y.backward(it.from_numpy(upstream), retain_graph=True)


def _check_destinations(name: str, seed: int) -> None:
    """Gradients of leaves at odd offsets, into destinations at odd offsets: written, then added to, never beside."""
    sample = SAMPLERS[name](Draw(seed, most=20))
    if not sample.smooth:
        return
    plain, views = Memory(False, np.float64), Memory(True, np.float64)

    def leaf(array: np.ndarray, memory: Memory) -> Any:
        tensor = memory.tensor(array)
        tensor.requires_grad = array.dtype == np.float64
        return tensor

    def arguments(memory: Memory) -> tuple[list[Any], list[Any]]:
        args: list[Any] = []
        for a in sample.args:
            if isinstance(a, list):  # of Concat, which takes the axis first
                args += [leaf(t, memory) for t in a]
            else:
                args.append(leaf(a, memory) if isinstance(a, np.ndarray) else a)
        if name == "ConcatForward":
            args = [args[-1], *args[:-1]]
        return args, [t for t in args if isinstance(t, it.Tensor) and t.requires_grad]

    (args, ours), (others, theirs) = arguments(views), arguments(plain)
    for tensor in ours:
        tensor.set_grad_destination(views.destination(tensor))
    _backward(name, others)
    for passes in (1, 2):
        _backward(name, args)
        for tensor, other in zip(ours, theirs, strict=True):
            if other.grad is not None:
                what = f"{_describe(name, seed, sample)}, {passes} passes"
                _close(tensor.grad, other.grad.numpy() * passes, what)
    views.check()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_destinations(name: str) -> None:
    for seed in range(6):
        _check_destinations(name, seed)
