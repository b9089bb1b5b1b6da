"""ComputeContext: a part of a step, computed again in backward or on another thread, is the same [contract 5.4]."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops, random
from infinitrain.autograd import ComputeContext, Function, enable_grad, is_grad_enabled, no_grad
from infinitrain.autograd.grad_mode import state
from infinitrain.masks import current_step


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    it.manual_seed(5)
    yield
    assert (state.autocast, state.regions, state.contexts, state.enabled) == (None, (), (), True)
    assert current_step() is None


class Again(Function, autocast="inside"):
    """Activation recomputation: forward keeps its argument alone, backward runs it again and differentiates that."""

    @staticmethod
    def forward(ctx: Any, x: Any, fn: Callable[[Any], Any]) -> Any:
        ctx.fn, ctx.captured = fn, ComputeContext.capture()
        ctx.save(x)
        return fn(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x = ctx.saved[0].detach()
        x.requires_grad = True
        with ctx.captured, enable_grad():
            y = ctx.fn(x)
        y.backward(grad)
        return x.grad, None


def regions(which: str) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    if "autocast" in which:
        stack.enter_context(it.autocast("cpu", "bfloat16"))
    if "scope" in which:
        stack.enter_context(random.step_scope(seed=3, step=9, first_sample=2, samples=3))
    return stack


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("which", ["", "autocast", "scope", "autocast and scope"])
def test_recomputation_gives_the_same_bits(which: str, depth: int) -> None:
    """Three layers with dropout, each computed again (twice where nested), and another draw between them; the graph is
    walked where other regions, scopes and draws are.
    """

    def train(again: bool) -> list[Any]:
        rng = np.random.default_rng(11)
        x = it.tensor(rng.normal(0.3, 1.0, (6, 5)), dtype="float32", requires_grad=True)
        weights = [
            it.tensor(rng.normal(0.2, 1.0, (5, 5)), dtype="float32", requires_grad=True) for _ in range(3)
        ]
        it.manual_seed(8)
        with regions(which):
            h: Any = x
            for w in weights:

                def layer(h: Any, w: Any = w) -> Any:
                    return ops.dropout(ops.gelu(ops.linear(ops.dropout(h, 0.2, "p"), w)), 0.4, "p")

                def whole(h: Any, layer: Any = layer) -> Any:
                    return Again.apply(h, layer) if again and depth == 2 else layer(h)

                h = ops.dropout(Again.apply(h, whole) if again else layer(h), 0.1, "p")
            loss = ops.sum(h * h)
        position = random.default_generator().position
        assert position == (0 if "scope" in which else 9)
        with it.autocast("cpu", "float16"), random.step_scope(seed=77, step=1):
            loss.backward()
        assert random.default_generator().position == position
        return [loss.numpy(), *(t.grad.numpy() for t in (x, *weights) if t.grad is not None)]

    for got, want in zip(train(True), train(False), strict=True):
        assert np.abs(want).max() > 1e-3
        np.testing.assert_array_equal(got, want)


def observe(x: Any, w: Any) -> tuple[Any, ...]:
    """Return what depends on each part of the context."""
    scope = current_step()
    return (
        ops.linear(x, w).dtype.name,
        is_grad_enabled(),
        ops.dropout(x, 0.5, "a").tolist(),
        random.uniform((3,)).tolist(),
        None if scope is None else (scope.seed, scope.step, scope.first_sample, scope.samples),
    )


def test_on_other_threads_and_many_times() -> None:
    x, w = it.ones(4, 5), it.ones(3, 5, requires_grad=True)
    random.uniform((7,))
    with it.autocast("cpu", "float16"), random.step_scope(seed=1, step=2, samples=4), no_grad():
        ops.dropout(x, 0.5, "a")
        captured = ComputeContext.capture()
        want = observe(x, w)
        assert want != observe(x, w)
    assert want[0] == "float16"
    assert want[1] is False
    found: list[Any] = []

    def run() -> None:
        before = random.default_states()
        for _ in range(3):
            with captured:
                first = observe(x, w)
                with captured:  # inside itself, from the same place
                    found.append(observe(x, w))
                found.append(first)
        assert random.default_states()[0] == before[0]
        found.append(random.default_generator().position)

    run()
    assert found == [want] * 6 + [7 + 3 + 3]
    found.clear()
    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 21
    assert found.count(0) == 3
    assert found.count(want) == 18


def test_what_is_outside_stays_as_it_was() -> None:
    """After an exception too; of generators that were held, that come later, and of a scope that was not there."""
    x, w = it.ones(4, 5), it.ones(3, 5, requires_grad=True)
    generator = random.default_generator()
    empty = ComputeContext.capture()
    want = observe(x, w)
    random.manual_seed(9)
    generator = random.default_generator()
    random.uniform((2,))
    with it.autocast("cpu"), random.step_scope(seed=4, step=4) as scope, no_grad():
        region, before = state.autocast, scope.copy()._met
        for _ in range(2):
            with contextlib.suppress(KeyError), empty:
                assert observe(x, w) == want
                assert current_step() is None
                assert random.default_generator() is generator
                random.default_generator("cuda").random_raw(3)
                raise KeyError
            assert state.autocast is region
            assert current_step() is scope
            assert scope.copy()._met == before
            assert not is_grad_enabled()
            assert (generator.seed, generator.position) == (9, 2)
            later = random.default_generator("cuda")
            assert (later.seed, later.position) == (9, 0)


def test_autocast_that_was_turned_off_is_off() -> None:
    x, w = it.ones(4, 5), it.ones(3, 5)
    with it.autocast("cpu"), it.autocast("cpu", enabled=False):
        captured = ComputeContext.capture()
    with it.autocast("cpu", "float16"):
        with captured:
            assert ops.linear(x, w).dtype is it.float32
            with it.autocast("cpu"):
                assert ops.linear(x, w).dtype is it.bfloat16
        assert ops.linear(x, w).dtype is it.float16


def test_it_is_made_by_capture_alone() -> None:
    with pytest.raises(TypeError, match=r"ComputeContext\.capture\(\) makes one"):
        ComputeContext()
