"""L1: the base profile: Cast, Fill, NoOp views. L2, L3: two ops of the training profile: Copy, AccumulateGrad."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.call import PAD, poison
from infinitrain_conformance.check import compare, expect, fail, same_bytes
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target

DTYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "bfloat16", "float16",
    "float32", "float64",
)  # fmt: skip
TRAINED = ("bool", "uint8", "int32", "int64", "bfloat16", "float16", "float32", "float64")


def put(array: np.ndarray, target: Target) -> Any:
    import infinitrain as it

    return it.from_numpy(array, target.device)


def numbers(source: str, goal: str, seed: int) -> np.ndarray:
    """Return values of ``source`` that ``goal`` can hold: what is beyond is not defined."""
    from infinitrain.dtype import as_dtype

    rng = np.random.default_rng(seed)
    kinds = as_dtype(source), as_dtype(goal)
    values: np.ndarray
    if kinds[0].kind == "b":
        values = rng.integers(0, 2, 301)
    else:
        low, high = -100.0, 100.0
        if any(k.kind == "u" for k in kinds):
            low = 0.0
        values = rng.uniform(low, high, 301)
        values[:4] = [0.0, 1.0, 2.5 if not low else -2.5, 3.5]
    return np.asarray(values).astype(kinds[0].numpy)


@pytest.mark.parametrize(("source", "goal"), list(itertools.product(TRAINED, TRAINED)))
@pytest.mark.contract("2.3", level="L1", op="Cast", base=True)
def test_cast(source: str, goal: str, target: Target, seed: int, heading: str) -> None:
    """Floats round to nearest even, to integers towards zero, to bool nonzero is True."""
    from infinitrain.backend import OPS
    from infinitrain.dtype import as_dtype

    array, dtype = numbers(source, goal, seed), as_dtype(goal)
    got = OPS["Cast"].call(put(array, target), dtype)
    exact = array.astype(np.float64)
    if dtype.kind == "b":
        want = exact != 0
    elif dtype.kind in "iu":
        want = np.trunc(exact).astype(dtype.numpy)
    else:
        want = _nearest_even(exact, dtype)
    same_bytes(heading, f"{source} to {goal}", got.numpy(), want.astype(dtype.numpy))


def _nearest_even(exact: np.ndarray, dtype: Any) -> np.ndarray:
    """Round float64 to the format by its number of significand bits, ties to even."""
    bits = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}[dtype.name]
    fraction, exponent = np.frexp(exact)
    rounded: np.ndarray = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
    return rounded


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.contract("4.7", level="L1", op="Cast", base=True)
def test_cast_extremes(dtype: str, target: Target, heading: str) -> None:
    """Ties, the largest numbers, infinities, NaN and zeros of either sign, float32 to a half format and back."""
    from infinitrain.backend import OPS
    from infinitrain.dtype import as_dtype, float32

    array = np.array(
        [0.0, -0.0, 1.00390625, 1.01171875, -1.00390625, 65504.0, 65519.0, 65520.0, 1e6, -1e6, 3e38,
         2.0**-24, 2.0**-25,
         np.inf, -np.inf, np.nan], np.float32,
    )  # fmt: skip
    half = OPS["Cast"].call(put(array, target), as_dtype(dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        want = array.astype(as_dtype(dtype).numpy)
    got = half.numpy()
    nan = np.isnan(want.astype(np.float32))
    expect(heading, np.isnan(got.astype(np.float32))[nan].all(), f"{dtype}: NaN became {got[nan]}")
    same_bytes(heading, f"float32 to {dtype}", got[~nan], want[~nan])
    back = OPS["Cast"].call(half, float32).numpy()
    same_bytes(heading, f"{dtype} to float32", back[~nan], want[~nan].astype(np.float32))


@pytest.mark.contract("4.4", level="L1", op="Cast", base=True)
def test_results_do_not_alias(target: Target, heading: str) -> None:
    """Eight results of one size, all kept, hold eight different values."""
    from infinitrain.backend import OPS
    from infinitrain.dtype import int64

    kept = [OPS["Cast"].call(put(np.full(1000, i, np.float32), target), int64) for i in range(8)]
    found = [np.unique(t.numpy()).tolist() for t in kept]
    expect(heading, found == [[i] for i in range(8)], f"results 0 to 7 hold {found}: they share memory")


@pytest.mark.contract("4.4", level="L1", op="Cast", base=True)
def test_cast_into_destination(target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS, TensorSpec
    from infinitrain.dtype import int64

    array = (np.random.default_rng(seed).standard_normal((7, 11)) * 1000).astype(np.float32)
    before = poison(int64, (77 + 2 * PAD,))
    base = put(before, target)
    out = base.view_as(TensorSpec.of((7, 11), int64, target.device), PAD * 8)
    OPS["Cast"].call(put(array, target), int64, out=out)
    want = before.copy()
    want[PAD : PAD + 77] = np.trunc(array).astype(np.int64).reshape(-1)
    same_bytes(heading, f"a view {PAD} elements into a larger buffer", base.numpy(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.contract("2.3", level="L1", op="Fill", base=True)
def test_fill(dtype: str, target: Target, heading: str) -> None:
    from infinitrain.backend import OPS, TensorSpec
    from infinitrain.dtype import as_dtype

    kind = as_dtype(dtype)
    for value in (0, 1, 3, True) + ((0.15625, -2.5) if kind.is_floating else ()):
        before = poison(kind, (40,))
        base = put(before, target)
        part = base.view_as(TensorSpec.of((5, 6), kind, target.device), PAD * kind.itemsize)
        OPS["Fill"].call(part, value)
        want = before.copy()
        want[PAD : PAD + 30] = np.asarray(value).astype(kind.numpy)
        same_bytes(heading, f"{dtype} filled with {value!r}", base.numpy(), want)


@pytest.mark.contract("4.4", level="L1", op="Fill", base=True)
def test_fill_shapes(target: Target, heading: str) -> None:
    import infinitrain as it

    for shape in ((), (1,), (0,), (3, 0, 2), (1, 1, 1, 1, 1, 1, 1, 2), (1 << 20,)):
        got = it.full(shape, 2.5, device=target.device).numpy()
        expect(heading, got.shape == shape and (got == 2.5).all(), f"{shape}: got {got.reshape(-1)[:4]}")


@pytest.mark.contract("4.10", level="L1", op="Fill", base=True)
def test_writes_bump_the_version(target: Target, heading: str) -> None:
    import infinitrain as it

    x = it.zeros(6, device=target.device)
    view = x.view(2, 3)
    before = view.version
    it.backend.OPS["Fill"].call(x, 1.0)
    expect(heading, view.version == before + 1, f"the view's version went from {before} to {view.version}")


@pytest.mark.parametrize("name", ["NoOpForward", "NoOpBackward"])
@pytest.mark.contract("4.4", level="L1", op="NoOpForward", base=True)
def test_views_share_memory(name: str, target: Target, seed: int, heading: str) -> None:
    import infinitrain as it
    from infinitrain.backend import OPS

    x = put(np.random.default_rng(seed).standard_normal((4, 6)).astype(np.float32), target)
    view = OPS[name].call(x, (3, 8)) if name == "NoOpForward" else OPS[name].call((3, 8), x)
    expect(
        heading, view.shape == (3, 8) and view.ptr == x.ptr, f"{view.spec} at {view.ptr:#x}, x at {x.ptr:#x}"
    )
    same_bytes(heading, "the view's elements", view.numpy().reshape(-1), x.numpy().reshape(-1))
    it.backend.OPS["Fill"].call(x, 4.0)
    expect(heading, (view.numpy() == 4.0).all(), "writing to x did not change the view: it is a copy")
    it.backend.OPS["Fill"].call(view, 5.0)
    expect(heading, (x.numpy() == 5.0).all(), "writing to the view did not change x: it is a copy")


@pytest.mark.contract("4.4", level="L1", op="Fill", base=True)
def test_view_keeps_memory_alive(target: Target, seed: int, heading: str) -> None:
    import infinitrain as it

    array = np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)
    x = put(array, target)
    view = x.view(4096)
    del x
    others = [it.full((64, 64), -1.0, device=target.device) for _ in range(20)]
    same_bytes(heading, "a view whose tensor was dropped", view.numpy(), array.reshape(-1))
    expect(heading, len(others) == 20, "")


@pytest.mark.parametrize("dtype", TRAINED)
@pytest.mark.contract("4.4", level="L2", op="Copy")
def test_copy(dtype: str, target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS
    from infinitrain.dtype import as_dtype

    kind = as_dtype(dtype)
    array = (np.random.default_rng(seed).standard_normal((9, 13)) * 50).astype(kind.numpy)
    out, source = put(poison(kind, (9, 13)), target), put(array, target)
    OPS["Copy"].call(out, source)
    same_bytes(heading, "the destination", out.numpy(), array)
    same_bytes(heading, "the source", source.numpy(), array)


@pytest.mark.parametrize("rate", [1.0, -0.5, 2.0])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("float32", "float32"),
        ("bfloat16", "float32"),
        ("bfloat16", "bfloat16"),
        ("float16", "float32"),
        ("float16", "float16"),
    ],
)
@pytest.mark.contract("4.4", level="L3", op="AccumulateGrad")
def test_accumulate_grad(given: str, kept: str, rate: float, target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS
    from infinitrain.dtype import as_dtype

    rng = np.random.default_rng(seed)
    grad = (rng.standard_normal((3, 67)) + 0.7).astype(as_dtype(given).numpy)
    held = (rng.standard_normal((3, 67)) * 3 - 1).astype(as_dtype(kept).numpy)
    tensor = put(held, target)
    OPS["AccumulateGrad"].call(put(grad, target), rate, tensor)
    a, b = held.astype(np.float64), rate * grad.astype(np.float64)
    ok, line = compare("AccumulateGrad", "tensor", tensor, Want(a + b, np.abs(a) + np.abs(b)))
    expect(heading, ok, line)


@pytest.mark.contract("4.4", level="L3", op="AccumulateGrad", half=True)
def test_accumulate_keeps_small_gradients(target: Target, heading: str) -> None:
    """A bfloat16 gradient of 2^-10 added 64 times to 1 in float32: a sum in bfloat16 would stay at 1."""
    from infinitrain.backend import OPS
    from infinitrain.dtype import bfloat16

    grad = put(np.full(33, 2.0**-10).astype(bfloat16.numpy), target)
    tensor = put(np.ones(33, np.float32), target)
    for _ in range(64):
        OPS["AccumulateGrad"].call(grad, 1.0, tensor)
    got = tensor.numpy()
    if not (got == 1.0625).all():
        fail(heading, [f"64 additions of 2^-10 to 1: got {got[0]}, expected 1.0625"])
