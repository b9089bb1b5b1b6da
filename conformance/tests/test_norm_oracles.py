"""The oracles of normalisation and RoPE against finite differences, and against definitions written another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from differences import slope

from infinitrain_conformance.oracles import norm, rope

EPS = 1e-2


@pytest.fixture
def rng():
    return np.random.default_rng(6)


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 3, 4), (6,), (4, 1)])
def test_rms_norm_backward(rng, shape):
    x, w = rng.normal(1.0, 1.5, shape), rng.normal(1, 0.3, shape[-1])
    grad = rng.normal(size=shape) + x
    saved = norm.rms_norm(x, w, EPS)
    got = norm.rms_norm_backward(x, w, saved["rstd"].value, grad)

    def f(x=x, w=w):
        return (norm.rms_norm(x, w, EPS)["y"].value * grad).sum()

    np.testing.assert_allclose(got["dx"].value, slope(lambda v: f(x=v), x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(got["dweight"].value, slope(lambda v: f(w=v), w), rtol=1e-5, atol=1e-7)


def test_rms_norm_by_hand():
    y = norm.rms_norm(np.array([3.0, 4.0]), np.array([2.0, 1.0]), 0.0)
    root = math.sqrt(12.5)
    np.testing.assert_allclose(y["y"].value, [6.0 / root, 4.0 / root])
    np.testing.assert_allclose(y["rstd"].value, 1.0 / root)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("both", [True, False])
def test_norm_after_sum_backward(rng, centred, both):
    """dx is the gradient of either summand, through the norm and through the sum."""
    x, residual, w, b = (rng.normal(0.5, 1, s) for s in ((3, 5), (3, 5), 5, 5))
    grad = rng.normal(size=(3, 5)) + x
    grad_sum = rng.normal(0.3, 1, (3, 5)) if both else None

    def forward(x, residual, w, b):
        if centred:
            return norm.add_layer_norm(x, residual, w, b, EPS, lambda total: total)
        return norm.add_rms_norm(x, residual, w, EPS, lambda total: total)

    def f(x=x, residual=residual, w=w, b=b):
        got = forward(x, residual, w, b)
        own = 0.0 if grad_sum is None else (got["sum"].value * grad_sum).sum()
        return (got["y"].value * grad).sum() + own

    saved = forward(x, residual, w, b)
    total, rstd = saved["sum"].value, saved["rstd"].value
    if centred:
        got = norm.add_layer_norm_backward(total, w, saved["mean"].value, rstd, grad_sum, grad)
        np.testing.assert_allclose(got["dbias"].value, slope(lambda v: f(b=v), b), rtol=1e-5, atol=1e-7)
    else:
        got = norm.add_rms_norm_backward(total, w, rstd, grad_sum, grad)
    for name, want in (
        ("dx", slope(lambda v: f(x=v), x)),
        ("dx", slope(lambda v: f(residual=v), residual)),
        ("dweight", slope(lambda v: f(w=v), w)),
    ):
        np.testing.assert_allclose(got[name].value, want, rtol=1e-5, atol=1e-7)


def test_norm_is_of_the_rounded_sum():
    got = norm.add_rms_norm(np.array([1.2, 4.0]), np.array([0.0, 0.4]), np.ones(2), 0.0, np.round)
    np.testing.assert_allclose(got["sum"].value, [1.2, 4.4])
    np.testing.assert_allclose(got["y"].value, np.array([1.0, 4.0]) / math.sqrt(8.5))


@pytest.mark.parametrize("interleaved", [True, False])
def test_rope_by_complex_numbers(rng, interleaved):
    heads, rotated, size, position = 3, 2, 6, 2
    x, angles = rng.normal(size=(2, 4, 18)), rng.normal(size=(7, 3))
    y = rope.rope(x, np.cos(angles), np.sin(angles), heads, rotated, interleaved, position)["y"].value
    split, got = x.reshape(2, 4, 3, size), y.reshape(2, 4, 3, size)
    np.testing.assert_array_equal(got[:, :, 2], split[:, :, 2])

    def as_complex(v):
        return v[..., 0::2] + 1j * v[..., 1::2] if interleaved else v[..., :3] + 1j * v[..., 3:]

    turn = np.exp(1j * angles[2:6])[:, None]
    np.testing.assert_allclose(as_complex(got[:, :, :2]), as_complex(split[:, :, :2]) * turn)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rope_backward(rng, interleaved):
    x, grad = rng.normal(size=(2, 2, 3, 8))
    x, grad = x[None, 0], grad[None, 0]
    angles = rng.normal(size=(5, 2))
    how = (np.cos(angles), np.sin(angles), 2, 1, interleaved, 1)
    want = slope(lambda v: (rope.rope(v, *how)["y"].value * grad).sum(), x)
    np.testing.assert_allclose(rope.rope_backward(grad, *how)["dx"].value, want, rtol=1e-6, atol=1e-8)
