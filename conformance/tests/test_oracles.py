"""The oracles against definitions written another way: finite differences, and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from differences import slope

from infinitrain_conformance.call import Call, poison
from infinitrain_conformance.cases import Data
from infinitrain_conformance.families import all_cases, first_cases, matrix
from infinitrain_conformance.oracles import activation, attention, indexing, linear, loss, norm, optimizer
from infinitrain_conformance.tolerances import TABLE, allowed


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_layer_norm_backward(rng):
    x, w, b = rng.normal(2.0, 1.5, (3, 5)), rng.normal(1, 0.3, 5), rng.normal(size=5)
    grad = rng.normal(size=(3, 5)) + x
    saved = norm.layer_norm(x, w, b, 1e-5)
    got = norm.layer_norm_backward(x, w, saved["mean"].value, saved["rstd"].value, grad)
    y = lambda x=x, w=w, b=b: norm.layer_norm(x, w, b, 1e-5)["y"].value  # noqa: E731
    np.testing.assert_allclose(got["dx"].value, slope(lambda v: y(x=v), x, grad), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(got["dweight"].value, slope(lambda v: y(w=v), w, grad), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(got["dbias"].value, slope(lambda v: y(b=v), b, grad), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("heads", "kv", "causal"), [(2, 2, True), (4, 2, True), (2, 1, False)])
def test_attention_backward(rng, heads, kv, causal):
    qkv = rng.normal(size=(2, 5, (heads + 2 * kv) * 3))
    saved = attention.attention(qkv, heads, kv, causal)
    grad = rng.normal(size=saved["y"].value.shape) + saved["y"].value
    got = attention.attention_backward(qkv, saved["y"].value, saved["lse"].value, grad, heads, kv, causal)
    want = slope(lambda v: attention.attention(v, heads, kv, causal)["y"].value, qkv, grad)
    np.testing.assert_allclose(got["dqkv"].value, want, rtol=1e-5, atol=1e-7)


def test_attention_backward_may_leave_hidden_pairs_out(rng):
    """A query that is no number reaches the keys that it sees; later ones may get 0 times it, or nothing."""
    qkv, grad = rng.normal(size=(1, 5, 6)), rng.normal(size=(1, 5, 2))
    saved = attention.attention(qkv, 1, 1, True)
    args = saved["y"].value, saved["lse"].value, grad, 1, 1, True
    clean = attention.attention_backward(qkv, *args)["dqkv"]
    assert clean.or_nan is None
    qkv[0, 2, 0] = np.nan
    got = attention.attention_backward(qkv, *args)["dqkv"]
    nan, either = np.isnan(got.value[0]), got.or_nan[0]
    assert nan[2, :2].all()  # its own gradient
    assert nan[:3, 2:].all()  # keys and values
    np.testing.assert_array_equal(np.argwhere(either & ~nan), [[3, 2], [4, 2]])
    np.testing.assert_array_equal(got.value[0][~nan], clean.value[0][~nan])


def test_attention_by_loops(rng):
    """One query head, position by position."""
    qkv = rng.normal(size=(1, 4, 6))
    y = attention.attention(qkv, 1, 1, True)["y"].value
    for t in range(4):
        scores = [sum(qkv[0, t, i] * qkv[0, s, 2 + i] for i in range(2)) / math.sqrt(2) for s in range(t + 1)]
        weights = np.exp(scores) / np.exp(scores).sum()
        want = sum(weights[s] * qkv[0, s, 4:] for s in range(t + 1))
        np.testing.assert_allclose(y[0, t], want)


def test_cross_entropy_backward(rng):
    logits, target = rng.normal(size=(4, 6)), np.array([1, -100, 5, 0])
    saved = loss.cross_entropy(logits, target, -100)
    got = loss.cross_entropy_backward(np.asarray(1.5), logits, target, saved["lse"].value, -100)
    want = slope(lambda v: loss.cross_entropy(v, target, -100)["loss"].value, logits, 1.5)
    np.testing.assert_allclose(got["dlogits"].value, want, rtol=1e-5, atol=1e-8)
    assert (got["dlogits"].value[1] == 0).all()


@pytest.mark.parametrize("form", ["tanh", "none"])
def test_gelu_backward(rng, form):
    x, grad = rng.normal(0, 3, 20), rng.normal(size=20)
    want = slope(lambda v: activation.gelu(v, form)["y"].value, x, grad)
    np.testing.assert_allclose(
        activation.gelu_backward(x, grad, form)["dx"].value, want, rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_backward(rng, name):
    forward, backward = getattr(loss, name), getattr(loss, f"{name}_backward")
    x = rng.normal(size=(3, 4))
    y = forward(x, 0)["y"].value
    grad = rng.normal(size=(3, 4)) + y
    want = slope(lambda v: forward(v, 0)["y"].value, x, grad)
    np.testing.assert_allclose(backward(grad, y, 0)["dx"].value, want, rtol=1e-5, atol=1e-7)


def test_embedding_backward(rng):
    ids, grad = np.array([[2, 0], [2, 2]]), rng.normal(size=(2, 2, 3))
    got = indexing.embedding_backward(ids, grad, 4)["dweight"].value
    np.testing.assert_allclose(got[2], grad[0, 0] + grad[1, 0] + grad[1, 1])
    np.testing.assert_allclose(got[0], grad[0, 1])
    assert (got[[1, 3]] == 0).all()


def test_matmul_backward(rng):
    a, b = rng.normal(size=(2, 1, 3, 4)), rng.normal(size=(5, 4, 2))
    grad = rng.normal(size=(2, 5, 3, 2)) + 0.5
    want_a = slope(lambda v: linear.matmul(v, b)["y"].value, a, grad)
    want_b = slope(lambda v: linear.matmul(a, v)["y"].value, b, grad)
    np.testing.assert_allclose(linear.matmul_da(b, grad, a.shape)["da"].value, want_a, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(linear.matmul_db(a, grad, b.shape)["db"].value, want_b, rtol=1e-6, atol=1e-7)


def test_adamw_by_hand():
    """One step from zero moments moves by lr against the gradient's sign, after decay."""
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 0.0, "weight_decay": 0.5, "step": 1}
    p, m, v = optimizer.adamw(np.array([2.0]), np.array([-3.0]), np.zeros(1), np.zeros(1), options)
    np.testing.assert_allclose(p.value, 2.0 * (1 - 0.05) + 0.1)
    np.testing.assert_allclose((m.value, v.value), ([-0.3], [0.09]))


def test_every_case_builds_and_no_result_is_poison():
    """What destinations hold before a call is no case's result; every op of the tolerance table has cases."""
    from infinitrain.device import CPU

    cases, firsts = all_cases(), first_cases()
    assert len({str(c) for c in cases}) == len(cases)
    for case in cases:
        data = Data(0, case.dtypes[0] if case.dtypes else "float32")
        call = Call(case.op, case.build(data), data, CPU)
        want = call.want()
        if call.row.results:
            assert list(want) == call.names(), case
        for name, (shape, dtype) in zip(call.names(), call.specs(), strict=True):
            value = want[name].value
            assert value.shape == shape, case
            if case in firsts:  # those that destinations are tested with
                assert not value.size or not np.array_equal(poison(dtype, shape).astype(np.float64), value), (
                    case
                )


def test_the_matrix_holds_every_op_in_every_dtype():
    """The op table says what there is; an op or dtype without a case would be a hole that nobody sees."""
    from infinitrain.backend import OPS
    from infinitrain.backend.optable import DTYPES

    pairs = {(case.op, dtype) for case, dtype in matrix()}
    wanted = {(op, d.name) for op, row in OPS.items() for d in DTYPES[row.dtypes]}
    assert not wanted - pairs
    assert set(TABLE) <= {op for op, _ in pairs}


def test_tolerance_tells_bfloat16_sums_from_float32_sums():
    """4,096 terms: a float32 sum in any order is inside, a bfloat16 sum is far outside."""
    from infinitrain.dtype import bfloat16

    terms = np.random.default_rng(0).normal(0.05, 0.3, (4096, 50)).astype(bfloat16.numpy)
    exact, size = terms.astype(np.float64).sum(0), np.abs(terms.astype(np.float64)).sum(0)
    bound = allowed("LinearBackwardBias", bfloat16, exact, size, 4096)
    single = np.add.accumulate(terms.astype(np.float32))[-1].astype(bfloat16.numpy).astype(np.float64)
    half = np.zeros(50, bfloat16.numpy)
    for row in terms:
        half = half + row
    assert (np.abs(single - exact) <= bound).all()
    assert (np.abs(half.astype(np.float64) - exact) > bound).mean() > 0.5


def test_tolerances_are_not_lax():
    """In float32, an error of 1e-3 in the largest element of a result is outside for every case."""
    from infinitrain.device import CPU
    from infinitrain.dtype import float32

    lax = []
    for case in all_cases():
        if (case.dtypes and "float32" not in case.dtypes) or case.name == "mean1000":
            continue  # a mean of 1,000 standard deviations leaves float32 three digits
        data = Data(0, "float32")
        for name, want in Call(case.op, case.build(data), data, CPU).want().items():
            if not want.value.size:
                continue
            single = np.abs(want.value.astype(np.float32).astype(np.float64))  # 0 where float32 ends
            finite = np.where(np.isfinite(single), single, 0.0)  # infinities are compared exactly
            if not finite.max():
                continue
            at = np.unravel_index(int(np.argmax(finite)), want.value.shape)
            size = np.broadcast_to(want.magnitude, want.value.shape)
            bound = allowed(case.op, float32, want.value, size, want.terms)[at]
            if bound >= 1e-3 * abs(want.value[at]):
                lax.append(f"{case}: {name} allows {bound:.3g} at {want.value[at]:.3g}")
    assert not lax
