"""Dispatch: plans, styles, destinations, layers, errors [contract 4.1-4.6]."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import OPS, TensorSpec
from infinitrain.backend.dispatch import clear_plans
from infinitrain.errors import (
    DtypeError,
    InfiniTrainError,
    KernelError,
    KernelNotFoundError,
    ShapeError,
    UnsupportedShapeError,
)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def layer(monkeypatch):
    def choose(name):
        monkeypatch.setenv("INFINITRAIN_KERNELS", name)
        clear_plans()

    yield choose
    monkeypatch.undo()
    clear_plans()


def t(rng, *shape, dtype=np.float32):
    return it.tensor(rng.standard_normal(shape).astype(dtype))


def test_every_op_is_documented_and_has_a_cpu_kernel():
    from infinitrain.backend.dispatch import find_kernel
    from infinitrain.device import DeviceType

    for name, row in OPS.items():
        assert row.doc, name
        assert find_kernel(row, DeviceType.CPU).op == name


@pytest.mark.parametrize("layer_name", ["explicit", "array"])
def test_accumulate_adds_to_what_is_there(rng, layer, layer_name):
    layer(layer_name)
    x, g = t(rng, 6, 3), t(rng, 6, 4)
    out = t(rng, 4, 3)
    before = out.numpy()
    got = OPS["LinearBackwardWeight"].call(x, g, out=out, accumulate=True)
    assert got is out
    assert out.version > 0
    np.testing.assert_allclose(out.numpy(), before + g.numpy().T @ x.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layer_name", ["explicit", "array"])
def test_one_of_several_results_can_be_added_and_another_overwritten(rng, layer, layer_name):
    layer(layer_name)
    x, w, g = t(rng, 5, 4), t(rng, 4), t(rng, 5, 4)
    _, mean, rstd = ops.LayerNormForward(x, w, None, 1e-5)
    plain = ops.LayerNormBackward(x, w, mean, rstd, g)
    dweight, dbias = t(rng, 4), t(rng, 4)
    before = dweight.numpy()
    dx, got_w, got_b = ops.LayerNormBackward(
        x, w, mean, rstd, g, out=(None, dweight, dbias), accumulate=(False, True, False)
    )
    assert got_w is dweight
    assert got_b is dbias
    np.testing.assert_allclose(dx.numpy(), plain[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(dweight.numpy(), before + plain[1].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dbias.numpy(), plain[2].numpy(), rtol=1e-6)


def test_accumulating_into_float32_from_bfloat16(rng):
    """[contract 4.4]: out += result in out's dtype whatever the inputs'."""
    x, g = t(rng, 64, 3).astype("bfloat16"), t(rng, 64, 4).astype("bfloat16")
    out = it.zeros(4, 3)
    ops.LinearBackwardWeight(x, g, out=out, accumulate=True)
    want = g.numpy().astype(np.float64).T @ x.numpy().astype(np.float64)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-2, atol=1e-2)


def test_out_must_be_exactly_what_was_inferred(rng):
    x, w = t(rng, 6, 3), t(rng, 4, 3)
    with pytest.raises(KernelError, match=r"out y is float32\[6, 5\].*inferred float32\[6, 4\]"):
        ops.LinearForward(x, w, None, out=it.zeros(6, 5))
    with pytest.raises(KernelError, match="float64"):
        ops.LinearForward(x, w, None, out=it.zeros(6, 4, dtype="float64"))
    with pytest.raises(KernelError, match="accumulate"):
        ops.LinearForward(x, w, None, out=it.zeros(6, 4), accumulate=True)


def test_errors_name_op_argument_and_value(rng):
    x = t(rng, 6, 3)
    with pytest.raises(
        ShapeError, match=r"LinearForward\(x: float32\[6, 3\], weight: float32\[4, 2\].*bias=None"
    ):
        ops.LinearForward(x, t(rng, 4, 2), None)
    with pytest.raises(TypeError, match="LinearForward: weight is a tensor, got ndarray"):
        ops.LinearForward(x, np.ones((4, 3), np.float32), None)
    with pytest.raises(DtypeError, match="LayerNormForward: x has dtype int64; the op takes floating"):
        ops.LayerNormForward(it.tensor([[1, 2]]), it.ones(2), None, 1e-5)
    with pytest.raises(TypeError, match="LayerNormForward: eps is a number, got str"):
        ops.LayerNormForward(x, it.ones(3), None, "small")
    with pytest.raises(UnsupportedShapeError, match="9 dimensions"):
        ops.AddForward(it.ones(*[1] * 9), it.ones(1))


def test_empty_results_call_no_kernel_and_empty_writes_neither(rng):
    """[contract 4.4]"""
    y = ops.LinearForward(it.zeros(0, 3), t(rng, 4, 3), None)
    assert y.shape == (0, 4)
    dw = ops.LinearBackwardWeight(it.zeros(0, 3), it.zeros(0, 4))  # an empty sum is not empty
    assert dw.shape == (4, 3)
    assert not dw.numpy().any()
    ops.Fill(it.zeros(0), 1.0)


def test_a_missing_kernel_says_what_it_blocks(monkeypatch):
    """[contract 4.6]"""
    from infinitrain.backend import registration
    from infinitrain.device import DeviceType

    kernels = registration.require_record(DeviceType.CPU).kernels
    monkeypatch.delitem(kernels, "LinearForward")
    clear_plans()
    with pytest.raises(
        KernelNotFoundError, match=r"'cpu' has no kernel LinearForward \(profile training\).*contract 4\.6"
    ):
        ops.LinearForward(it.ones(2, 3), it.ones(4, 3), None)
    monkeypatch.undo()
    clear_plans()


def test_the_layer_cap_is_checked(layer):
    layer("fastest")
    with pytest.raises(InfiniTrainError, match="INFINITRAIN_KERNELS='fastest'"):
        ops.LinearForward(it.ones(2, 3), it.ones(4, 3), None)


def test_scalars_do_not_multiply_plans():
    row = OPS["AdamW"]
    p, g, m, v = (it.ones(3) for _ in range(4))
    clear_plans()
    for step in range(1, 20):
        row.call((p,), (g,), (m,), (v,), 0.1 / step, 0.9, 0.99, 1e-8, 0.0, step)
    plans = row.call.__globals__["_plans"]
    assert len(plans) == 1


def test_infer_equals_results_on_1000_random_shapes(rng):
    """Linear, LayerNorm, Add on random shapes, empty and 0-d ones among them."""
    for _ in range(350):
        lead = tuple(rng.integers(0, 4, rng.integers(0, 4)))
        fan_in, fan_out = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        x, w = t(rng, *lead, fan_in), t(rng, fan_out, fan_in)
        b = t(rng, fan_out) if rng.integers(2) else None
        cases = [
            ("LinearForward", (x, w, b)),
            ("LayerNormForward", (x, t(rng, fan_in), t(rng, fan_in), 1e-5)),
            ("AddForward", (x, t(rng, *[n if rng.integers(2) else 1 for n in x.shape]))),
        ]
        for name, args in cases:
            got = OPS[name].call(*args)
            got = got if isinstance(got, tuple) else (got,)
            inferred = [TensorSpec.of(s, d, x.device) for s, d in OPS[name].infer(*args)]
            assert [(g.array.shape, g.dtype) for g in got] == [(s.shape, s.dtype) for s in inferred]


def test_a_kernel_limited_to_dtypes_never_sees_others(monkeypatch):
    """[contract 4.3]: integers count too; indices and masks do not."""
    from infinitrain.backend.dispatch import find_kernel
    from infinitrain.device import DeviceType
    from infinitrain.errors import UnsupportedDtypeError

    assert find_kernel(OPS["AddForward"], DeviceType.CPU, {"float32"}).layer == "explicit"
    assert find_kernel(OPS["AddForward"], DeviceType.CPU, {"float32", "int64"}).layer == "array"
    kernels = dict(ops_kernels())
    monkeypatch.setitem(kernels["AddForward"], "array", kernels["AddForward"]["explicit"])
    with pytest.raises(UnsupportedDtypeError, match="takes float32, float64, not int64"):
        find_kernel(OPS["AddForward"], DeviceType.CPU, {"float32", "int64"})
    ids = it.tensor([1, 0], dtype="int32")
    assert ops.embedding(ids, it.tensor([[1.0], [2.0]])).tolist() == [[2.0], [1.0]]


def ops_kernels():
    from infinitrain.backend import registration
    from infinitrain.device import DeviceType

    return registration.require_record(DeviceType.CPU).kernels


def test_a_kernel_without_a_readable_signature_is_called_in_the_order_of_params():
    """[contract 2.3]: ctypes would drop keywords without a word."""
    import ctypes

    from infinitrain.backend.dispatch import _callable
    from infinitrain.backend.kernels import Kernel
    from infinitrain.backend.registration import require_record
    from infinitrain.device import DeviceType

    class Address:
        @classmethod
        def from_param(cls, tensor):
            return ctypes.c_void_p(tensor.ptr)

    class Form:
        @classmethod
        def from_param(cls, text):
            assert text == "tanh"
            return ctypes.c_void_p(x.ptr)

    class Nothing:
        @classmethod
        def from_param(cls, out):
            assert out is y
            return ctypes.c_size_t(0)  # no byte is copied: the order of the arguments is what counts here

    x, y, seen = it.tensor([1.5, -2.0]), it.zeros(2), []
    memcpy = ctypes.CDLL(None)["memcpy"]  # a function object of our own
    memcpy.argtypes, memcpy.restype = [Address, Form, Nothing], ctypes.c_void_p
    memcpy.errcheck = lambda result, function, args: seen.append(len(args))
    record = require_record(DeviceType.CPU)
    kernel = Kernel("GeluForward", "explicit", memcpy, ("x", "approximate", "out"))
    fn, style, _ = _callable(OPS["GeluForward"], kernel, record)
    fn(x, "tanh", out=y)
    assert style == "destination"
    assert seen == [3]


def test_params_that_a_readable_signature_cannot_take_are_a_problem():
    from infinitrain.backend.kernels import Kernel, signature_problem

    def needs_out(*args, out):
        raise AssertionError

    row = OPS["LinearForward"]
    params = ("x", "weight", "bias")
    assert "cannot be called" in (
        signature_problem(row, Kernel(row.name, "explicit", needs_out, params), (1, 0)) or ""
    )
    assert signature_problem(row, Kernel(row.name, "explicit", needs_out, (*params, "out")), (1, 0)) is None


def test_an_op_missing_behind_a_composite_names_who_calls_it():
    """[contract 4.6]: the fused op that the user called, and what its composite lacks, at any depth."""
    from infinitrain.backend import NO_OP_KERNELS, register_kernel
    from infinitrain.device import DeviceType
    from infinitrain.testing import host_backend, temporary_backend

    def kernels():
        register_kernel(DeviceType.PRIVATEUSE1, "Cast", lambda x, dtype: x)
        register_kernel(DeviceType.PRIVATEUSE1, "Fill", lambda x, value: None)
        register_kernel(DeviceType.PRIVATEUSE1, "AddForward", lambda a, b: a)
        register_kernel(DeviceType.PRIVATEUSE1, "LinearForward", lambda x, weight, bias: x)
        for name, kernel in NO_OP_KERNELS.items():
            register_kernel(DeviceType.PRIVATEUSE1, name, kernel)

    with temporary_backend(host_backend(name="chipx", register_kernels=kernels)):
        x, weight = it.empty(3, 4, device="chipx"), it.empty(4, device="chipx")
        with pytest.raises(KernelNotFoundError) as caught:
            ops.rms_norm(x, weight)
        text = str(caught.value)
        assert text.startswith(
            "RmsNormForward runs as core's composite here, which needs MulForward; backend"
        )
        assert "has no kernel MulForward (profile training)" in text
        assert (caught.value.op, caught.value.composites) == ("MulForward", ("RmsNormForward",))
        with pytest.raises(KernelNotFoundError) as caught:
            ops.gelu(x)
        assert "it has" not in str(caught.value)  # LinearForward is not near
        with pytest.raises(KernelNotFoundError) as caught:
            OPS["AddRmsNormBackward"].call(x, weight, it.empty(3, device="chipx"), None, x)
        assert caught.value.composites == ("RmsNormBackward", "AddRmsNormBackward")
        assert str(caught.value).startswith(
            "AddRmsNormBackward runs as core's composite here, which needs RmsNormBackward; RmsNormBackward runs as"
        )
        with pytest.raises(KernelNotFoundError, match="it has AddForward"):
            OPS["AndForward"].call(*[it.empty(2, dtype="bool", device="chipx")] * 2)
