"""The fast embedding kernels against float64 NumPy written apart: values, order of sums, bad indices."""

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

SHAPES = [(7, 1, (3,)), (300, 768, (2, 128)), (1000, 129, (1031,)), (65, 130, (16, 65)), (3, 16, (0,))]


@pytest.fixture(params=[1, 2, 3])
def nt(request):
    """A number of threads, set for the time of the test."""
    before = it.get_num_threads()
    it.set_num_threads(request.param)
    yield request.param
    it.set_num_threads(before)


def ids_of(shape, rows, order):
    if order == "arange":
        return np.broadcast_to(np.arange(shape[-1]) % rows, shape).copy()
    return np.random.default_rng(len(shape)).integers(0, rows, shape) ** 2 % rows  # some often, some never


@pytest.mark.parametrize(("rows", "width", "shape"), SHAPES)
@pytest.mark.parametrize("order", ["random", "arange"])
def test_forward_copies_rows(nt, rows, width, shape, order):
    weight = np.random.default_rng(1).standard_normal((rows, width)).astype(np.float32)
    weight[0] = np.nan, *[-np.inf] * (width > 1), *[-0.0] * (width - 2)
    ids = ids_of(shape, rows, order)
    got = ops.EmbeddingForward(it.tensor(ids), it.tensor(weight)).numpy()
    assert got.tobytes() == b"".join(weight[i].tobytes() for i in ids.reshape(-1))
    assert got.shape == (*shape, width)


@pytest.mark.parametrize(("rows", "width", "shape"), SHAPES)
@pytest.mark.parametrize("order", ["random", "arange"])
def test_backward_adds_rows(nt, rows, width, shape, order):
    rng = np.random.default_rng(2)
    ids = ids_of(shape, rows, order)
    grad = rng.standard_normal((*shape, width)).astype(np.float32)
    before = rng.standard_normal((rows, width)).astype(np.float32)
    want = np.zeros((rows, width))
    for i, g in zip(ids.reshape(-1), grad.reshape(-1, width), strict=True):
        want[i] += g
    count = np.bincount(ids.reshape(-1), minlength=rows).max()
    close = {"rtol": 0, "atol": 1e-6 * max(1, count)}
    index, g = it.tensor(ids), it.tensor(grad)
    np.testing.assert_allclose(ops.EmbeddingBackward(index, g, rows).numpy(), want, **close)
    held = it.tensor(before)
    ops.EmbeddingBackward(index, g, rows, out=held, accumulate=True)
    np.testing.assert_allclose(held.numpy(), before + want, **close)
    held.fill_(float("nan"))
    ops.EmbeddingBackward(index, g, rows, out=held)
    np.testing.assert_allclose(held.numpy(), want, **close)


def test_a_nan_stays_in_its_row(nt):
    index, grad = it.tensor([2, 0, 2]), it.tensor([[1.0, np.nan], [3.0, np.inf], [4.0, 5.0]])
    got = ops.EmbeddingBackward(index, grad, 3).numpy()
    np.testing.assert_array_equal(got, [[3.0, np.inf], [0.0, 0.0], [5.0, np.nan]])


def test_bits_do_not_depend_on_threads():
    rng = np.random.default_rng(3)
    index = it.tensor(rng.integers(0, 9, 2000))
    grad = it.tensor(rng.standard_normal((2000, 150)).astype(np.float32))
    before, found = it.get_num_threads(), set()
    for n in (1, 2, 3, 2):
        it.set_num_threads(n)
        found.add(ops.EmbeddingBackward(index, grad, 9).numpy().tobytes())
    it.set_num_threads(before)
    assert len(found) == 1


@pytest.mark.parametrize("bad", [-1, 9, 2**62])
@pytest.mark.parametrize("accumulate", [False, True])
def test_bad_indices_write_nothing(nt, bad, accumulate):
    """[contract 4.7]"""
    ids = np.zeros(1000, np.int64)
    ids[700] = bad
    index, weight = it.tensor(ids), it.ones(9, 128)
    target, y = it.full((9, 128), 3.0), it.full((1000, 128), 4.0)
    with pytest.raises(IndexError, match=rf"EmbeddingForward: index {bad} at position \[700\]"):
        ops.EmbeddingForward(index, weight, out=y)
    with pytest.raises(IndexError, match=rf"EmbeddingBackward: index {bad} at position \[700\]"):
        ops.EmbeddingBackward(index, y, 9, out=target, accumulate=accumulate)
    assert set(target.numpy().reshape(-1)) == {3.0}
    assert set(y.numpy().reshape(-1)) == {4.0}
