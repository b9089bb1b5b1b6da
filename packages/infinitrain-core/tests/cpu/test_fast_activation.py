"""The fast activations and SwiGLU against float64 NumPy written apart, through differences of the functions."""

import math

import numpy as np
import pytest

import infinitrain as it

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {
    "gelu": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "exact": lambda x: x / 2 * (1 + erf(x / math.sqrt(2))),
    "Silu": lambda x: x / (1 + np.exp(-x)),
    "Relu": lambda x: np.where(x < 0, 0.0, x),
    "Sigmoid": lambda x: (1 + np.tanh(x / 2)) / 2,
    "Tanh": np.tanh,
}
SIZES = [1, 17, 1000, 4099]


def call(module, name, *args, like):
    out = it.full(like.shape, float("nan"))
    getattr(module, name)(*args, out=out)
    return out.numpy()


def arguments(size):
    """Numbers of all sizes around 0, where functions bend, and far out, where they saturate."""
    rng = np.random.default_rng(size)
    x = (rng.standard_normal(size) * 10.0 ** rng.uniform(-3, 1.5, size)).astype(np.float32)
    return x, (rng.standard_normal(size) * rng.uniform(0.5, 2, size)).astype(np.float32)


def forward(module, name, x):
    t = it.tensor(x)
    if name in ("gelu", "exact"):
        return call(module, "GeluForward", t, "tanh" if name == "gelu" else "none", like=t)
    return call(module, f"{name}Forward", t, like=t)


def backward(module, name, x, g):
    t, grad = it.tensor(x), it.tensor(g)
    if name in ("gelu", "exact"):
        return call(module, "GeluBackward", t, grad, "tanh" if name == "gelu" else "none", like=t)
    if name == "Silu":
        return call(module, "SiluBackward", grad, t, like=t)
    y = it.tensor(FUNCTIONS[name](x.astype(np.float64)).astype(np.float32))
    return call(module, f"{name}Backward", grad, y, like=t)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"Tanh"}))
def test_forward(fast, name, size):
    x, _ = arguments(size)
    wide = x.astype(np.float64)
    error = np.abs(forward(fast("activation"), name, x) - FUNCTIONS[name](wide))
    assert (error <= 1e-6 * np.minimum(np.abs(wide), 1 + np.abs(FUNCTIONS[name](wide))) + 3e-7).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_backward(fast, name, size):
    x, g = arguments(size)
    if name == "Relu":
        x = np.where(np.abs(x) < 1e-3, np.float32(1), x)  # no difference across the bend
    wide, step = x.astype(np.float64), 1e-5
    slope = (FUNCTIONS[name](wide + step) - FUNCTIONS[name](wide - step)) / (2 * step)
    np.testing.assert_allclose(backward(fast("activation"), name, x, g), g * slope, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"Tanh"}))
def test_ends(fast, name):
    """NaN stays, what is finite stays finite, and the rest is not disturbed."""
    module = fast("activation")
    top = float(np.finfo(np.float32).max)
    x = np.array([1, np.nan, top, -top, np.inf, 0.0, -0.0, 200, -200, 1e-40, 2], np.float32)
    y = forward(module, name, x)
    d = backward(module, name, x, np.full(x.shape, 1.5, np.float32))
    assert np.isnan(y[1])
    assert np.isnan(d[1]) or name == "Relu"
    large = 1 if name == "Sigmoid" else top
    assert y[2] == large
    assert abs(y[3]) == 0
    assert y[4] == (1 if name == "Sigmoid" else np.inf)
    assert y[5:7].tolist() == ([0.5, 0.5] if name == "Sigmoid" else [0, 0])
    saturated = 0.0 if name == "Sigmoid" else 1.5
    assert d[2] == saturated
    assert abs(d[3]) == 0
    assert d[7] == saturated
    assert abs(d[8]) == 0
    np.testing.assert_allclose(y[[0, 10]], FUNCTIONS[name](np.array([1.0, 2.0])), rtol=1e-6)


def test_relus_nan_passes_both_ways(fast):
    module = fast("activation")
    x = np.array([np.nan, -np.nan, -1, 1], np.float32)
    assert np.isnan(forward(module, "Relu", x)).tolist() == [True, True, False, False]
    g = it.tensor(np.array([1, 2, np.nan, np.nan], np.float32))
    d = call(module, "ReluBackward", g, it.tensor(x), like=g)
    np.testing.assert_array_equal(d, [1, 2, 0, np.nan])


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (67, 129), (2, 5, 33)])
def test_swiglu(fast, shape):
    module = fast("gated")
    rng = np.random.default_rng(shape[-1])
    gate, up, g = ((rng.standard_normal(shape) * 3).astype(np.float32) for _ in range(3))
    packed, grad = it.tensor(np.concatenate((gate, up), -1)), it.tensor(g)
    GATE, UP, G = (a.astype(np.float64) for a in (gate, up, g))
    silu = FUNCTIONS["Silu"]
    np.testing.assert_allclose(
        call(module, "SwigluForward", packed, like=grad), silu(GATE) * UP, rtol=3e-6, atol=1e-6
    )
    slope = (silu(GATE + 1e-5) - silu(GATE - 1e-5)) / 2e-5
    want = np.concatenate((G * UP * slope, G * silu(GATE)), -1)
    np.testing.assert_allclose(
        call(module, "SwigluBackward", packed, grad, like=packed), want, rtol=3e-6, atol=3e-6
    )


def test_swiglus_ends(fast):
    module = fast("gated")
    top = float(np.finfo(np.float32).max)
    packed = np.array([[200, -200, np.nan, top, 1, 2, 3, 0.5]], np.float32)
    y = call(module, "SwigluForward", it.tensor(packed), like=it.ones(1, 4))
    np.testing.assert_array_equal(y[0], [200, 0, np.nan, top / 2])
    d = call(module, "SwigluBackward", it.tensor(packed), it.ones(1, 4), like=it.ones(1, 8))
    np.testing.assert_array_equal(d[0], [1, 0, np.nan, 0.5, 200, 0, np.nan, top])


@pytest.mark.parametrize("name", ["Gelu", "Swiglu"])
def test_equal_threads_give_equal_bits(fast, name):
    module = fast("activation" if name == "Gelu" else "gated")
    x = it.tensor(arguments(4098)[0].reshape(1, -1))
    args = (x, "tanh") if name == "Gelu" else (x,)
    like = x if name == "Gelu" else it.ones(1, 2049)
    first, again = (call(module, f"{name}Forward", *args, like=like).tobytes() for _ in range(2))
    assert first == again
