"""Every op of the cases against its float64 oracle: values, destinations, accumulation, specs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.cases import Call, Data, OpCase
from infinitrain_conformance.check import close, compare, expect, fail, same_bytes
from infinitrain_conformance.families import all_cases
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target

CASES = all_cases()


def _params(cases: list[OpCase], dtypes: tuple[str, ...] | None = None) -> list[Any]:
    return [
        pytest.param(
            case,
            dtype,
            id=f"{case}-{dtype}",
            marks=pytest.mark.contract(case.clause, level=case.level, op=case.op),
        )
        for case in cases
        for dtype in case.dtypes
        if dtypes is None or dtype in dtypes
    ]


def _first(cases: list[OpCase]) -> list[OpCase]:
    """Return one case for each op: the destination's handling does not depend on the data."""
    chosen: dict[str, OpCase] = {}
    for case in cases:
        chosen.setdefault(case.op, case)
    return list(chosen.values())


def _call(case: OpCase, dtype: str, seed: int, target: Target) -> Call:
    data = Data(seed, dtype)
    return Call(case.op, case.build(data), data, target.device)


@pytest.mark.parametrize(("case", "dtype"), _params(CASES))
def test_values(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    call = _call(case, dtype, seed, target)
    got = call.run()
    close(heading, case.op, got, call.want())
    for (name, tensor), (shape, inferred) in zip(got.items(), call.specs(), strict=True):
        expect(
            heading,
            (tensor.shape, tensor.dtype, tensor.device) == (shape, inferred, target.device),
            f"{name} is {tensor.spec}, infer says {inferred}{list(shape)}@{target.device}",
        )
    changed = call.changed_inputs()
    expect(heading, not changed, f"the kernel changed its argument {', '.join(changed)} [contract 4.4]")


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(
            case, dtype, id=f"{case}-{dtype}", marks=pytest.mark.contract("4.4", level=case.level, op=case.op)
        )
        for case in _first(CASES)
        for dtype in ("float32", "bfloat16")
    ],
)
def test_destination(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """Destinations inside larger buffers: poisoned before, filled wholly, and nothing beside them."""
    call = _call(case, dtype, seed, target)
    targets = call.into()
    disturbed = targets.disturbed()
    expect(heading, not disturbed, "; ".join(disturbed))
    close(heading, case.op, targets.views, call.want())
    for name, given, returned in zip(targets.views, targets.views.values(), targets.returned, strict=True):
        expect(
            heading, returned is given, f"{name}: what the op returned is not the destination [contract 4.5]"
        )
    changed = call.changed_inputs()
    expect(heading, not changed, f"the kernel changed its argument {', '.join(changed)}")


ACCUMULATING = ("LinearBackwardWeight", "LinearBackwardBias", "LayerNormBackward", "EmbeddingBackward")


@pytest.mark.parametrize(
    ("case", "dtype", "wide"),
    [
        pytest.param(
            case, dtype, wide, id=f"{case}-{dtype}{'-into_float32' if wide else ''}",
            marks=pytest.mark.contract("4.4", level=case.level, op=case.op),
        )
        for case in _first([c for c in CASES if c.op in ACCUMULATING])
        for dtype, wide in (("float32", False), ("bfloat16", False), ("bfloat16", True))
    ],
)  # fmt: skip
def test_accumulates(case: OpCase, dtype: str, wide: bool, target: Target, seed: int, heading: str) -> None:
    """Added to what the destination holds, in its dtype: bfloat16 gradients into float32 too."""
    from infinitrain.dtype import float32

    call = _call(case, dtype, seed, target)
    rng = np.random.default_rng(seed + 1)
    want, marked = call.want(), call.row.accumulates
    dtypes = dict.fromkeys(marked, float32) if wide else {}
    prefill: dict[str, np.ndarray] = {}
    for name, (shape, inferred) in zip(call.row.results, call.specs(), strict=True):
        if name in marked:
            kept = dtypes.get(name, inferred)
            before = (rng.standard_normal(shape) * 10 + 3).astype(kept.numpy)
            prefill[name] = before
            # Core may add what was rounded to the op's dtype: one unit of it, in units of the
            # table's constant.
            w, extra = want[name], 2.0**16 / 8 if inferred.itemsize == 2 else 0.0
            size = w.magnitude + extra * np.abs(w.value) + np.abs(before.astype(np.float64))
            want[name] = Want(w.value + before.astype(np.float64), size, w.terms)
    targets = call.into(prefill, dtypes)
    disturbed = targets.disturbed()
    expect(heading, not disturbed, "; ".join(disturbed))
    close(heading, case.op, targets.views, want)


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=pytest.mark.contract("4.4", level="L3", op=op, half=True))
        for op in ACCUMULATING
    ],
)
def test_accumulates_small_into_large(op: str, target: Target, seed: int, heading: str) -> None:
    """1,000 + 0.01 in a float32 destination for bfloat16 inputs: a sum in bfloat16 would stay 1,000."""
    from infinitrain.dtype import float32

    case = next(c for c in CASES if c.op == op)
    call = _call(case, "bfloat16", seed, target)
    want, marked = call.want(), call.row.accumulates
    name = marked[0]
    shapes = {n: shape for n, (shape, _) in zip(call.row.results, call.specs(), strict=True)}
    prefill = {n: np.full(shapes[n], 1000.0) for n in marked}
    targets = call.into(prefill, dict.fromkeys(marked, float32))
    got = targets.views[name].numpy().astype(np.float64) - 1000.0
    error = np.abs(got - want[name].value)
    scale = np.abs(want[name].value) * 2.0**-7 + want[name].magnitude * 2.0**-18 + 1000 * 2.0**-22
    if not (error <= scale).all():
        worst = np.unravel_index(int(np.argmax(error - scale)), shapes[name])
        fail(heading, [f"{name}: grew by {got[worst]:.5g}, float64 oracle {want[name].value[worst]:.5g}"])


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(
            case, "float32", id=str(case), marks=pytest.mark.contract("7.7", level=case.level, op=case.op)
        )
        for case in _first(CASES)
    ],
)
def test_repeats(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """The same call twice gives the same bits, unless the provider lists the op as not deterministic."""
    if case.op in target.record.capabilities.nondeterministic:
        pytest.skip("listed as not deterministic")
    call = _call(case, dtype, seed, target)
    first, second = call.run(), call.run()
    for name, tensor in first.items():
        same_bytes(heading, f"{name} of two equal calls", second[name].numpy(), tensor.numpy())


@pytest.mark.contract("4.7", level="L2", op="LinearForward", half=True)
def test_half_precision_needs_no_float32_luck(target: Target, seed: int, heading: str) -> None:
    """4,096 products that are all 1 + 1/128 in bfloat16: an accumulator of bfloat16 stops growing at 256."""
    import infinitrain as it

    x = np.full((2, 4096), 1.0078125)
    weight = np.ones((3, 4096))
    data = Data(seed, "bfloat16")
    tensors = [it.from_numpy(data.round(a).astype(data.dtype.numpy), target.device) for a in (x, weight)]
    y = it.backend.OPS["LinearForward"].call(*tensors, None)
    ok, line = compare("LinearForward", "y", y, Want(np.full((2, 3), 4128.0), np.full((2, 3), 4128.0), 4096))
    expect(heading, ok, line)


@pytest.mark.parametrize("where", ["beyond", "negative"])
@pytest.mark.contract("4.7", level="L2", op="EmbeddingForward")
def test_bad_index(where: str, target: Target, heading: str) -> None:
    """An id out of range is an IndexError at the latest at the next synchronising call, never uninitialised
    memory.
    """
    import infinitrain as it

    weight = it.from_numpy(np.ones((5, 4), np.float32), target.device)
    ids = it.from_numpy(np.array([0, 5 if where == "beyond" else -1, 2], np.int64), target.device)
    with pytest.raises(IndexError):
        it.backend.OPS["EmbeddingForward"].call(ids, weight).numpy()


@pytest.mark.parametrize("where", ["beyond", "negative"])
@pytest.mark.contract("4.7", level="L2", op="CrossEntropyForward")
def test_bad_target(where: str, target: Target, heading: str) -> None:
    """A class out of range is an IndexError at the latest at the next synchronising call."""
    import infinitrain as it

    logits = it.from_numpy(np.ones((3, 4), np.float32), target.device)
    classes = it.from_numpy(np.array([0, 4 if where == "beyond" else -1, 2], np.int64), target.device)
    with pytest.raises(IndexError):
        it.backend.OPS["CrossEntropyForward"].call(logits, classes, -100)[0].numpy()


@pytest.mark.contract("4.1", level="L2", op="CrossEntropyForward")
def test_nothing_to_average(target: Target, heading: str) -> None:
    """Only ignored targets: the mean of nothing is NaN, and the gradient's lse is still finite."""
    import infinitrain as it

    logits = it.from_numpy(np.ones((3, 4), np.float32), target.device)
    ignored = it.from_numpy(np.full(3, -100, np.int64), target.device)
    loss, lse = it.backend.OPS["CrossEntropyForward"].call(logits, ignored, -100)
    expect(heading, np.isnan(loss.numpy()).all(), f"loss is {loss.numpy()}, expected NaN")
    expect(heading, np.isfinite(lse.numpy()).all(), f"lse is {lse.numpy()}")
