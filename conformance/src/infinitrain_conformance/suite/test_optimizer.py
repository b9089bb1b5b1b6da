"""L3: optimizer steps over lists of tensors, and the gradient norm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.check import compare, expect, fail
from infinitrain_conformance.oracles import Want, plain
from infinitrain_conformance.oracles import optimizer as oracles
from infinitrain_conformance.target import Target

SHAPES = ((7, 33), (129,), (), (1, 1))
ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "step": 1}


def lists(
    seed: int, target: Target, dtype: str, *scales: float
) -> tuple[list[list[np.ndarray]], list[list[Any]]]:
    """Return random host arrays and the same on the device, one list per scale; the second moments come as
    squares.
    """
    import infinitrain as it
    from infinitrain.dtype import as_dtype

    rng = np.random.default_rng(seed)
    kind = as_dtype(dtype).numpy
    host = [[np.array(rng.standard_normal(s) * scale, kind) for s in SHAPES] for scale in scales]
    return host, [[it.from_numpy(a, target.device) for a in arrays] for arrays in host]


def judge(heading: str, op: str, pairs: list[tuple[str, Any, Want]]) -> None:
    __tracebackhide__ = True
    found = [compare(op, name, tensor, want) for name, tensor, want in pairs]
    if not all(ok for ok, _ in found):
        fail(heading, [line for _, line in found])


def wide(a: np.ndarray) -> np.ndarray:
    return np.asarray(a, np.float64)


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.contract("4.1", level="L3", op="AdamW")
def test_adamw(step: int, decay: float, target: Target, seed: int, heading: str) -> None:
    import infinitrain as it
    from infinitrain.backend import OPS

    host, (ps, gs, ms, vs) = lists(seed, target, "float32", 1.0, 0.1, 0.0 if step == 1 else 0.02, 0.0)
    for i, v in enumerate(host[3]):
        if step > 1:
            v[...] = np.abs(np.random.default_rng(seed + 1).standard_normal(v.shape)) * 1e-3
            vs[i] = it.from_numpy(v, target.device)
    options = ADAM | {"step": step, "weight_decay": decay}
    OPS["AdamW"].call(ps, gs, ms, vs, *options.values())
    pairs = []
    for i, arrays in enumerate(zip(*host, strict=True)):
        p0, g0, m0, v0 = (wide(a) for a in arrays)
        want = oracles.adamw(p0, g0, m0, v0, options)
        pairs += [(f"param {i}", ps[i], want[0]), (f"m {i}", ms[i], want[1]), (f"v {i}", vs[i], want[2])]
    judge(heading, "AdamW", pairs)
    for i, g in enumerate(gs):
        expect(
            heading, g.numpy().tobytes() == host[1][i].tobytes(), f"gradient {i} was changed [contract 4.4]"
        )


@pytest.mark.contract("4.1", level="L3", op="AdamW")
def test_adamw_many_steps(target: Target, seed: int, heading: str) -> None:
    """Twenty steps, gradients that change sign: an error that one step hides accumulates."""
    import infinitrain as it
    from infinitrain.backend import OPS

    host, (ps, gs, ms, vs) = lists(seed, target, "float32", 1.0, 0.1, 0.0, 0.0)
    state = [[wide(a) for a in arrays] for arrays in host]
    rng = np.random.default_rng(seed + 1)
    for step in range(1, 21):
        for i, g in enumerate(gs):
            array = np.asarray(rng.standard_normal(SHAPES[i]) * 0.1 + 0.02).astype(np.float32)
            g.copy_(it.from_numpy(array, target.device))
            options = ADAM | {"step": step}
            p, m, v = oracles.adamw(state[0][i], wide(array), state[2][i], state[3][i], options)
            state[0][i], state[2][i], state[3][i] = p.value, m.value, v.value
        OPS["AdamW"].call(ps, gs, ms, vs, *(ADAM | {"step": step}).values())
    pairs = [
        (f"param {i}", p, Want(s, 5 * np.abs(s) + 0.02))
        for i, (p, s) in enumerate(zip(ps, state[0], strict=True))
    ]
    judge(heading, "AdamW", pairs)


@pytest.mark.contract("4.7", level="L3", op="AdamW", half=True)
def test_adamw_bfloat16(target: Target, seed: int, heading: str) -> None:
    """bfloat16 parameters with float32 moments: computed in float32, rounded once."""
    import infinitrain as it
    from infinitrain.backend import OPS

    host, (ps, gs) = lists(seed, target, "bfloat16", 1.0, 0.1)
    zeros = [np.zeros(s, np.float32) for s in SHAPES]
    ms, vs = ([it.from_numpy(z, target.device) for z in zeros] for _ in range(2))
    OPS["AdamW"].call(ps, gs, ms, vs, *ADAM.values())
    pairs = []
    for i, (p, g) in enumerate(zip(*host, strict=True)):
        want = oracles.adamw(wide(p), wide(g), wide(zeros[i]), wide(zeros[i]), ADAM)
        pairs += [(f"param {i}", ps[i], want[0]), (f"m {i}", ms[i], want[1]), (f"v {i}", vs[i], want[2])]
    judge(heading, "AdamW", pairs)


@pytest.mark.contract("4.1", level="L3", op="AdamW")
def test_adamw_tiny_gradients(target: Target, heading: str) -> None:
    """Gradients of 1e-12, whose squares are subnormal or zero in float32: the update stays finite."""
    import infinitrain as it
    from infinitrain.backend import OPS

    p, g, m, v = (it.full((50,), value, device=target.device) for value in (1.0, 1e-30, 0.0, 0.0))
    OPS["AdamW"].call([p], [g], [m], [v], *ADAM.values())
    expect(heading, np.isfinite(p.numpy()).all(), f"parameter became {p.numpy()[0]}")


SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "first": False}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"first": True},
        {"weight_decay": 0.05},
        {"dampening": 0.3},
        {"nesterov": True},
        {"nesterov": True, "first": True},
    ],
    ids=lambda o: "-".join(o) or "plain",
)
@pytest.mark.contract("4.1", level="L3", op="SGD")
def test_sgd_momentum(options: dict[str, Any], target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS

    h = SGD | options
    host, (ps, gs, bs) = lists(seed, target, "float32", 1.0, 0.3, 0.5)
    OPS["SGD"].call(ps, gs, bs, *h.values())
    pairs = []
    for i, (p, g, b) in enumerate(zip(*host, strict=True)):
        new_p, new_b = oracles.sgd(wide(p), wide(g), wide(b), h)
        assert new_b is not None
        pairs += [(f"param {i}", ps[i], new_p), (f"momentum {i}", bs[i], new_b)]
    judge(heading, "SGD", pairs)


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.contract("4.1", level="L3", op="SGD")
def test_sgd_plain(decay: float, target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS

    h = SGD | {"momentum": 0.0, "weight_decay": decay}
    host, (ps, gs) = lists(seed, target, "float32", 1.0, 0.3)
    OPS["SGD"].call(ps, gs, [], *h.values())
    pairs = [
        (f"param {i}", ps[i], oracles.sgd(wide(p), wide(g), None, h)[0])
        for i, (p, g) in enumerate(zip(*host, strict=True))
    ]
    judge(heading, "SGD", pairs)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.contract("4.7", level="L3", op="SquaredNorm")
def test_squared_norm(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Over several tensors, one of 100,000 elements; accumulated in float32 or wider."""
    import infinitrain as it
    from infinitrain.backend import OPS
    from infinitrain.dtype import as_dtype

    rng = np.random.default_rng(seed)
    arrays = [
        np.asarray(rng.standard_normal(s) + 0.5).astype(as_dtype(dtype).numpy)
        for s in (*SHAPES, (100_000,), (0,))
    ]
    got = OPS["SquaredNorm"].call([it.from_numpy(a, target.device) for a in arrays])
    total = np.asarray(sum(float((wide(a) ** 2).sum()) for a in arrays))
    expect(heading, got.shape == () and got.dtype.name == "float32", f"the result is {got.spec}")
    judge(heading, "SquaredNorm", [("total", got, Want(total, total, 100_000))])


@pytest.mark.contract("4.1", level="L3", op="ScaleInPlace")
def test_scale_in_place(target: Target, seed: int, heading: str) -> None:
    from infinitrain.backend import OPS

    host, (tensors,) = lists(seed, target, "float32", 3.0)
    OPS["ScaleInPlace"].call(tensors, 0.37)
    judge(
        heading,
        "ScaleInPlace",
        [
            (f"tensor {i}", t, plain(wide(a) * 0.37))
            for i, (t, a) in enumerate(zip(tensors, host[0], strict=True))
        ],
    )
