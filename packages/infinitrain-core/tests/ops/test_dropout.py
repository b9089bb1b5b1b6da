"""Dropout: what its masks depend on, and what not [contract 8.3]."""

from __future__ import annotations

import contextlib
import math
import threading

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops
from infinitrain.backend.optable import OPS
from infinitrain.errors import DtypeError, InfiniTrainError, ShapeError
from infinitrain.random import current_step, default_generator, step_scope


def kept(shape, p, key, step, first):
    """Return the mask by the op table's words: NumPy's Philox, one new stream for each element."""
    found = np.zeros(shape, bool)
    for at in np.ndindex(*shape):
        j = int(np.ravel_multi_index(at[1:], shape[1:])) if len(shape) > 1 else 0
        i = j // 2
        counter = np.array([i // 4, first + (at[0] if at else 0), step, 0], np.uint64)
        word = int(np.random.Philox(key=key, counter=counter).random_raw(4)[i % 4])
        found[at] = ((word >> 32) if j % 2 else (word & 0xFFFFFFFF)) >= round(p * 2**32)
    return found


@pytest.mark.parametrize("shape", [(), (7,), (3, 9), (2, 3, 4), (2, 0), (0, 3)])
def test_the_row_by_its_formula(shape, rng):
    x = rng.normal(2.0, 1.0, shape)
    y = OPS["DropoutForward"].call(it.from_numpy(x), 0.3, 2**64 - 5, 2**40, 17)
    mask = kept(shape, 0.3, 2**64 - 5, 2**40, 17)
    np.testing.assert_allclose(y.numpy(), np.where(mask, x / 0.7, 0.0), rtol=1e-15)
    g = OPS["DropoutBackward"].call(it.from_numpy(x), 0.3, 2**64 - 5, 2**40, 17)
    np.testing.assert_array_equal(g.numpy(), y.numpy())


def scoped(x, p=0.5, path="a", seed=1, step=2, first=0):
    with step_scope(seed=seed, step=step, first_sample=first):
        return ops.dropout(x, p, path)


def test_the_gradient_passes_where_the_value_does(rng):
    x = it.from_numpy(rng.normal(3.0, 1.0, (6, 50)), requires_grad=True)
    y = scoped(x, 0.4)
    grad = rng.normal(size=(6, 50))
    y.backward(it.from_numpy(grad))
    np.testing.assert_allclose(x.grad.numpy(), np.where(y.numpy() == 0, 0.0, grad / 0.6), rtol=1e-14)


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_ranks_with_parts_of_a_batch_drop_what_one_rank_drops(ranks, rng):
    """In threads, as ranks are; odd sizes, so that samples do not start where Philox's blocks do."""
    x = rng.normal(5.0, 1.0, (12, 3, 7))
    whole = scoped(it.from_numpy(x)).numpy()
    part, found = 12 // ranks, {}

    def run(rank):
        rows = slice(rank * part, (rank + 1) * part)
        found[rank] = scoped(it.from_numpy(x[rows]), first=rank * part).numpy()

    threads = [threading.Thread(target=run, args=(r,)) for r in range(ranks)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(np.concatenate([found[r] for r in range(ranks)]), whole)


@pytest.mark.parametrize("seed", range(40))
def test_no_split_of_a_batch_changes_a_mask(seed):
    """Ranks or micro-batches of any sizes, each with the first of its axes made one or not; gradients as well.

    Two draws of one path, so that their count is seen to advance alike.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, rng.integers(2, 4)).tolist()
    parts = [(int(rng.integers(0, 5)), int(rng.integers(0, 3))) for _ in range(rng.integers(1, 6))]
    first, p = int(rng.integers(0, 10)), float(rng.choice([0.2, 0.5, 1.0], p=[0.45, 0.45, 0.1]))

    def draws(samples, start, merged):
        values = np.arange(1.0, samples * math.prod(sizes) + 1).reshape(samples, *sizes)
        shape = (samples * math.prod(sizes[:merged]), *sizes[merged:])
        x = it.from_numpy(values.reshape(shape), requires_grad=True)
        with step_scope(seed=3, step=5, first_sample=start, samples=samples):
            made = [ops.dropout(x, p, "a"), ops.dropout(x, p, "a")]
        assert made[0].shape == shape
        (made[0] * 2.0 + made[1]).backward(it.ones(*shape, dtype="float64"))
        found = [(y.numpy() != 0).reshape(values.shape) for y in made]
        want = (found[0] * 2.0 + found[1]) / (1 - p if p < 1 else 1)
        np.testing.assert_allclose(x.grad.numpy().reshape(values.shape), want, rtol=1e-15)
        return found

    total = sum(n for n, _ in parts)
    plain = it.ones(total, *sizes)
    with step_scope(seed=3, step=5, first_sample=first):
        whole = [ops.dropout(plain, p, "a").numpy() != 0 for _ in range(2)]
    start, found = first, []
    for n, merged in parts:
        found.append(draws(n, start, merged))
        start += n
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([f[k] for f in found]), whole[k])


def test_an_axis_0_that_is_no_samples_is_refused_and_counts_no_draw():
    with step_scope(seed=1, step=2, samples=4) as scope:
        for shape in ((6, 5), (2, 5), (13,), ()):
            with pytest.raises(ShapeError, match=r"dropout: x \[.*on axis 0.*samples=4.*\[contract 8\.3\]"):
                ops.dropout(it.ones(*shape), 0.5)
        assert scope.copy()._met == {}
        assert ops.dropout(it.ones(4, 5)).tolist() == scoped(it.ones(4, 5), path="").tolist()
        with scope.copy(), pytest.raises(ShapeError):
            ops.dropout(it.ones(6, 5), 0.5)
        assert ops.dropout(it.ones(6, 5), 0.0).shape == (6, 5)
    with step_scope(seed=1, step=2, samples=1):
        ops.dropout(it.ones(()))
    with step_scope(seed=1, step=2, samples=0):
        assert ops.dropout(it.ones(0, 3)).shape == (0, 3)
        with pytest.raises(ShapeError, match="samples=0"):
            ops.dropout(it.ones(1, 3))


def test_seed_step_path_sample_and_use_each_change_the_mask():
    x = it.ones((4, 64))
    masks = [
        scoped(x).tolist(),
        scoped(x, seed=2).tolist(),
        scoped(x, step=3).tolist(),
        scoped(x, path="b").tolist(),
        scoped(x, first=4).tolist(),
    ]
    with step_scope(seed=1, step=2):
        assert ops.dropout(x, 0.5, "a").tolist() == masks[0]
        masks.append(ops.dropout(x, 0.5, "a").tolist())
    assert all(a != b for i, a in enumerate(masks) for b in masks[:i])


def test_the_mask_does_not_depend_on_the_dtype():
    zero = [
        scoped(it.ones((3, 40)).astype(d)).numpy() == 0 for d in ("float64", "float32", "float16", "bfloat16")
    ]
    assert all((z == zero[0]).all() for z in zero)


def test_the_share_of_zeros_is_p_and_the_mean_stays():
    """400,000 draws for each p: 5 standard errors, which chance exceeds once in 1.7 million."""
    n = 400_000
    for p in (0.1, 0.5, 0.9, 0.999):
        y = scoped(it.ones((8, n // 8)), p).numpy().astype(np.float64)
        error = math.sqrt(p * (1 - p) / n)
        assert abs((y == 0).mean() - p) < 5 * error
        assert abs(y.mean() - 1) < 5 * error / (1 - p)
        assert np.unique(y).size == 2


def test_neighbours_are_dropped_independently():
    """Along samples and inside them, the correlation of 320,000 pairs stays within 5 standard errors of 0."""
    y = scoped(it.ones((400, 801)), 0.3).numpy() == 0
    for a, b in ((y[:, :-1], y[:, 1:]), (y[:-1], y[1:]), (y[:, :-2], y[:, 2:])):
        r = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(r) < 5 / math.sqrt(a.size)


def test_p_0_is_the_tensor_itself_and_draws_nothing():
    x = it.ones(3)
    before = default_generator().state_dict()
    assert ops.dropout(x, 0.0) is x
    assert ops.dropout(x, 0) is x
    assert default_generator().state_dict() == before


def test_p_1_gives_zeros_even_of_infinities_and_nan():
    x = it.tensor([math.inf, math.nan, 1.0], requires_grad=True)
    y = ops.dropout(x, 1)
    assert y.tolist() == [0, 0, 0]
    y.backward(it.tensor([math.inf, 1.0, math.nan]))
    assert x.grad.tolist() == [0, 0, 0]


def test_without_a_scope_the_default_generator_moves_on():
    it.manual_seed(3)
    x = it.ones((5, 40))
    first, second = ops.dropout(x).tolist(), ops.dropout(x).tolist()
    assert first != second
    assert default_generator().position == 2
    it.manual_seed(3)
    assert [ops.dropout(x).tolist(), ops.dropout(x).tolist()] == [first, second]


def test_a_refused_call_draws_nothing():
    before = default_generator().state_dict()
    for bad, error, message in (
        (lambda: ops.dropout(it.ones(2), 1.5), ValueError, r"dropout: p.* is a number in 0\.\.1, got 1\.5"),
        (lambda: ops.dropout(it.ones(2), -0.1), ValueError, r"dropout: p.*got -0\.1"),
        (lambda: ops.dropout(it.ones(2), math.nan), ValueError, r"dropout: p.*got nan"),
        (lambda: ops.dropout(it.ones(2), "0.5"), ValueError, r"dropout: p.*got '0\.5'"),
        (lambda: ops.dropout(it.tensor([1, 2])), DtypeError, "dropout: x has dtype int64"),
        (lambda: ops.dropout([1.0]), TypeError, "dropout: x is a Tensor, got list"),
    ):
        with pytest.raises(error, match=message):
            bad()
    assert default_generator().state_dict() == before


def test_the_row_names_bad_arguments():
    forward = OPS["DropoutForward"].call
    with pytest.raises(ValueError, match=r"DropoutForward: p.*got 2"):
        forward(it.ones(2), 2, 0, 0, 0)
    with pytest.raises(ValueError, match=r"DropoutBackward: p.*got -1"):
        OPS["DropoutBackward"].call(it.ones(2), -1, 0, 0, 0)
    for args, name in (((-1, 0, 0), "key"), ((0, 2**64, 0), "step"), ((0, 0, 0.5), "first_sample")):
        with pytest.raises(ValueError, match=rf"dropout: {name} is an int in 0 .. 2\*\*64 - 1"):
            forward(it.ones(2), 0.5, *args)


# The scope ------------------------------------------------------------------------------------------------


def test_scopes_nest_and_end_with_exceptions():
    assert current_step() is None
    with step_scope(seed=1, step=2, first_sample=3) as outer:
        assert current_step() is outer
        with contextlib.suppress(KeyError), step_scope(seed=1, step=3):
            assert current_step().step == 3
            raise KeyError
        assert current_step() is outer
    assert current_step() is None


def test_a_scope_is_its_threads_own():
    seen = []
    with step_scope(seed=1, step=2):
        thread = threading.Thread(target=lambda: seen.append(current_step()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_a_copy_of_a_scope_draws_again_what_the_scope_will():
    x = it.ones((2, 50))
    with step_scope(seed=1, step=2) as scope:
        ops.dropout(x)
        again = scope.copy()
        first = ops.dropout(x).tolist()
        with again:
            assert ops.dropout(x).tolist() == first
        assert ops.dropout(x).tolist() != first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": -1, "step": 0}, "a seed is an int"),
        ({"seed": 1, "step": -1}, "step is an int in 0"),
        ({"seed": 1, "step": 0, "first_sample": 1.5}, "first_sample is an int in 0"),
        ({"seed": 1, "step": 0, "samples": -1}, "step_scope: samples is an int >= 0, got -1"),
        ({"seed": 1, "step": 0, "samples": True}, "step_scope: samples is an int >= 0, got True"),
    ],
)
def test_a_scope_refuses_what_is_no_count(given, message):
    with pytest.raises(ValueError, match=message):
        step_scope(**given)


# The module -----------------------------------------------------------------------------------------------


def net(p=0.5):
    return nn.Sequential(nn.Dropout(p), nn.Sequential(nn.Linear(6, 6), nn.Dropout(p)), nn.Dropout(p))


def test_a_module_drops_in_training_only():
    drop, x = nn.Dropout(0.5), it.ones((4, 30))
    assert 0.0 in drop(x).numpy()
    assert drop.eval()(x) is x
    assert nn.Dropout(0.0)(x) is x
    assert repr(drop) == "Dropout(p=0.5)"
    with pytest.raises(ValueError, match=r"Dropout: p.*got 7"):
        nn.Dropout(7)


def test_a_modules_path_enters_the_key():
    model, x = net(), it.ones((4, 6))
    nn.name_paths(model)
    with step_scope(seed=9, step=1):
        drops = [model[0](x).tolist(), model[1][1](x).tolist(), model[2](x).tolist()]
    assert drops[0] != drops[1] != drops[2] != drops[0]
    for module, path, want in (
        (model[0], "0", drops[0]),
        (model[1][1], "1.1", drops[1]),
        (model[2], "2", drops[2]),
    ):
        assert scoped(x, 0.5, path, 9, 1).tolist() == want
        with step_scope(seed=9, step=1):
            assert module(x).tolist() == want


def test_a_wrapper_changes_nothing():
    class Wrapper(nn.Module):
        def __init__(self, module):
            self.module = module

        def forward(self, x):
            return self.module(x)

    model, x = net(), it.ones((4, 6))
    nn.init_weights(model, 5)
    with step_scope(seed=9, step=1):
        bare = model(x).tolist()
    with step_scope(seed=9, step=1):
        assert Wrapper(model)(x).tolist() == bare


def test_a_module_without_a_path_is_refused_in_a_scope():
    with step_scope(seed=1, step=1):
        with pytest.raises(InfiniTrainError, match=r"nn\.name_paths\(model\).*\[contract 8\.3\]"):
            nn.Dropout(0.5)(it.ones(3))
        assert nn.Dropout(0.5).eval()(it.ones(3)).tolist() == [1, 1, 1]


def test_training_steps_of_two_ranks_are_those_of_one():
    """Contract 7.1 with dropout: the mean of two ranks' gradients is one rank's with both batches [contract 8.3]."""
    x = np.random.default_rng(0).normal(size=(8, 6))

    def gradient(rows, first):
        model = net(0.3).to("float64")
        nn.init_weights(model, 5)
        with step_scope(seed=9, step=4, first_sample=first):
            (model(it.from_numpy(x[rows])) * it.from_numpy(x[rows])).mean().backward()
        return model[1][0].weight.grad.numpy()

    whole = gradient(slice(0, 8), 0)
    halves = gradient(slice(0, 4), 0), gradient(slice(4, 8), 4)
    np.testing.assert_allclose((halves[0] + halves[1]) / 2, whole, rtol=1e-12)
    assert np.abs(halves[0] - halves[1]).max() > 1e-3
