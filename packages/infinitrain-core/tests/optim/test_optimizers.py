"""AdamW and SGD against float64 NumPy, over 20 steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, optim

SHAPES = {"w": (5, 3), "b": (7,), "s": (), "u": (2, 3, 2)}
RNG = np.random.Generator(np.random.PCG64(12))
START = {n: RNG.normal(0.2, 1.0, s) for n, s in SHAPES.items()}
GRADS = [{n: RNG.normal(0.1 * t, 1.0 + t / 7, s) for n, s in SHAPES.items()} for t in range(20)]


def _params(dtype: str = "float64") -> dict[str, nn.Parameter]:
    return {n: nn.Parameter(it.tensor(v, dtype=dtype)) for n, v in START.items()}


def _give(params: dict[str, nn.Parameter], grads: dict[str, np.ndarray], only: tuple[str, ...] = ()) -> None:
    """Deliver gradients as backward does: through the engine, into each parameter's destination."""
    for name, p in params.items():
        if not only or name in only:
            p.backward(it.tensor(grads[name], dtype=p.dtype))


def _train(optimizer: optim.Optimizer, params: dict[str, nn.Parameter]) -> dict[str, np.ndarray]:
    for grads in GRADS:
        optimizer.zero_grad()
        _give(params, grads)
        optimizer.step()
    return {n: p.numpy() for n, p in params.items()}


def _adamw(lr: float, b1: float, b2: float, eps: float, wd: Callable[[str], float]) -> dict[str, np.ndarray]:
    result = {}
    for name, start in START.items():
        p, m, v = np.array(start), np.zeros_like(start), np.zeros_like(start)
        for t, grads in enumerate(GRADS, start=1):
            g = grads[name]
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            p = p - lr * wd(name) * p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        result[name] = p
    return result


def _close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], rtol: float) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=rtol, atol=rtol, err_msg=name)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-10), ("float32", 2e-5)])
def test_adamw(dtype: str, rtol: float, flat: bool) -> None:
    params = _params(dtype)
    optimizer = optim.AdamW(params.items(), lr=0.03, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.2, flat=flat)
    _close(_train(optimizer, params), _adamw(0.03, 0.8, 0.95, 1e-6, lambda n: 0.2), rtol)


def test_only_matrices_decay_in_decay_groups() -> None:
    params = _params()
    optimizer = optim.AdamW(optim.decay_groups(params.items(), 0.3), lr=0.03)
    assert [list(g["params"]) for g in optimizer.groups] == [["w", "u"], ["b", "s"]]
    expected = _adamw(0.03, 0.9, 0.999, 1e-8, lambda n: 0.3 if n in "wu" else 0.0)
    _close(_train(optimizer, params), expected, 1e-10)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weight_decay": 0.1},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.4, "weight_decay": 0.05},
        {"momentum": 0.7, "nesterov": True, "weight_decay": 0.05},
    ],
)
def test_sgd(settings: dict[str, Any], flat: bool) -> None:
    params = _params()
    found = _train(optim.SGD(params.items(), lr=0.02, flat=flat, **settings), params)
    mu, damp, wd = (settings.get(k, 0.0) for k in ("momentum", "dampening", "weight_decay"))
    expected = {}
    for name, start in START.items():
        p, buffer = np.array(start), None
        for grads in GRADS:
            g = grads[name] + wd * p
            if mu:
                buffer = g if buffer is None else mu * buffer + (1 - damp) * g
                g = g + mu * buffer if settings.get("nesterov") else buffer
            p = p - 0.02 * g
        expected[name] = p
    _close(found, expected, 1e-10)


@pytest.mark.parametrize("flat", [True, False])
def test_a_parameter_without_a_gradient_is_left_alone_and_counts_its_own_steps(flat: bool) -> None:
    """A stale gradient is never read [contract 4.5]; a late starter is corrected for its own first step."""
    params = _params()
    optimizer = optim.AdamW(params.items(), lr=0.1, flat=flat)
    for grads in GRADS[:3]:
        optimizer.zero_grad()
        _give(params, grads, only=("w", "s", "u"))
        optimizer.step()
    assert (params["b"].numpy() == START["b"]).all()
    assert set(optimizer.state_dict()["state"]) == {"w", "s", "u"}
    optimizer.zero_grad()
    _give(params, GRADS[3])
    others = params["w"].numpy()
    optimizer.step()
    np.testing.assert_allclose(params["b"].numpy(), START["b"] - 0.1 * np.sign(GRADS[3]["b"]), rtol=1e-6)
    assert (params["w"].numpy() != others).all()
    assert {n: s["step"] for n, s in optimizer.state_dict()["state"].items()} == {
        "w": 4,
        "b": 1,
        "s": 4,
        "u": 4,
    }


def test_zero_grad_then_step_changes_nothing() -> None:
    params = _params()
    optimizer = optim.SGD(params.items(), lr=1.0)
    _give(params, GRADS[0])
    optimizer.zero_grad()
    optimizer.step()
    assert all((p.numpy() == START[n]).all() for n, p in params.items())


def test_a_state_dict_continues_exactly() -> None:
    params = _params()
    optimizer = optim.AdamW(params.items(), lr=0.05, weight_decay=0.1)
    expected = _train(optimizer, params)

    first, second = _params(), _params()
    one = optim.AdamW(first.items(), lr=0.05, weight_decay=0.1)
    two = optim.AdamW(second.items(), lr=0.9, flat=False)
    for grads in GRADS[:9]:
        one.zero_grad()
        _give(first, grads)
        one.step()
    for name, p in first.items():
        second[name].detach().copy_(p.detach())
    two.load_state_dict(one.state_dict())
    assert two.groups[0]["lr"] == 0.05
    for grads in GRADS[9:]:
        two.zero_grad()
        _give(second, grads)
        two.step()
    assert all((second[n].numpy() == values).all() for n, values in expected.items())


def test_the_state_of_an_untouched_optimizer_takes_a_state_away() -> None:
    params, fresh = _params(), _params()
    optimizer = optim.AdamW(params.items())
    _give(params, GRADS[0])
    optimizer.step()
    state = optimizer.state_dict()["state"]["w"]
    optimizer.load_state_dict(optim.AdamW(fresh.items()).state_dict())
    assert optimizer.state_dict()["state"] == {}
    assert not state["m"].numpy().any()
    assert not state["v"].numpy().any()


def test_a_state_dict_that_does_not_fit_is_refused_as_a_whole() -> None:
    params = _params()
    optimizer = optim.AdamW(params.items())
    _give(params, GRADS[0])
    optimizer.step()
    before = {n: t["m"].numpy() for n, t in optimizer.state_dict()["state"].items()}
    state = optimizer.state_dict()
    state["state"]["w"]["m"] = it.ones(3, 5, dtype="float64")
    state["state"]["b"]["v"] = it.ones(7)
    state["state"]["u"].pop("step")
    with pytest.raises(nn.StateDictError) as caught:
        optimizer.load_state_dict(state)
    assert sorted(caught.value.problems) == [
        "b: v has dtype float32, expected float64",
        "u: has ['m', 'v'], expected step, m, v",
        "w: m has shape [3, 5], expected [5, 3]",
    ]
    other = optim.AdamW([("w", params["w"]), ("x", params["b"])]).state_dict()
    with pytest.raises(nn.StateDictError, match=r"missing: b\n(.|\n)*unexpected: x"):
        optimizer.load_state_dict(other)
    with pytest.raises(nn.StateDictError, match="what state_dict"):
        optimizer.load_state_dict({})
    assert all((t["m"].numpy() == before[n]).all() for n, t in optimizer.state_dict()["state"].items())


def test_names_come_from_pairs_from_parameters_or_from_their_number() -> None:
    params = _params()
    params["w"].name = "layer.w"
    optimizer = optim.SGD([params["w"], params["b"]], lr=0.1)
    assert list(optimizer.groups[0]["params"]) == ["layer.w", "param1"]


def test_wrong_arguments() -> None:
    params = _params()
    for make, message in (
        (lambda: optim.AdamW([]), "no parameters"),
        (lambda: optim.AdamW([params["w"], params["w"]]), "given twice"),
        (
            lambda: optim.AdamW([{"params": [params["w"]], "learning_rate": 1}]),
            "unknown setting 'learning_rate'",
        ),
        (lambda: optim.AdamW([params["w"]], lr=-1), "lr is at least 0"),
        (lambda: optim.AdamW([params["w"]], betas=(0.9, 1.0)), "a beta"),
        (lambda: optim.AdamW([params["w"]], eps=0.0), "eps is above 0"),
        (lambda: optim.SGD([params["w"]], momentum=1.0), "momentum"),
        (lambda: optim.SGD([params["w"]], nesterov=True), "nesterov needs momentum"),
        (lambda: optim.SGD([params["w"]], lr=float("nan")), "lr"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    with pytest.raises(TypeError, match=r"no nn\.Parameter"):
        optim.SGD([it.ones(2)])


@pytest.mark.parametrize("layer", ["explicit", "array"])
@pytest.mark.parametrize("step", [0, -1])
def test_the_row_adamw_counts_steps_from_one(step, layer, monkeypatch):
    """1 - beta**0 is a division by zero."""
    monkeypatch.setenv("INFINITRAIN_KERNELS", layer)
    it.backend.dispatch.clear_plans()
    p, g, m, v = (it.ones(2) for _ in range(4))
    with pytest.raises(ValueError, match=f"AdamW: .*step={step} at least 1"):
        it.ops.AdamW([p], [g], [m], [v], 0.1, 0.9, 0.99, 1e-8, 0.0, step)
    assert p.tolist() == [1.0, 1.0]
    it.backend.dispatch.clear_plans()
