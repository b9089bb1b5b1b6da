"""Softmax and its logarithm, the fast kernels, against float64 NumPy written apart."""

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.backend.dispatch import find_kernel
from infinitrain.device import DeviceType

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

SHAPES = [(1,), (3, 1), (4, 17), (2, 67, 129), (3, 50_304)]


def call(module, name, *args):
    out = it.full(args[0].shape, float("nan"))
    getattr(module, name)(*args, args[0].ndim - 1, out=out)
    return out.numpy()


def probabilities(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_values(fast, shape, scale):
    module = fast("softmax")
    rng = np.random.default_rng(shape[-1])
    x, g = ((rng.standard_normal(shape) * s + 100).astype(np.float32) for s in (scale, 1))
    X, G = x.astype(np.float64), g.astype(np.float64)
    p = probabilities(X)
    np.testing.assert_allclose(call(module, "SoftmaxForward", it.tensor(x)), p, rtol=3e-5, atol=1e-37)
    log = X - X.max(-1, keepdims=True)
    log = log - np.log(np.exp(log).sum(-1, keepdims=True))
    np.testing.assert_allclose(call(module, "LogSoftmaxForward", it.tensor(x)), log, rtol=1e-6, atol=2e-6)
    got = call(module, "SoftmaxBackward", it.tensor(g), it.tensor(p.astype(np.float32)))
    np.testing.assert_allclose(got, p * (G - (G * p).sum(-1, keepdims=True)), rtol=2e-5, atol=2e-5)
    got = call(module, "LogSoftmaxBackward", it.tensor(g), it.tensor(log.astype(np.float32)))
    want = G - np.exp(log.astype(np.float32).astype(np.float64)) * G.sum(-1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)


def test_special_values_stay_in_their_row(fast):
    module = fast("softmax")
    x = np.random.default_rng(0).standard_normal((7, 40)).astype(np.float32)
    x[1, 3], x[2, 5], x[3, 7], x[4] = np.nan, np.inf, -np.inf, -np.inf
    x[5, 9], x[6] = -np.nan, -3e38
    for name in ("SoftmaxForward", "LogSoftmaxForward"):
        y = call(module, name, it.tensor(x))
        assert np.isnan(y[[1, 2, 4, 5]]).all()
        assert y[3, 7] == (0 if name == "SoftmaxForward" else -np.inf)
        rest = np.delete(y[3], 7)
        assert np.isfinite(rest).all()
        assert np.isfinite(y[[0, 6]]).all()


def test_the_largest_may_be_anywhere_and_of_any_sign(fast):
    module = fast("softmax")
    for low in (-5.0, -1e30, 1e-30, 1e20):
        for place in range(0, 70, 3):
            x = np.full((1, 70), low, np.float32)
            x[0, place] = low * 0.5 if low < 0 else low * 2
            want = probabilities(x.astype(np.float64))
            np.testing.assert_allclose(
                call(module, "SoftmaxForward", it.tensor(x)), want, rtol=1e-6, atol=1e-37
            )


def test_equal_threads_give_equal_bits(fast):
    module = fast("softmax")
    x = it.tensor(np.random.default_rng(1).standard_normal((67, 1031)).astype(np.float32))
    first, again = (call(module, "SoftmaxForward", x).tobytes() for _ in range(2))
    assert first == again


def test_other_axes_are_numpys():
    x = it.ones(2, 3, 4)
    for name, args in (("SoftmaxForward", (x,)), ("LogSoftmaxBackward", (x, x))):
        found = [find_kernel(OPS[name], DeviceType.CPU, {"float32"}, (*args, i)).fn for i in range(3)]
        assert [isinstance(fn, str) for fn in found] == [False, False, True]
