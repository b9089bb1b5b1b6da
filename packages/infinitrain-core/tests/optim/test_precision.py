"""Half-precision parameters: float32 state, master weights, the gradient norm at the ends of the range."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops, optim

RNG = np.random.Generator(np.random.PCG64(21))
START = {"w": RNG.normal(0.5, 1.0, (4, 3)), "b": RNG.normal(-1.0, 1.0, 9), "s": np.asarray(RNG.normal())}


def _params(dtype: str) -> dict[str, nn.Parameter]:
    return {n: nn.Parameter(it.tensor(v, dtype=dtype)) for n, v in START.items()}


def _step(params: dict[str, nn.Parameter], optimizer: optim.Optimizer, seed: int) -> dict[str, np.ndarray]:
    """Make a step with gradients that the parameters' dtype can hold; return them in float64."""
    rng, used = np.random.default_rng(seed), {}
    optimizer.zero_grad()
    for name, p in params.items():
        grad = it.tensor(np.asarray(rng.normal(0.2, 1.0, p.shape)), dtype=p.dtype)
        p.backward(grad)
        used[name] = grad.numpy().astype(np.float64)
    optimizer.step()
    return used


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_master_weights_follow_float64(kind: str, dtype: str, flat: bool) -> None:
    """200 steps of 1e-4, each far below half a unit of most parameters."""
    params = _params(dtype)
    options = {"flat": flat, "master_weights": True}
    if kind == "adamw":
        optimizer: optim.Optimizer = optim.AdamW(params.items(), lr=1e-4, weight_decay=0.1, **options)
    else:
        optimizer = optim.SGD(params.items(), lr=1e-4, momentum=0.9, **options)
    want = {n: p.numpy().astype(np.float64) for n, p in params.items()}
    m, v = ({n: np.zeros(p.shape) for n, p in params.items()} for _ in range(2))
    for t in range(1, 201):
        for name, g in _step(params, optimizer, t).items():
            if kind == "adamw":
                m[name], v[name] = 0.9 * m[name] + 0.1 * g, 0.999 * v[name] + 0.001 * g * g
                update = (m[name] / (1 - 0.9**t)) / (np.sqrt(v[name] / (1 - 0.999**t)) + 1e-8)
                want[name] = want[name] * (1 - 1e-5) - 1e-4 * update
            else:
                m[name] = g if t == 1 else 0.9 * m[name] + g
                want[name] = want[name] - 1e-4 * m[name]
    state = optimizer.state_dict()["state"]
    for name, p in params.items():
        master = state[name]["master"]
        assert {t.dtype for slot, t in state[name].items() if slot != "step"} == {it.float32}
        np.testing.assert_allclose(master.numpy(), want[name], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(p.numpy(), master.numpy().astype(p.dtype.numpy))


def test_without_master_weights_small_steps_are_lost_and_state_is_float32() -> None:
    params = _params("bfloat16")
    before = {n: p.numpy() for n, p in params.items()}
    optimizer = optim.AdamW(params.items(), lr=1e-5)
    for t in range(20):
        _step(params, optimizer, t)
    assert all((p.numpy() == before[n]).all() for n, p in params.items())
    state = optimizer.state_dict()["state"]
    assert set(state["w"]) == {"step", "m", "v"}
    assert {state[n][slot].dtype for n in state for slot in ("m", "v")} == {it.float32}


def test_float32_parameters_have_no_master_copy() -> None:
    params = _params("float32")
    optimizer = optim.AdamW(params.items(), master_weights=True)
    _step(params, optimizer, 1)
    assert set(optimizer.state_dict()["state"]["w"]) == {"step", "m", "v"}


@pytest.mark.parametrize("model_first", [True, False])
def test_a_state_dict_carries_the_master_copies(model_first: bool) -> None:
    params, twin = _params("bfloat16"), _params("bfloat16")
    one = optim.AdamW(params.items(), lr=1e-4, master_weights=True)
    two = optim.AdamW(twin.items(), lr=1e-4, flat=False, master_weights=True)
    for t in range(1, 8):
        _step(params, one, t)
    weights = {n: p.numpy() for n, p in params.items()}
    saved = one.state_dict()
    if not model_first:
        two.load_state_dict(saved)
    for name, p in twin.items():
        p.detach().copy_(it.from_numpy(weights[name]))
    if model_first:
        two.load_state_dict(saved)
    for t in range(8, 15):
        _step(params, one, t)
        _step(twin, two, t)
    left, right = one.state_dict()["state"], two.state_dict()["state"]
    for name in params:
        np.testing.assert_array_equal(left[name]["master"].numpy(), right[name]["master"].numpy())
        np.testing.assert_array_equal(params[name].numpy(), twin[name].numpy())
    plain = optim.AdamW(_params("bfloat16").items())
    with pytest.raises(nn.StateDictError, match="expected step, m, v"):
        plain.load_state_dict(saved)


def test_a_parameter_that_was_changed_since_counts() -> None:
    params = _params("bfloat16")
    optimizer = optim.SGD(params.items(), lr=0.5, master_weights=True)
    _step(params, optimizer, 1)
    params["w"].detach().fill_(2.0)
    grads = _step(params, optimizer, 2)
    master = optimizer.state_dict()["state"]["w"]["master"]
    np.testing.assert_allclose(master.numpy(), 2.0 - 0.5 * grads["w"], rtol=1e-6)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_who_writes_to_a_part_leaves_the_other_masters_alone(dtype: str, flat: bool) -> None:
    """200 steps of 1e-4 wait in the masters of a parameter that they cannot move; a row of it is set meanwhile."""
    p = nn.Parameter(it.full((3, 4), 1.0, dtype=dtype))
    optimizer = optim.SGD({"w": p}.items(), lr=1e-4, flat=flat, master_weights=True)

    def step() -> None:
        optimizer.zero_grad()
        p.backward(it.ones(3, 4, dtype=dtype))
        optimizer.step()

    step()
    p.detach()[1] = 0.5
    step()
    want = np.full((3, 4), 1 - 2e-4)
    want[1] = 0.5 - 1e-4
    master = optimizer.state_dict()["state"]["w"]["master"]
    np.testing.assert_allclose(master.numpy(), want, rtol=1e-6)
    p.detach()[0, 0] = math.nan
    step()
    want -= 1e-4
    want[0, 0] = math.nan
    np.testing.assert_allclose(master.numpy(), want, rtol=1e-6)


def test_reading_the_state_does_not_write_it() -> None:
    """A checkpoint is looked at after the optimizer was loaded, and before the model is."""
    params, twin = _params("bfloat16"), _params("bfloat16")
    one, two = (optim.SGD(p.items(), lr=1e-4, master_weights=True) for p in (params, twin))
    for t in range(1, 8):
        _step(params, one, t)
    saved = one.state_dict()
    want = {n: saved["state"][n]["master"].numpy() for n in params}
    for p in twin.values():
        p.detach().fill_(7.0)
    two.load_state_dict(saved)
    for _ in range(2):
        held = two.state_dict()["state"]
        for name in params:
            np.testing.assert_array_equal(held[name]["master"].numpy(), want[name])
        for name, p in twin.items():
            p.detach().copy_(params[name].detach())
    _step(params, one, 8)
    _step(twin, two, 8)
    for name in params:
        left, right = (o.state_dict()["state"][name]["master"].numpy() for o in (one, two))
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("layer", ["explicit", "array"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("scale", [1e30, 1e-30, 1e-22, 3e-20, 1.0])
def test_the_norm_has_no_range(scale: float, dtype: str, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFINITRAIN_KERNELS", layer)
    it.backend.dispatch.clear_plans()
    tensors = [it.tensor(RNG.normal(0.3 * scale, scale, n), dtype=dtype) for n in (5, 70_001, 1)]
    tensors.append(it.zeros(0, dtype=dtype))
    elements = np.concatenate([t.numpy().astype(np.float64) for t in tensors])
    found = ops.GlobalNorm(tensors).item()
    assert found == pytest.approx(math.hypot(*elements.tolist()), rel=1e-13 if dtype == "float64" else 3e-6)
    it.backend.dispatch.clear_plans()


def test_gradients_beyond_the_range_of_their_squares_are_clipped() -> None:
    for scale in (1e30, 1e-25):
        p = nn.Parameter(it.zeros(100))
        p.backward(it.full((100,), scale))
        assert optim.clip_grad_norm([p], scale / 1e3) == pytest.approx(10 * scale, rel=1e-6)
    assert np.abs(p.grad.numpy()).max() < 1e-25
