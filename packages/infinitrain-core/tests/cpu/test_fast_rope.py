"""Rotary positions, the fast kernels, against rotation matrices in float64."""

import numpy as np
import pytest

import infinitrain as it

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")


def turned(x, angles, heads, rotated, interleaved, sign):
    """Turn each pair by its angle, one pair after another."""
    y = x.astype(np.float64).copy()
    size = x.shape[2] // heads
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            for h in range(rotated):
                for j in range(size // 2):
                    one, two = (2 * j, 2 * j + 1) if interleaved else (j, j + size // 2)
                    at = [h * size + one, h * size + two]
                    c, s = np.cos(angles[t, j]), sign * np.sin(angles[t, j])
                    y[b, t, at] = np.array([[c, -s], [s, c]]) @ y[b, t, at]
    return y


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("b", "t", "heads", "size", "rotated", "position"),
    [(1, 1, 1, 2, 1, 0), (2, 5, 3, 6, 2, 4), (3, 7, 2, 34, 2, 0), (2, 3, 2, 4, 0, 1), (1, 9, 4, 64, 3, 2)],
)
def test_rotation_and_back(fast, b, t, heads, size, rotated, position, interleaved):
    module = fast("rope")
    rng = np.random.default_rng(size)
    x = rng.standard_normal((b, t, heads * size)).astype(np.float32)
    angles = rng.uniform(-9, 9, (position + t + 2, size // 2))
    cos, sin = (it.tensor(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    how = (heads, rotated, interleaved, position)
    for name, sign in (("RopeForward", 1), ("RopeBackward", -1)):
        out = it.full(x.shape, float("nan"))
        getattr(module, name)(it.tensor(x), cos, sin, *how, out=out)
        want = turned(x, angles[position:], heads, rotated, interleaved, sign)
        np.testing.assert_allclose(out.numpy(), want, rtol=0, atol=2e-6)
        still = slice(rotated * size, None)
        np.testing.assert_array_equal(out.numpy()[..., still], x[..., still])


@pytest.mark.parametrize("interleaved", [True, False])
def test_special_values_stay_in_their_pair(fast, interleaved):
    module = fast("rope")
    x = np.ones((1, 4, 24), np.float32)
    x[0, 1, 2], x[0, 2, 20], x[0, 3, 21] = np.nan, np.nan, -0.0
    cos, sin = it.ops.rope_table(8, 4)
    out = it.zeros(1, 4, 24)
    module.RopeForward(it.tensor(x), cos, sin, 3, 2, interleaved, 0, out=out)
    found = sorted(map(tuple, np.argwhere(np.isnan(out.numpy())).tolist()))
    assert found == [(0, 1, 2), (0, 1, 3 if interleaved else 6), (0, 2, 20)]
    assert np.signbit(out.numpy()[0, 3, 21])
