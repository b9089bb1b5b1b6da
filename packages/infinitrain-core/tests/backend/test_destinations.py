"""Destinations of every row that adds to some: what is allocated is never added to, and only halves widen
[contract 4.4].
"""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import clear_plans
from infinitrain.backend.kernels import LAYERS
from infinitrain.errors import KernelError

ROWS = sorted(name for name, row in OPS.items() if row.accumulates)
SEVERAL = [name for name in ROWS if len(OPS[name].results) > 1]
N, C, V = 6, 8, 5


@pytest.fixture(params=LAYERS)
def layer(request, monkeypatch):
    monkeypatch.setenv("INFINITRAIN_KERNELS", request.param)
    clear_plans()
    yield request.param
    monkeypatch.undo()
    clear_plans()


def arguments(op, dtype="float32"):
    rng = np.random.default_rng(sum(op.encode()))

    def normal(*shape, of=dtype):
        return it.tensor(rng.standard_normal(shape), of)

    wide = "float64" if dtype == "float64" else "float32"
    x, grad, weight = normal(N, C), normal(N, C), normal(C)
    mean, rstd = normal(N, of=wide), normal(N, of=wide)
    ids = it.tensor(rng.integers(0, V, N))
    return {
        "LinearBackward": lambda: (x, normal(C, C), grad),
        "AddLayerNormBackward": lambda: (x, weight, mean, rstd, None, grad),
        "AddRmsNormBackward": lambda: (x, weight, rstd, None, grad),
        "EmbeddingBackward": lambda: (ids, grad, V),
        "LayerNormBackward": lambda: (x, weight, mean, rstd, grad),
        "LinearBackwardBias": lambda: (grad,),
        "LinearBackwardWeight": lambda: (x, normal(N, V)),
        "LinearCrossEntropyBackward": lambda: (
            normal(of=wide), x, normal(V, C), ids, normal(N, of=wide) + 3.0, it.full((N,), 5.0, dtype=wide),
            -100, 0.1, "mean"
        ),
        "RmsNormBackward": lambda: (x, weight, rstd, grad),
    }[op]()  # fmt: skip


def dirty(specs):
    """Leave NaN in the memory that is used next: an allocator that hands out zeros hides what is added to them."""
    for spec in specs:
        it.from_numpy(np.full(spec.shape, np.nan, spec.dtype.numpy))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", SEVERAL)
def test_what_is_allocated_is_never_added_to(op, dtype, layer):
    row, args = OPS[op], arguments(op, dtype)
    plain = row.call(*args)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == "float32" else {"rtol": 0.02, "atol": 0.05}
    for k, name in enumerate(row.results):
        for accumulate in (True, (True,) * len(plain)) if name in row.accumulates else (True,):
            outs = tuple(it.ones(p.shape, dtype=p.dtype) * 2 if i == k else None for i, p in enumerate(plain))
            dirty([p.spec for p in plain])
            got = row.call(*args, out=outs, accumulate=accumulate)
            assert got[k] is outs[k]
            for i, (g, p) in enumerate(zip(got, plain, strict=True)):
                added = 2.0 if i == k and name in row.accumulates else 0.0
                want = p.numpy().astype(np.float64) + added
                np.testing.assert_allclose(
                    g.numpy().astype(np.float64),
                    want,
                    err_msg=f"{op} {row.results[i]}, out {name}",
                    **tolerance,
                )


def test_results_without_elements():
    op, ids = OPS["LinearCrossEntropyBackward"], it.tensor([0, 1])
    args = (it.ones(), it.zeros(2, 0), it.zeros(V, 0), ids, it.ones(2), it.ones(2))
    out = it.zeros(2, 0)
    dx, dweight = op.call(*args, out=(out, None), accumulate=True)
    assert dx is out
    assert dweight.shape == (V, 0)
    with pytest.raises(TypeError, match=r"out has 1 tensors, the op 2 results"):
        op.call(*args, out=out)


@pytest.mark.parametrize("op", SEVERAL)
def test_as_many_flags_as_results(op):
    args = arguments(op)
    plain = OPS[op].call(*args)
    with pytest.raises(TypeError, match=rf"{op}: accumulate has 1 flags, the op {len(plain)} results"):
        OPS[op].call(*args, out=plain, accumulate=(True,))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("op", ROWS)
def test_only_halves_widen(op, accumulate, layer):
    """float32 destinations take sums of halves; float64 ones would become infinite there, and zero."""
    row = OPS[op]
    for dtype, allowed in (("float64", False), ("bfloat16", True), ("float16", True)):
        args = arguments(op, dtype)
        plain = row.call(*args)
        plain = plain if isinstance(plain, tuple) else (plain,)
        outs = tuple(
            it.zeros(p.shape) if name in row.accumulates else None
            for name, p in zip(row.results, plain, strict=True)
        )
        given = outs if len(outs) > 1 else outs[0]
        if allowed:
            row.call(*args, out=given, accumulate=accumulate)
            for out, p in zip(outs, plain, strict=True):
                if out is not None:
                    np.testing.assert_allclose(
                        out.numpy(), p.numpy().astype(np.float32), rtol=0.02, atol=0.05
                    )
            continue
        name = row.accumulates[0]
        with pytest.raises(KernelError, match=rf"{op}: out {name} is float32.*inferred float64"):
            row.call(*args, out=given, accumulate=accumulate)
