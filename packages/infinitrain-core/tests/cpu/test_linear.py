"""The CPU's Linear on shapes that are easily mishandled."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops


@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (2, 1, 3), (0, 4), (3, 0)])
@pytest.mark.parametrize("inputs", [0, 1, 7])
def test_leading_axes_and_empty_inputs(lead, inputs):
    rng = np.random.default_rng(11)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((*lead, inputs), (4, inputs), (4,)))
    tensors = [it.from_numpy(a, requires_grad=True) for a in (x, w, b)]
    y = ops.linear(*tensors)
    want = x.astype(np.float64) @ w.T.astype(np.float64) + b
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5, atol=1e-6)
    seed = rng.standard_normal(y.shape).astype(np.float32)
    y.backward(it.from_numpy(seed))
    rows, grads = x.reshape(-1, inputs) if inputs else x.reshape(int(np.prod(lead)), 0), seed.reshape(-1, 4)
    for tensor, expected in zip(tensors, (seed @ w, grads.T @ rows, grads.sum(0)), strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), expected, rtol=1e-4, atol=1e-5)
