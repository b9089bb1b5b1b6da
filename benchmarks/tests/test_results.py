"""What is written of a run: agreement, ratios, gates, and that it is JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from math import nan
from typing import Any

import pytest
from _contenders import CONTENDERS, disagreement
from _gates import GATES, Gate
from _shapes import SHAPES, gpt2
from _turns import Disagreement, Measured, Trained, _compare, train
from train_vs_torch import gate_text, show, summary

TIMES = {"ours": 10.0, "eager": 16.0, "eager-malloc": 13.0, "compile": 15.0, "compile-malloc": 14.0}


def _measured(**times: float) -> Measured:
    trained = {
        name: Trained(
            CONTENDERS[name], [2.0, 1.5], 3.0, [[ms * f, ms * f * 1.1, 0.9 * ms * f] for f in (1.0, 1.2, 0.9)]
        )
        for name, ms in times.items()
    }
    for at, t in enumerate(trained.values()):
        t.peak = (100 + 25 * at) << 20
    return Measured(trained, [0.006, 0.007, 0.005], [0.0, 0.2, 0.01])


def _result(measured: Measured) -> dict[str, Any]:
    machine = {
        "cpu": "x",
        "cores": 2,
        "threads": 2,
        "python": "3",
        "versions": {"numpy": "2"},
        "load_before": 0.1,
    }
    return {
        "machine": machine,
        "rounds": 3,
        "steps": 3,
        "quick": False,
        **summary("micro", SHAPES["micro"], measured),
    }


def test_ratios() -> None:
    result = _result(_measured(**TIMES))
    assert result["ratio_vs_eager"] == pytest.approx(1.6)
    assert result["ratio_vs_compile"] == pytest.approx(1.5)
    assert result["ratio_vs_best_torch"] == pytest.approx(1.3)
    assert result["ratio_rss"] == pytest.approx(100 / 125)
    for key in ("ratio_vs_eager", "ratio_vs_compile", "ratio_vs_best_torch", "share_of_sgemm_limit"):
        low, high = result["interval"][key]
        assert low <= result[key] <= high
    ours = result["contenders"]["ours"]
    assert ours["median_ms"] == pytest.approx(10)
    assert ours["min_ms"] == pytest.approx(10 * 0.9 * 0.9)
    assert ours["tokens_per_s"] == pytest.approx(16 / 0.010)
    assert ours["rounds_ms"] == pytest.approx([10, 12, 9])


def test_the_limit_is_all_arithmetic_at_the_speed_of_the_products() -> None:
    result, shape = _result(_measured(**TIMES)), SHAPES["micro"]
    products = sum(p.flops for p in shape.products())
    assert result["sgemm"]["gflops"] == pytest.approx(products / 0.006 / 1e9)
    assert result["sgemm"]["limit_ms"] == pytest.approx(6 * (products + shape.attention_flops()) / products)
    assert result["share_of_sgemm_limit"] == pytest.approx(result["sgemm"]["limit_ms"] / 10)


def test_json_and_text(capsys: pytest.CaptureFixture[str]) -> None:
    result = _result(_measured(**TIMES))
    assert json.loads(json.dumps(result, allow_nan=False))["ratio_vs_eager"] == result["ratio_vs_eager"]
    show(result)
    text = capsys.readouterr().out
    assert "ratio_vs_best_torch    1.300" in text
    assert "WARNING: in 1 of 3 rounds other programs used more than 10% of the processors" in text
    assert "gate ratio_vs_compile >= 3 (goal 5): 1.500 MISSED" in text


def test_what_did_not_take_part_is_null() -> None:
    result = _result(_measured(ours=10.0, eager=16.0))
    assert result["ratio_vs_compile"] is None
    assert result["ratio_vs_best_torch"] is None
    assert "ratio_vs_compile" not in result["interval"]
    assert [gate["met"] for gate in result["gates"]] == [None, None]


def test_another_sitting_gives_no_ratio() -> None:
    measured = _measured(**TIMES)
    measured.trained["eager"].sitting = 1
    assert _result(measured)["ratio_vs_eager"] is None


def test_gates_hold_for_the_lower_end() -> None:
    result = {"speed": 1.4, "ratio_rss": 0.9, "interval": {"speed": [1.2, 1.6]}}
    assert not Gate("speed", least=1.3).check(result)["met"]
    assert Gate("speed", least=1.2).check(result)["met"]
    assert Gate("ratio_rss", most=0.9).check(result)["met"]
    assert not Gate("ratio_rss", most=0.89).check(result)["met"]
    assert (
        gate_text(Gate("speed", least=1.3, goal=1.5).check(result))
        == "gate speed >= 1.3 (goal 1.5): 1.200 MISSED"
    )


def test_gates_are_for_shapes_and_values_that_exist() -> None:
    assert set(GATES) < set(SHAPES)
    result = _result(_measured(**TIMES))
    assert {gate.value for gates in GATES.values() for gate in gates} < set(result)


@pytest.mark.parametrize("loss", [1.5003, nan])
def test_losses_that_differ_are_told(loss: float) -> None:
    losses = {"ours": [2.0, 1.5], "eager": [2.0, 1.50005], "compile": [2.0, loss]}
    text = disagreement(losses, 1e-4)
    assert text is not None
    assert text.startswith("loss 1: compile")
    assert "eager" not in text
    assert disagreement({**losses, "compile": [2.0, 1.5]}, 1e-4) is None


def test_a_run_ends_when_float32_losses_differ() -> None:
    trained = {name: Trained(CONTENDERS[name], [2.0, 1.5]) for name in ("ours", "eager", "bf16")}
    trained["bf16"].losses = [2.1, 1.4]
    _compare(trained)
    trained["eager"].losses = [2.0, 1.5 * (1 + 2e-5)]
    with pytest.raises(Disagreement, match=r"loss 1: eager 1\.50003, ours 1\.5, relative difference 2e-05"):
        _compare(trained)


@pytest.mark.multiproc
def test_who_finds_no_room_sits_down_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_turns.available_memory", lambda: 0)
    monkeypatch.setattr("_turns.PAUSE", 0.0)
    shape = gpt2(1, 8, 2, 16, 1, 4)
    names = ("ours", "ours-no-numba")
    measured = train({n: CONTENDERS[n] for n in names}, shape, threads=1, rounds=2, steps=3, sgemm=True)
    assert [t.sitting for t in measured.trained.values()] == [0, 1]
    assert [len(times) for t in measured.trained.values() for times in t.rounds] == [3] * 4
    assert len(measured.sgemm) == 2
    assert len(measured.others) == 4


def test_contenders_run_with_their_environments_only() -> None:
    tuned = CONTENDERS["compile-malloc"]
    assert replace(CONTENDERS["compile"], env=tuned.env, about=tuned.about) == tuned
    assert not CONTENDERS["eager"].env
