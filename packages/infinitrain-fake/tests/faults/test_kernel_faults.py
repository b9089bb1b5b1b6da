"""Every fault of a kernel gives wrong numbers, and without it the same inputs give right ones."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.dtype import bfloat16, float16, int32
from infinitrain_fake.faults import FAULTS, usable

random = np.random.default_rng(23)


def normal(*shape, mean=0.0, scale=1.0, dtype="float32"):
    return (random.normal(mean, scale, shape).astype(np.float32), dtype)


def integers(high, *shape, low=0):
    return (random.integers(low, high, shape), "int64")


def given(array):
    return (np.asarray(array), str(np.asarray(array).dtype))


def layernorm_backward():
    x = random.normal(0.5, 2, (6, 12)).astype(np.float32)
    mean, rstd = x.mean(-1), 1 / np.sqrt(x.var(-1) + 1e-5)
    return [given(x), normal(12, mean=1, scale=0.3), given(mean), given(rstd), given(0.5 * x + 1)]


def rms_backward(*, wide_weight=False):
    """Arguments of RmsNormBackward; ``wide_weight``: x in bfloat16."""
    x = random.normal(0.5, 2, (6, 12)).astype(np.float32)
    rstd = 1 / np.sqrt((x * x).mean(-1) + 1e-5)
    dtype = "bfloat16" if wide_weight else "float32"
    return [(x, dtype), normal(12, mean=1, scale=0.3), given(rstd), (0.5 * x + 1, dtype)]


def add_rms_backward():
    *saved, grad = rms_backward()
    return [*saved, normal(6, 12, mean=1), grad]


def add_layernorm_backward():
    *saved, grad = layernorm_backward()
    return [*saved, normal(6, 12, mean=1), grad]


def rope(interleaved, position):
    angles = (np.arange(9)[:, None] / np.array([1.0, 3.0, 9.0])).astype(np.float32)
    return [normal(2, 4, 18), given(np.cos(angles)), given(np.sin(angles)), 3, 2, interleaved, position]


def cross_entropy_backward():
    logits = random.normal(0, 2, (6, 5)).astype(np.float32)
    lse = np.log(np.exp(logits).sum(-1)).astype(np.float32)
    target = np.array([0, 3, -100, 4, 1, -100])
    return [given(np.float32(0.25).reshape(())), given(logits), given(target), given(lse), -100]


def attention_backward(t=5):
    qkv = random.normal(0, 1, (2, t, 8 * 4)).astype(np.float32)
    y, lse = OPS["AttentionForward"].call(it.tensor(qkv), 4, 2, True)
    return [given(qkv), given(y.numpy()), given(lse.numpy()), normal(2, t, 16), 4, 2, True]


def softmax_backward():
    y = np.exp(random.normal(0, 1, (4, 5))).astype(np.float32)
    return [given(y / y.sum(-1, keepdims=True)), normal(4, 5), 1]


def adamw():
    tensors = [[normal(4, 3), normal(5)] for _ in range(3)]
    squares = [(np.abs(a), d) for a, d in [normal(4, 3), normal(5)]]
    return [*tensors, squares, 0.01, 0.9, 0.99, 1e-8, 0.1, 2]


# Per op: sets of arguments. (array, dtype) is a tensor, a list of them a list of tensors, the rest as it is.
ARGUMENTS = {
    "Cast": [[normal(50), bfloat16], [normal(50, scale=5), int32], [normal(50, scale=1e6), float16]],
    "Fill": [[normal(7), 2.5], [normal(3, 4), 1.0]],
    "AddForward": [[normal(4, 6), normal(6)], [normal(40, 30), normal(40, 30)]],
    "AccumulateGrad": [[normal(5, 3), 0.5, normal(5, 3)]],
    "AdamW": [adamw()],
    "GlobalNorm": [[[normal(4, 3, scale=s), normal(5, scale=s)]] for s in (1, 1e30, 1e-30)],
    "AllFinite": [[[normal(4), given(np.float32([1, last]))]] for last in (2, np.inf, np.nan)],
    "LinearForward": [
        [normal(2, 3, 8), normal(5, 8), normal(5)],
        [normal(7, 8), normal(8, 8), None],
        [normal(4, 512, mean=1, dtype="bfloat16"), normal(3, 512, mean=1, dtype="bfloat16"), None],
    ],
    "LinearBackwardInput": [[normal(8, 8), normal(7, 8)]],
    "LinearBackwardWeight": [[normal(7, 8), normal(7, 5)]],
    "LinearBackwardBias": [[normal(7, 5)], [normal(4096, 3, mean=1, dtype="bfloat16")]],
    "MatmulForward": [[normal(3, 4, 5), normal(3, 5, 2)]],
    "MatmulBackwardOther": [[normal(3, 4, 5), normal(3, 4, 2), (5, 2)]],
    "EmbeddingBackward": [[integers(4, 9), normal(9, 3), 4], [integers(4, 9), (4, 3), normal(9, 3)]],
    "GeluForward": [[normal(50, scale=2), "tanh"]],
    "GeluBackward": [[normal(50, scale=2), normal(50), "tanh"]],
    "LayerNormForward": [
        [normal(6, 12), normal(12), normal(12), 1e-5],
        [normal(6, 12, scale=0.01), normal(12), None, 1e-3],
        [normal(6, 512, mean=1000), normal(512), None, 1e-5],
    ],
    "LayerNormBackward": [layernorm_backward()],
    "SoftmaxForward": [[normal(4, 5), 1], [normal(4, 5, mean=500), 1]],
    "SoftmaxBackward": [softmax_backward()],
    "CrossEntropyForward": [
        [normal(6, 5), given(np.array([0, 3, -100, 4, 1, -100])), -100],
        [normal(6, 5, mean=500), integers(5, 6), -100],
    ],
    "CrossEntropyBackward": [cross_entropy_backward()],
    "AttentionForward": [[normal(2, t, 8 * 4), 4, 2, True] for t in (5, 140)],
    "AttentionBackward": [attention_backward(), attention_backward(140)],
    "RmsNormForward": [[normal(6, 12, mean=1, scale=s), normal(12), 1e-2] for s in (1, 0.01)],
    "RmsNormBackward": [rms_backward(), rms_backward(wide_weight=True)],
    "AddLayerNormForward": [[normal(6, 12), normal(6, 12), normal(12), normal(12), 1e-5]],
    "AddLayerNormBackward": [add_layernorm_backward()],
    "AddRmsNormBackward": [add_rms_backward()],
    "RopeForward": [rope(True, 0), rope(False, 0), rope(True, 5)],
    "RopeBackward": [rope(True, 2)],
}
ELSEWHERE = {"NoOpForward", "EmbeddingForward"}
ACCUMULATING = {"linear_dweight_overwrites", "linear_dweight_rounds_first"}
KERNEL_FAULTS = sorted(n for n, f in FAULTS.items() if f.kind == "kernels")


def tensor(value, device):
    if isinstance(value, tuple) and isinstance(value[0], np.ndarray):
        return it.tensor(value[0], dtype=value[1], device=device)
    return [tensor(v, device) for v in value] if isinstance(value, list) else value


def run(op, args, device):
    """Return all results and all written arguments of an op as float64 arrays."""
    row = OPS[op]
    got = [tensor(a, device) for a in args]
    out = row.call(*got)
    found = list(out) if isinstance(out, tuple) else [] if out is None else [out]
    for i in row.write_index:
        found += got[i] if isinstance(got[i], list) else [got[i]]
    return [t.numpy().astype(np.float64) for t in found]


def same(op, args):
    dtypes = {a[1] for a in args if isinstance(a, tuple) and isinstance(a[0], np.ndarray)}
    half = dtypes == {"bfloat16"}
    with np.errstate(all="ignore"):
        got, want = run(op, args, "fake"), run(op, args, "cpu")
    large = any(
        isinstance(a, tuple) and isinstance(a[0], np.ndarray) and np.abs(a[0]).max(initial=0) > 900
        for a in args
    )
    rtol = 2e-2 if half else 1e-3 if large else 2e-6
    return all(
        np.allclose(g, w, rtol=rtol, atol=rtol * min(1.0, np.abs(w).max(initial=0.0)))
        for g, w in zip(got, want, strict=True)
    )


def fits(op, args):
    try:
        OPS[op].infer(*[tensor(a, "cpu") for a in args])
    except Exception:
        return False
    return True


def cases(op):
    return [a for a in ARGUMENTS[op] if op != "EmbeddingBackward" or fits(op, a)]


@pytest.mark.parametrize("name", KERNEL_FAULTS)
def test_the_fault_gives_wrong_numbers(fake, name):
    fault = FAULTS[name]
    if not usable(fault):
        pytest.skip(f"this core has no {fault.op}")
    if fault.op in ELSEWHERE or name in ACCUMULATING:
        pytest.skip("has a test of its own below")
    fake(name)
    assert any(not same(fault.op, args) for args in cases(fault.op))


@pytest.mark.parametrize("op", sorted({FAULTS[n].op for n in KERNEL_FAULTS} - ELSEWHERE))
def test_without_it_the_numbers_are_right(fake, op):
    if op not in OPS:
        pytest.skip(f"this core has no {op}")
    fake()
    assert cases(op)
    assert all(same(op, args) for args in cases(op))


@pytest.mark.parametrize("fault", ["", *sorted(ACCUMULATING)])
def test_a_destination_that_is_not_added_to(fake, fault):
    """Small gradients in bfloat16 (whole numbers that it can hold, divided by 128) into a float32 destination."""
    fake(fault)
    x, grad = (random.integers(-90, 90, s).astype(np.float32) / 128 for s in ((7, 4), (7, 3)))
    start = random.normal(0, 1, (3, 4)).astype(np.float32)
    out = it.tensor(start, device="fake")
    halves = (it.tensor(a, dtype="bfloat16", device="fake") for a in (x, grad))
    OPS["LinearBackwardWeight"].call(*halves, out=out, accumulate=True)
    assert np.allclose(out.numpy(), start + grad.T @ x, atol=1e-5) is (not fault)


@pytest.mark.parametrize("fault", ["", "view_is_a_copy"])
def test_a_view_that_is_a_copy(fake, fault):
    fake(fault)
    x = it.tensor(random.normal(0, 1, (2, 6)).astype(np.float32), device="fake")
    OPS["Fill"].call(OPS["NoOpForward"].call(x, (3, 4)), 5.0)
    assert (x.numpy() == 5.0).all() == (not fault)


@pytest.mark.skipif("EmbeddingForward" not in OPS, reason="this core has no EmbeddingForward")
@pytest.mark.parametrize("fault", ["", "embedding_clips_index"])
def test_an_index_out_of_range_that_is_clipped(fake, fault):
    fake(fault)
    index = it.tensor(np.array([0, 7]), device="fake")
    weight = it.tensor(random.normal(0, 1, (4, 3)).astype(np.float32), device="fake")
    row = OPS["EmbeddingForward"]
    args = {p.name: (weight if "weight" in p.name else index) for p in row.params if p.kind == "tensor"}
    if fault:
        np.testing.assert_array_equal(row.call(**args).numpy()[1], weight.numpy()[3])
    else:
        with pytest.raises(IndexError):
            row.call(**args).numpy()
