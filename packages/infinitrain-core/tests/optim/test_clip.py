"""Clipping by the norm of all gradients."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, optim


@pytest.fixture(params=[True, False], ids=["flat", "apart"])
def params(request: pytest.FixtureRequest) -> list[nn.Parameter]:
    made = [nn.Parameter(it.zeros(shape)) for shape in ((2, 3), (5,), ())]
    if request.param:
        optim.flatten(made)
    rng = np.random.Generator(np.random.PCG64(3))
    for p in made[:2]:
        p.backward(it.tensor(rng.normal(1.0, 3.0, p.shape).astype(np.float32)))
    return made


def _norm(params: list[nn.Parameter]) -> float:
    return float(
        np.sqrt(sum((p.grad.numpy().astype(np.float64) ** 2).sum() for p in params if p.grad is not None))
    )


def test_large_gradients_are_scaled_and_directions_kept(params: list[nn.Parameter]) -> None:
    before, grads = _norm(params), [p.grad.numpy() for p in params[:2]]
    versions = [p.grad.version for p in params[:2]]
    assert optim.clip_grad_norm(params, 1.5) == pytest.approx(before, rel=1e-6)
    assert _norm(params) == pytest.approx(1.5, rel=1e-5)
    for p, g, v in zip(params, grads, versions, strict=False):
        np.testing.assert_allclose(p.grad.numpy(), g * 1.5 / before, rtol=1e-5)
        assert p.grad.version == v + 1
    assert params[2].grad is None


def test_small_gradients_are_left_alone(params: list[nn.Parameter]) -> None:
    grads = [p.grad.numpy() for p in params[:2]]
    optim.clip_grad_norm(params, 1e6)
    assert optim.clip_grad_norm(params) == pytest.approx(_norm(params), rel=1e-6)
    assert all((p.grad.numpy() == g).all() for p, g in zip(params, grads, strict=False))


def test_a_norm_that_is_not_finite_is_an_error_and_nothing_is_scaled(params: list[nn.Parameter]) -> None:
    grads = [p.grad.numpy() for p in params[:2]]
    params[2].backward(it.tensor(float("nan")))
    with pytest.raises(optim.NonFiniteGradientError, match="nan"):
        optim.clip_grad_norm(params, 1.0)
    assert np.isnan(optim.clip_grad_norm(params, 1.0, error_if_nonfinite=False))
    assert all((p.grad.numpy() == g).all() for p, g in zip(params, grads, strict=False))


def test_no_gradients_have_norm_zero_and_the_limit_is_positive() -> None:
    assert optim.clip_grad_norm([nn.Parameter(it.ones(2))], 1.0) == 0.0
    with pytest.raises(ValueError, match="above 0"):
        optim.clip_grad_norm([], 0.0)
