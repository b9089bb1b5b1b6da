"""Rotary position embedding against complex numbers and a rotation matrix in float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

pytestmark = pytest.mark.usefixtures("layer")


def tables(size: int, length: int, dtype: str = "float64"):
    return ops.rope_table(size, length, 100.0, dtype=dtype)


def rotated_by_matrices(x, size, rotated, interleaved, position, theta=100.0):
    """Return x with each pair of each rotated head multiplied by its own 2 x 2 matrix."""
    y = x.astype(np.float64)
    for t in range(x.shape[1]):
        for j in range(size // 2):
            angle = (position + t) * theta ** (-2 * j / size)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            pair = [2 * j, 2 * j + 1] if interleaved else [j, j + size // 2]
            for head in range(rotated):
                columns = [head * size + p for p in pair]
                y[:, t, columns] = y[:, t, columns] @ turn.T
    return y


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("b", "t", "heads", "rotated", "size", "position"),
    [(2, 5, 3, 2, 6, 0), (1, 1, 2, 1, 2, 7), (2, 3, 4, 4, 4, 2), (1, 4, 3, 0, 4, 0), (3, 50, 2, 1, 8, 13)],
)
def test_forward_and_gradient(b, t, heads, rotated, size, position, interleaved, rng):
    x = rng.normal(0.5, 1, (b, t, heads * size))
    cos, sin = tables(size, position + t + 1)
    tensor = it.from_numpy(x, requires_grad=True)
    y = ops.rope(tensor, cos, sin, heads, rotated, interleaved=interleaved, position=position)
    want = rotated_by_matrices(x, size, rotated, interleaved, position)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(y.numpy()[..., rotated * size :], x[..., rotated * size :])
    if t < 10:
        gradcheck(
            lambda v: ops.rope(v, cos, sin, heads, rotated, interleaved=interleaved, position=position),
            tensor,
        )


@pytest.mark.parametrize("interleaved", [True, False])
@pytest.mark.parametrize(
    ("dtype", "unit"), [("float32", 2.0**-23), ("bfloat16", 2.0**-8), ("float16", 2.0**-11)]
)
def test_rounds_once(dtype, unit, interleaved, rng):
    """Products and their sum in float32, the result rounded to the argument's dtype [contract 4.7]."""
    x = it.from_numpy(rng.normal(0.5, 3, (2, 9, 4 * 16))).astype(dtype)
    cos, sin = tables(16, 9, "float32")
    x.requires_grad = False
    y = ops.rope(x, cos, sin, 4, 3, interleaved=interleaved)
    assert y.dtype.name == dtype
    given = x.numpy().astype(np.float64)
    want = rotated_by_matrices(given, 16, 3, interleaved, 0)
    error = np.abs(y.numpy().astype(np.float64) - want)
    assert (error <= unit * np.abs(want) + 4 * 2.0**-23 * np.abs(given).max()).all()


def test_all_heads_by_default(rng):
    x = it.from_numpy(rng.normal(size=(1, 3, 8)))
    cos, sin = tables(4, 3)
    np.testing.assert_array_equal(ops.rope(x, cos, sin, 2).numpy(), ops.rope(x, cos, sin, 2, 2).numpy())


def test_backward_turns_back(rng):
    x = it.from_numpy(rng.normal(size=(2, 6, 24)).astype(np.float32))
    cos, sin = tables(8, 10, "float32")
    there = ops.RopeForward(x, cos, sin, 3, 2, False, 4)
    back = ops.RopeBackward(there, cos, sin, 3, 2, False, 4)
    np.testing.assert_allclose(back.numpy(), x.numpy(), rtol=1e-5, atol=1e-6)


def test_scores_depend_on_distance_only(rng):
    """What rotation is for: q at position m times k at position n is the same for equal m - n."""
    q, k = (it.from_numpy(rng.normal(size=(1, 1, 8))) for _ in range(2))
    cos, sin = tables(8, 40)

    def score(m, n):
        return float((ops.rope(q, cos, sin, 1, position=m) * ops.rope(k, cos, sin, 1, position=n)).sum())

    assert score(3, 1) == pytest.approx(score(39, 37), rel=1e-12)
    assert score(3, 1) != pytest.approx(score(4, 1), rel=1e-3)


def test_a_sequence_in_pieces(rng):
    """Step by step with a position, as with a cache, is the whole at once."""
    x = it.from_numpy(rng.normal(size=(2, 7, 12)).astype(np.float32))
    cos, sin = tables(4, 7, "float32")
    whole = ops.rope(x, cos, sin, 3, 2).numpy()
    for start, stop in ((0, 4), (4, 5), (5, 7)):
        piece = it.from_numpy(x.numpy()[:, start:stop])
        np.testing.assert_array_equal(
            ops.rope(piece, cos, sin, 3, 2, position=start).numpy(), whole[:, start:stop]
        )


def test_table_is_rounded_once():
    """At position 100,000 an angle computed in float32 would be off by 4e-3."""
    cos, sin = ops.rope_table(64, 100_001, 500_000.0)
    assert (cos.dtype, cos.shape, sin.shape) == (it.float32, (100_001, 32), (100_001, 32))
    j = np.arange(32)
    angle = 100_000 / 500_000.0 ** (2 * j / 64)
    np.testing.assert_allclose(cos.numpy()[-1], np.cos(angle), rtol=0, atol=2.0**-24 + 1e-10)
    np.testing.assert_allclose(sin.numpy()[-1], np.sin(angle), rtol=0, atol=2.0**-24 + 1e-10)
    assert cos.numpy()[0].tolist() == [1.0] * 32
    assert ops.rope_table(2, 0)[0].shape == (0, 1)


def test_special_values_stay_in_their_pair():
    x = np.ones((1, 2, 8), np.float32)
    x[0, 0, 2], x[0, 1, 5] = np.nan, np.inf
    cos, sin = tables(4, 2, "float32")
    y = ops.rope(it.from_numpy(x), cos, sin, 2, 1).numpy()
    assert np.isnan(y[0, 0, 2:4]).all()
    assert y[0, 1, 5] == np.inf
    assert np.isfinite(y[0, 0, [0, 1, 4, 5, 6, 7]]).all()
    assert np.isfinite(y[0, 1, [0, 1, 2, 3, 4, 6, 7]]).all()


def test_empty():
    cos, sin = tables(4, 3)
    assert ops.rope(it.from_numpy(np.zeros((2, 0, 8))), cos, sin, 2).shape == (2, 0, 8)
    assert ops.rope(it.from_numpy(np.zeros((0, 3, 8))), cos, sin, 2).shape == (0, 3, 8)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"heads": 3}, ShapeError, "x \\(2, 3, 16\\) is not \\(B, T, heads d\\) for 3 heads"),
        ({"heads": 16}, ShapeError, "for 16 heads of an even size"),
        ({"heads": 0}, ShapeError, "for 0 heads"),
        ({"rotated": 5}, ShapeError, "rotated=5 is not in 0..4"),
        ({"rotated": -1}, ShapeError, "rotated=-1 is not in 0..4"),
        ({"position": 3}, ShapeError, "position=3 and 3 steps leave the table of 5 positions"),
        ({"position": -1}, ShapeError, "position=-1 and 3 steps"),
        ({"position": 1.0}, DtypeError, "position is an int, got 1.0"),
        ({"interleaved": 1}, DtypeError, "interleaved is a bool, got 1"),
    ],
)
def test_what_does_not_fit(change, error, match):
    how = {"heads": 4, "rotated": 2, "interleaved": True, "position": 0} | change
    x = it.ones(2, 3, 16)
    cos, sin = tables(4, 5, "float32")
    with pytest.raises(error, match=f"(rope|RopeForward).*{match}"):
        ops.rope(x, cos, sin, how.pop("heads"), how.pop("rotated"), **how)


def test_tables_that_do_not_fit():
    x = it.ones(2, 3, 16)
    cos, sin = tables(4, 5, "float32")
    with pytest.raises(ShapeError, match=r"RopeForward.*cos has shape \(5, 3\), expected \(positions, 2\)"):
        ops.rope(x, it.ones(5, 3), sin, 4)
    with pytest.raises(ShapeError, match=r"RopeForward.*sin has shape \(4, 2\), expected \(5, 2\)"):
        ops.rope(x, cos, it.ones(4, 2), 4)
    with pytest.raises(DtypeError, match=r"RopeForward.*sin has dtype bfloat16, expected float32"):
        ops.rope(x, cos, sin.astype("bfloat16"), 4)
    with pytest.raises(DtypeError, match=r"RopeForward.*cos has dtype float64, expected float32"):
        ops.rope(x, *tables(4, 5), 4)
    for wrong in ((3, 5), (0, 5), (4, -1)):
        with pytest.raises(ShapeError, match=f"rope_table: size={wrong[0]}"):
            ops.rope_table(*wrong)
    with pytest.raises(ShapeError, match=r"theta=0.0"):
        ops.rope_table(4, 5, 0.0)
    with pytest.raises(DtypeError, match=r"dtype=bfloat16"):
        ops.rope_table(4, 5, dtype="bfloat16")
