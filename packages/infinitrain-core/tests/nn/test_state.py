"""State dicts: complete, checked as a whole, written afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn


def _pair() -> tuple[nn.Sequential, nn.Sequential]:
    return (nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)))


def test_round_trip_by_tensors_and_by_arrays() -> None:
    a, b = _pair()
    b.load_state_dict(a.state_dict())
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert (p.numpy() == q.numpy()).all()
    arrays = {
        name: np.full(t.shape, i + 0.5, np.float32) for i, (name, t) in enumerate(a.state_dict().items())
    }
    b.load_state_dict(arrays)
    assert {name: t.numpy().flat[0] for name, t in b.state_dict().items()} == {
        "0.weight": 0.5,
        "0.bias": 1.5,
        "1.weight": 2.5,
        "1.bias": 3.5,
    }


def test_entries_are_views_and_loading_bumps_versions() -> None:
    a, b = _pair()
    state = a.state_dict()
    before = a[0].weight.version
    a.load_state_dict(b.state_dict())
    assert (state["0.weight"].numpy() == b[0].weight.numpy()).all()
    assert a[0].weight.version > before


def test_every_problem_is_named_and_nothing_is_written() -> None:
    model, other = _pair()
    before = {name: t.numpy() for name, t in model.state_dict().items()}
    state = dict(other.state_dict())
    del state["1.bias"]
    state["1.biass"] = it.ones(2)
    state["0.weight"] = it.ones(2, 4)
    state["0.bias"] = it.ones(2, dtype="float64")
    state["1.weight"] = 3
    with pytest.raises(nn.StateDictError) as caught:
        model.load_state_dict(state)
    assert sorted(caught.value.problems) == [
        "0.bias has dtype float64, expected float32",
        "0.weight has shape [2, 4], expected [2, 3]",
        "1.weight is a int, expected a tensor",
        "missing: 1.bias",
        "unexpected: 1.biass (did you mean 1.bias?)",
    ]
    for name, t in model.state_dict().items():
        assert (t.numpy() == before[name]).all()


def test_without_strict_paths_may_differ_but_shapes_may_not() -> None:
    model, other = _pair()
    model.load_state_dict({"0.weight": other[0].weight.detach(), "more": it.ones(1)}, strict=False)
    assert (model[0].weight.numpy() == other[0].weight.numpy()).all()
    with pytest.raises(nn.StateDictError, match="shape"):
        model.load_state_dict({"0.weight": it.ones(1)}, strict=False)


def test_a_tied_parameter_needs_one_of_its_paths_and_one_value() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    assert list(model.state_dict()) == ["0.weight", "1.weight"]
    model.load_state_dict({"1.weight": it.full((2, 2), 4.0)})
    assert (model[0].weight.numpy() == 4).all()
    with pytest.raises(nn.StateDictError, match=r"tied, but with different values: 0\.weight = 1\.weight"):
        model.load_state_dict({"0.weight": it.ones(2, 2), "1.weight": it.zeros(2, 2)})
    with pytest.raises(nn.StateDictError, match=r"missing: 0\.weight = 1\.weight"):
        model.load_state_dict({})
    assert (model[0].weight.numpy() == 4).all()
