"""The fast optimizer kernels against float64 NumPy written apart, whatever the threads and the cut into tensors."""

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.cpu import fast

pytest.importorskip("numba", reason="the extra infinitrain-core[fast] is not installed")

SIZES = [(1,), (70001,), (16384, 1, 0, 129, 65537, 16), (37,) * 50]


@pytest.fixture(params=[1, 2, 3])
def nt(request):
    """A number of threads, set for the time of the test."""
    before = it.get_num_threads()
    it.set_num_threads(request.param)
    yield request.param
    it.set_num_threads(before)


def random(sizes, seed, positive=False):
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal(n).astype(np.float32) for n in sizes]
    return [np.square(a) for a in found] if positive else found


def tensors(arrays):
    return [it.tensor(a) for a in arrays]


def compare(got, want):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_adamw(nt, sizes, decay):
    ps, gs, ms, vs = random(sizes, 1), random(sizes, 2), random(sizes, 3), random(sizes, 4, positive=True)
    lr, b1, b2, eps, step = 0.05, 0.8, 0.95, 1e-6, 7
    lists = [tensors(a) for a in (ps, gs, ms, vs)]
    ops.AdamW(*lists, lr, b1, b2, eps, decay, step)
    want = [[], [], []]
    for p, g, m, v in zip(*[[a.astype(np.float64) for a in x] for x in (ps, gs, ms, vs)], strict=True):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        p = p - lr * decay * p - lr * (m / (1 - b1**step)) / (np.sqrt(v / (1 - b2**step)) + eps)
        for held, a in zip(want, (p, m, v), strict=True):
            held.append(a)
    compare(lists[0] + lists[2] + lists[3], want[0] + want[1] + want[2])
    compare(lists[1], gs)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("momentum", [None, (0.9, 0.0, False), (0.9, 0.25, False), (0.7, 0.0, True)])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_sgd(nt, sizes, momentum, first, decay):
    ps, gs, bs = (random(sizes, seed) for seed in (5, 6, 7))
    if first:
        bs = [np.full_like(b, np.nan) for b in bs]
    mu, dampening, nesterov = momentum or (0.0, 0.0, False)
    p_, g_, b_ = (tensors(a) for a in (ps, gs, bs))
    ops.SGD(p_, g_, b_ if momentum else (), 0.1, mu, dampening, decay, nesterov, first)
    want_p, want_b = [], []
    for p, g, b in zip(*[[a.astype(np.float64) for a in x] for x in (ps, gs, bs)], strict=True):
        g = g + decay * p
        held = g if first else mu * b + (1 - dampening) * g
        want_b.append(held)
        step = g if not momentum else g + mu * held if nesterov else held
        want_p.append(p - 0.1 * step)
    compare(p_, want_p)
    if momentum:
        compare(b_, want_b)


def test_infinite_parameters_stay_without_decay():
    p, g = it.tensor([math.inf, 1.0] * 20000), it.tensor([1.0, 2.0] * 20000)
    ops.SGD([p], [g], (), 0.5, 0.0, 0.0, 0.0, False, True)
    assert p.numpy()[:2].tolist() == [math.inf, 0.0]


BIG = 40000  # smaller lists are NumPy's


@pytest.mark.parametrize("sizes", [(BIG,), (1, 0, BIG, 16385), (801,) * 50])
@pytest.mark.parametrize("factor", [1.0, 1e-30, 1e30])
def test_norm(nt, sizes, factor):
    arrays = [a * np.float32(factor) for a in random(sizes, 8)]
    want = math.sqrt(sum(float(np.sum((a.astype(np.float64)) ** 2)) for a in arrays))
    got = ops.GlobalNorm(tensors(arrays))
    assert got.item() == pytest.approx(want, rel=1e-6)
    assert got.dtype is it.float32


@pytest.mark.parametrize(
    ("value", "norm"), [(1e-42, 1e-42), (3e38, 3e38), (math.inf, math.inf), (-math.inf, math.inf)]
)
def test_norm_of_one_element(nt, value, norm):
    x = np.zeros(BIG, np.float32)
    x[-3] = value
    assert ops.GlobalNorm([it.tensor(x)]).item() == pytest.approx(norm, rel=1e-2)
    assert ops.AllFinite([it.tensor(x)]).item() is math.isfinite(value)


def test_norm_with_nan(nt):
    x = np.ones(BIG, np.float32)
    x[17000], x[5] = np.nan, np.inf
    assert math.isnan(ops.GlobalNorm([it.tensor(x)]).item())
    assert ops.AllFinite([it.tensor(x)]).item() is False


def test_scale(nt):
    arrays = random((BIG, 0, 3, 16385), 9)
    given = tensors(arrays)
    ops.ScaleInPlace(given, 0.3)
    compare(given, [a.astype(np.float64) * 0.3 for a in arrays])


def _bits(seed):
    x = tensors(random((70001, 300), seed))
    lists = [x, *(tensors(random((70001, 300), seed + i, positive=i == 3)) for i in (1, 2, 3))]
    norm = ops.GlobalNorm(x).numpy().tobytes()
    ops.AdamW(*lists, 1e-3, 0.9, 0.99, 1e-8, 0.1, 2)
    ops.SGD(*lists[:3], 1e-3, 0.9, 0.1, 0.1, False, False)
    return norm, *(t.numpy().tobytes() for part in lists for t in part)


def test_bits_do_not_depend_on_threads():
    before = it.get_num_threads()
    found = set()
    for n in (1, 2, 3, 2):
        it.set_num_threads(n)
        found.add(_bits(10))
    it.set_num_threads(before)
    assert len(found) == 1


def test_small_lists_are_left_to_numpy():
    few, many = it.ones(100), it.ones(1 << 15)
    assert not fast.SUPPORTS["GlobalNorm"]([few])
    assert fast.SUPPORTS["ScaleInPlace"]([few, many], 0.5)
