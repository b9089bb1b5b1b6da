"""Random streams: what they depend on, and what they look like."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from infinitrain import random
from infinitrain.device import Device, DeviceType
from infinitrain.errors import DeviceMismatchError, DtypeError, InfiniTrainError, ShapeError
from infinitrain.random import Generator


def test_words_are_those_of_philox4x64_10() -> None:
    # Known answer of the Random123 suite: key 0, counter 0, which NumPy reaches from counter -1.
    block = np.random.Philox(key=0, counter=2**256 - 1).random_raw(4)
    assert [f"{int(w):016x}" for w in block] == [
        "16554d9eca36314c",
        "db20fe9d672d0fdc",
        "d7e772cee186176b",
        "7e68b68aec7ba23b",
    ]
    assert (random.words(5, 0, 4) == np.random.Philox(key=5, counter=0).random_raw(4)).all()


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (1, 2), (3, 9), (4, 40), (17, 17), (38, 40)])
def test_a_slice_is_the_slice_of_the_whole(start: int, stop: int) -> None:
    whole = random.words(99, 0, 40)
    assert (random.words(99, start, stop) == whole[start:stop]).all()
    normal = random.normal_slice(3, "a.weight", 0, 40)
    assert (random.normal_slice(3, "a.weight", start, stop) == normal[start:stop]).all()


def test_the_formulas_are_the_documented_ones() -> None:
    raw = random.words(random.weight_key(11, "x"), 0, 1000)
    high, low = (raw >> 32).astype(object), (raw & np.uint64(0xFFFFFFFF)).astype(object)
    for i in range(1000):
        u, angle = (float(high[i]) + 0.5) / 2**32, 2 * np.pi * float(low[i]) / 2**32
        expected = np.sqrt(-2 * np.log(u)) * np.cos(angle)
        assert random.normal_slice(11, "x", i, i + 1)[0] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert random.uniform_slice(11, "x", 0, 1)[0] == int(raw[0]) // 2**11 / 2**53


def test_normal_numbers_have_the_moments_of_the_normal_distribution() -> None:
    z = random.normal_slice(2, "w", 0, 200_000)
    n = len(z)
    assert abs(z.mean()) < 4 / n**0.5
    assert abs(z.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs((z**4).mean() - 3) < 4 * (96 / n) ** 0.5
    assert abs((z**3).mean()) < 4 * (15 / n) ** 0.5
    assert abs((np.abs(z) < 1).mean() - 0.682689) < 4 * 0.4654 / n**0.5
    assert abs(np.corrcoef(z[:-1], z[1:])[0, 1]) < 4 / n**0.5


def test_streams_of_other_seeds_and_names_have_nothing_in_common() -> None:
    a = random.normal_slice(1, "a", 0, 10_000)
    for other in (random.normal_slice(2, "a", 0, 10_000), random.normal_slice(1, "b", 0, 10_000)):
        assert abs(np.corrcoef(a, other)[0, 1]) < 0.05


def test_extreme_words_give_finite_numbers() -> None:
    raw = np.array([0, 2**64 - 1, 2**32 - 1, 2**32], dtype=np.uint64)
    assert np.isfinite(random.to_normal(raw)).all()
    assert np.abs(random.to_normal(raw)).max() < 6.8
    assert random.to_uniform(raw).max() < 1.0
    assert np.float32(random.to_uniform(raw, 24).max()) < 1.0


def test_same_seed_same_draw() -> None:
    a, b = Generator(seed=5), Generator(seed=5)
    assert (a.normal((3, 4)).numpy() == b.normal((3, 4)).numpy()).all()
    assert (a.uniform((7,)).numpy() == b.uniform((7,)).numpy()).all()
    assert not (a.normal((3, 4)).numpy() == Generator(seed=6).normal((3, 4)).numpy()).any()


def test_draws_go_on_where_the_last_one_ended() -> None:
    one, two = Generator(seed=1), Generator(seed=1)
    whole = one.normal((10,)).numpy()
    parts = np.concatenate([two.normal((3,)).numpy(), two.normal((7,)).numpy()])
    assert (whole == parts).all()


def test_large_draws_do_not_show_their_pieces() -> None:
    n = random._PIECE + 5
    drawn = Generator(seed=8).uniform((n,), dtype="float64").numpy()
    key = random.stream_key("generator", 8)
    assert (drawn == random.to_uniform(random.words(key, 0, n))).all()


def test_the_state_makes_a_round_trip() -> None:
    g = Generator(seed=3)
    g.normal((5,))
    state = g.state_dict()
    expected = g.normal((5,)).numpy()
    other = Generator(seed=77)
    other.load_state_dict(state)
    assert (other.normal((5,)).numpy() == expected).all()


@pytest.mark.parametrize(
    "state", [{}, {"seed": 1}, {"seed": 1, "position": -1}, {"seed": 1, "position": 1.5}]
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(state: dict) -> None:
    g = Generator(seed=3)
    g.normal((2,))
    with pytest.raises(InfiniTrainError, match="state"):
        g.load_state_dict(state)
    assert g.state_dict() == {"seed": 3, "position": 2}


def test_a_refused_call_leaves_the_state_untouched() -> None:
    g = Generator(seed=3)
    with pytest.raises(ShapeError, match="shape"):
        g.normal((2, -1))
    with pytest.raises(ShapeError):
        g.uniform((2.5,))  # type: ignore[arg-type]
    with pytest.raises(DtypeError, match="floating"):
        g.normal((2,), dtype="int32")
    with pytest.raises(ValueError, match="std"):
        g.normal((2,), std=-1)
    with pytest.raises(ValueError, match="low <= high"):
        g.uniform((2,), low=1, high=0)
    with pytest.raises(DeviceMismatchError, match="cannot draw for"):
        random.normal((2,), device=Device(DeviceType.CUDA, 0), generator=g)
    with pytest.raises(ValueError, match=r"0 \.\. 2\*\*64"):
        g.manual_seed(-1)
    assert g.state_dict() == {"seed": 3, "position": 0}


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_uniform_stays_below_one_and_fills_the_interval(dtype: str) -> None:
    x = Generator(seed=4).uniform((20_000,), dtype=dtype).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 0.5) < 0.01
    assert np.histogram(x, 16, (0, 1))[0].min() > 1000


def test_bounds_mean_and_deviation() -> None:
    g = Generator(seed=4)
    u = g.uniform((50_000,), low=-3, high=-1).numpy()
    assert -3 <= u.min() < -2.99
    assert -1.01 < u.max() <= -1
    z = g.normal((50_000,), mean=7, std=0.5).numpy()
    assert abs(z.mean() - 7) < 0.01
    assert abs(z.std() - 0.5) < 0.01


def test_default_generators_belong_to_a_thread() -> None:
    random.manual_seed(9)
    try:
        expected = random.normal((4,)).numpy()
        random.manual_seed(9)
        found = []

        def other() -> None:
            random.normal((100,))
            random.manual_seed(9)
            found.append(random.normal((4,)).numpy())

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (found[0] == expected).all()
        assert (random.normal((4,)).numpy() == expected).all()
    finally:
        random.manual_seed(random.DEFAULT_SEED)
