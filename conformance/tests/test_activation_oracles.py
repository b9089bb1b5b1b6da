"""The oracles of activations, clamp and dropout, against finite differences and NumPy's Philox."""

from __future__ import annotations

import numpy as np
import pytest
from differences import slope

from infinitrain_conformance.oracles import activation, clamp, dropout


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.mark.parametrize("name", ["silu", "erf"])
def test_functions_of_one_tensor(rng, name):
    x = rng.normal(0, 3, 30)
    grad = rng.normal(size=30) + x
    want = slope(lambda v: getattr(activation, name)(v)["y"].value, x, grad)
    got = getattr(activation, f"{name}_backward")(grad, x)["dx"].value
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


def test_relu(rng):
    x, grad = rng.normal(size=30), rng.normal(size=30)
    y = activation.relu(x)["y"].value
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    want = slope(lambda v: activation.relu(v)["y"].value, x, grad)
    np.testing.assert_allclose(activation.relu_backward(grad, y)["dx"].value, want, rtol=1e-6, atol=1e-9)


def test_swiglu(rng):
    x = rng.normal(size=(3, 10))
    grad = rng.normal(size=(3, 5)) + x[:, :5]
    np.testing.assert_allclose(
        activation.swiglu(x)["y"].value, x[:, :5] / (1 + np.exp(-x[:, :5])) * x[:, 5:], rtol=1e-13
    )
    want = slope(lambda v: activation.swiglu(v)["y"].value, x, grad)
    np.testing.assert_allclose(
        activation.swiglu_backward(x, grad)["dgate_up"].value, want, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_linear_gelu(rng, form):
    x, weight, bias = rng.normal(size=(4, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    got = activation.linear_gelu(x, weight, bias, form)
    np.testing.assert_allclose(got["pre"].value, x @ weight.T + bias, rtol=1e-13)
    np.testing.assert_allclose(
        got["y"].value, activation.gelu(x @ weight.T + bias, form)["y"].value, rtol=1e-12
    )


def test_clamp(rng):
    x, grad = rng.normal(size=40), rng.normal(size=40)
    np.testing.assert_array_equal(clamp.clamp(x, -0.5, 0.7)["y"].value, np.clip(x, -0.5, 0.7))
    want = slope(lambda v: clamp.clamp(v, -0.5, 0.7)["y"].value, x, grad)
    np.testing.assert_allclose(
        clamp.clamp_backward(grad, x, -0.5, 0.7)["dx"].value, want, rtol=1e-6, atol=1e-9
    )
    edges = clamp.clamp_backward(np.ones(4), np.array([-0.5, 0.7, 0.8, np.nan]), -0.5, 0.7)["dx"].value
    np.testing.assert_array_equal(edges, [1, 1, 0, 0])


@pytest.mark.parametrize(("name", "numpy"), [("larger", np.maximum), ("smaller", np.minimum)])
def test_larger_and_smaller(rng, name, numpy):
    a, b = rng.normal(size=(4, 1, 5)), rng.normal(size=(3, 1))
    grad = rng.normal(size=(4, 3, 5)) + 0.5
    np.testing.assert_array_equal(getattr(clamp, name)(a, b)["y"].value, numpy(a, b))
    got = getattr(clamp, f"{name}_backward")(grad, a, b)
    np.testing.assert_allclose(got["da"].value, slope(lambda v: numpy(v, b), a, grad), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(got["db"].value, slope(lambda v: numpy(a, v), b, grad), rtol=1e-6, atol=1e-8)
    tie = getattr(clamp, f"{name}_backward")(np.array([6.0]), np.array([2.0]), np.array([2.0]))
    assert (tie["da"].value, tie["db"].value) == ([3.0], [3.0])


def words(key: int, *counter: int) -> list[int]:
    """Return the words of one block."""
    return [int(word[0]) for word in dropout.philox((key, 0), [np.array([c], np.uint64) for c in counter])]


def test_philox_is_the_published_one():
    """Random123's known answers, and NumPy's raw words; NumPy counts before it draws."""
    assert words(0, 0, 0, 0, 0) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]
    for key, counter in ((2**64 - 3, (8, 7, 6, 5)), (2**63 + 12345, (2**64 - 9, 2**63 + 1, 2**33, 1))):
        raw = np.random.Philox(key=key, counter=np.array(counter, np.uint64)).random_raw(8)
        assert [*words(key, counter[0] + 1, *counter[1:]), *words(key, counter[0] + 2, *counter[1:])] == [
            *raw
        ]


def test_dropout_masks_depend_on_the_sample_and_not_on_the_batch():
    whole = dropout.kept((6, 3, 7), 0.4, 99, 2, 10)
    np.testing.assert_array_equal(whole[4:], dropout.kept((2, 3, 7), 0.4, 99, 2, 14))
    assert 0.4 < whole.mean() < 0.8
