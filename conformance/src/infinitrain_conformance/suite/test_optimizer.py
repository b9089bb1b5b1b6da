"""L3: many optimizer steps; single ones are in the matrix."""

from __future__ import annotations

import numpy as np
import pytest

from infinitrain_conformance.check import close
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.oracles import optimizer as oracles
from infinitrain_conformance.target import Target

SHAPES = ((7, 33), (129,), (), (1, 1))
ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}


@pytest.mark.contract("4.1", level="L3", op="AdamW")
def test_adamw_many_steps(target: Target, seed: int, heading: str) -> None:
    """Twenty steps, gradients that change sign: an error that one step hides accumulates."""
    import infinitrain as it
    from infinitrain.backend import OPS

    rng = np.random.default_rng(seed)
    start = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
    state = [(p.astype(np.float64), np.zeros(p.shape), np.zeros(p.shape)) for p in start]
    ps = [it.from_numpy(p, target.device) for p in start]
    ms, vs = ([it.zeros(s, device=target.device) for s in SHAPES] for _ in range(2))
    for step in range(1, 21):
        options = ADAM | {"step": step}
        gs = [np.asarray(rng.standard_normal(s) * 0.1 + 0.02, np.float32) for s in SHAPES]
        for i, g in enumerate(gs):
            p, m, v = oracles.adamw(state[i][0], g.astype(np.float64), *state[i][1:], options)
            state[i] = p.value, m.value, v.value
        OPS["AdamW"].call(ps, [it.from_numpy(g, target.device) for g in gs], ms, vs, *options.values())
    want = {f"params[{i}]": Want(p, 5 * np.abs(p) + 0.02) for i, (p, _, _) in enumerate(state)}
    close(heading, "AdamW", dict(zip(want, ps, strict=True)), want)
