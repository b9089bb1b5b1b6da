"""Arithmetic against NumPy in float64, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}
SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1, 4), (3, 1)),
    ((3, 1), (1, 4)),
    ((), (2, 3)),
    ((2, 3), ()),
    ((), ()),
    ((1,), (1, 1)),
    ((0, 3), (3,)),
    ((2, 0), (1, 1)),
]


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.5, 2.0, shape)


@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_forward_broadcasts_as_numpy(name, a_shape, b_shape, rng):
    a, b = positive(rng, a_shape), positive(rng, b_shape)
    y = getattr(ops, name)(it.from_numpy(a), it.from_numpy(b))
    want = BINARY[name](a, b)
    assert y.shape == want.shape
    assert y.dtype is it.dtype.float64
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-14)


@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_gradients_reach_both_shapes(name, a_shape, b_shape, rng):
    a = it.from_numpy(positive(rng, a_shape), requires_grad=True)
    b = it.from_numpy(positive(rng, b_shape), requires_grad=True)
    gradcheck(getattr(ops, name), a, b)
    fixed_a, fixed_b = it.from_numpy(positive(rng, a_shape)), it.from_numpy(positive(rng, b_shape))
    gradcheck(getattr(ops, name), fixed_a, b)
    gradcheck(getattr(ops, name), a, fixed_b)


@pytest.mark.parametrize("name", BINARY)
def test_one_tensor_as_both_operands(name, rng):
    gradcheck(lambda x: getattr(ops, name)(x, x), it.from_numpy(positive(rng, (2, 3)), requires_grad=True))


def test_gradients_of_an_empty_result_are_zero():
    a = it.zeros(0, 3, requires_grad=True)
    b = it.ones(3, requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.shape == (0, 3)
    assert b.grad.tolist() == [0.0, 0.0, 0.0]


PROMOTIONS = [
    ("float32", "float64", "float64"),
    ("float32", "int64", "float32"),
    ("bool", "float32", "float32"),
    ("bfloat16", "float16", "float32"),
    ("bfloat16", "float32", "float32"),
    ("int64", "bfloat16", "bfloat16"),
    ("int8", "uint8", "int16"),
    ("int32", "int64", "int64"),
    ("uint64", "int8", "float64"),
    ("bool", "int8", "int8"),
    ("uint8", "uint16", "uint16"),
]


@pytest.mark.parametrize(("a_type", "b_type", "want"), PROMOTIONS)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_dtypes_promote(name, a_type, b_type, want):
    a, b = [1, 0, 3], [2, 1, 1]
    for left, right in ((a_type, b_type), (b_type, a_type)):
        x, y = it.tensor(a).astype(left), it.tensor(b).astype(right)
        got = getattr(ops, name)(x, y)
        wanted = want if name != "div" or want.startswith(("float", "bfloat")) else "float32"
        assert got.dtype.name == wanted
        exact = BINARY[name](x.numpy().astype(np.float64), y.numpy().astype(np.float64))
        modulo = got.dtype.is_integer and got.dtype.kind == "u"
        exact = exact % 2 ** (8 * got.dtype.itemsize) if modulo else exact
        np.testing.assert_allclose(got.numpy().astype(np.float64), exact, rtol=0.01)


def test_bool_arithmetic_is_logic_and_differences_are_refused():
    a, b = it.tensor([True, True, False]), it.tensor([True, False, False])
    assert (a + b).tolist() == [True, True, False]
    assert (a * b).tolist() == [True, False, False]
    assert (a + b).dtype is it.dtype.bool_
    for name in ("sub", "div"):
        with pytest.raises(DtypeError, match=r"(Sub|Div)Forward.*two bool tensors"):
            getattr(ops, name)(a, b)
    assert (1 - a).tolist() == [0, 0, 1]
    assert (1 - a).dtype is it.dtype.int64
    assert (a + 1).tolist() == [2, 2, 1]
    assert (a * 0.5).tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_half_precision_rounds_once_and_sums_gradients_in_float32(name, half, rng):
    a = it.tensor(positive(rng, (700, 4))).astype(half)
    b = it.tensor(positive(rng, (4,))).astype(half)
    a.requires_grad = b.requires_grad = True
    y = getattr(ops, name)(a, b)
    a64, b64 = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    ulp = 2.0**-8 if half == "bfloat16" else 2.0**-11
    np.testing.assert_allclose(y.numpy().astype(np.float64), BINARY[name](a64, b64), rtol=1.01 * ulp)
    y.backward(it.ones(700, 4, dtype=half))
    want = {"add": 700.0, "sub": -700.0, "mul": a64.sum(0), "div": -(a64 / b64**2).sum(0)}[name]
    np.testing.assert_allclose(b.grad.numpy().astype(np.float64), np.broadcast_to(want, 4), rtol=2 * ulp)
    assert a.grad.dtype.name == b.grad.dtype.name == half


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_gradients_have_the_dtype_of_their_operand(name, rng):
    x = it.tensor([1.0, 2.0], requires_grad=True)
    h = x.astype("bfloat16")
    seen = []
    h.register_hook(lambda grad: seen.append(grad.dtype.name))
    w = it.tensor([[3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    getattr(ops, name)(h, w).sum().backward()
    getattr(ops, name)(w, x.astype("bfloat16")).sum().backward()
    assert seen == ["bfloat16"]
    assert w.grad.dtype is x.grad.dtype is it.dtype.float32


def test_equal_shapes_add_without_a_kernel_in_backward(monkeypatch):
    a, b = it.ones(2, 3, requires_grad=True), it.ones(2, 3, requires_grad=True)
    y = a + b
    monkeypatch.setattr("infinitrain.ops.elementwise.AddBackward", None)
    monkeypatch.setattr("infinitrain.ops.elementwise.Cast", None)
    y.backward(it.full((2, 3), 2.0))
    assert a.grad.tolist() == b.grad.tolist() == [[2.0] * 3] * 2


# Numbers on one side


@pytest.mark.parametrize(
    "number", [3, 2.5, -2, True, np.float32(1.5), np.int64(4), np.float64(0.25), np.array(2.0)]
)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_a_number_on_either_side(name, number, rng):
    x = positive(rng, (2, 3))
    t = it.from_numpy(x)
    fn, want = getattr(ops, name), BINARY[name]
    np.testing.assert_allclose(fn(t, number).numpy(), want(x, float(number)), rtol=1e-14)
    np.testing.assert_allclose(fn(number, t).numpy(), want(float(number), x), rtol=1e-14)
    assert fn(number, t).dtype is it.dtype.float64


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 2)])
def test_gradients_with_a_number(name, shape, rng):
    x = it.from_numpy(positive(rng, shape), requires_grad=True)
    gradcheck(lambda t: getattr(ops, name)(t, 1.7), x)
    gradcheck(lambda t: getattr(ops, name)(-1.7, t), x)


def test_numpy_scalars_on_the_left_ask_the_tensor():
    x = it.tensor([1.0, 2.0])
    for two in (np.float32(2), np.float64(2), np.int64(2)):
        assert (two * x).tolist() == [2.0, 4.0]
        assert (two - x).dtype is it.dtype.float32


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_integers_stay_integers_with_ints_and_become_float32_with_floats(dtype):
    x = it.tensor([1, 2, 100], dtype)
    a = x.numpy()
    assert (x + 5).tolist() == (a + 5).tolist()
    assert (x - 5).tolist() == (a - 5).tolist()
    assert (5 - x).tolist() == (5 - a).tolist()
    assert (x * 2).tolist() == (a * 2).tolist()
    assert (-x).tolist() == (-a).tolist()
    for y in (x + 5, x - 5, 5 - x, x * 2):
        assert y.dtype.name == dtype
    for y, want in ((x / 8, a / 8), (x * 0.5, a * 0.5), (x + 0.5, a + 0.5), (2 / x, 2 / a), (x / x, a / a)):
        assert y.dtype is it.dtype.float32
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", [d for d in it.dtype.ALL if d.is_integer], ids=str)
def test_a_float_minus_integers_is_right_where_they_have_no_negative(dtype):
    values = np.array([0, 1, 2, 100, np.iinfo(dtype.numpy).min], dtype.numpy)

    result = 2.5 - it.from_numpy(values)

    assert result.dtype is it.float32
    np.testing.assert_array_equal(result.numpy(), (2.5 - values.astype(np.float64)).astype(np.float32))


def test_division_by_a_number_is_a_division():
    x = np.arange(1, 200, dtype=np.float32)
    assert (it.from_numpy(x) / 10).tolist() == (x / np.float32(10)).tolist()


# Powers


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -1, -2.5, 7])
def test_power_of_a_number(exponent, rng):
    x = it.from_numpy(positive(rng, (2, 3)), requires_grad=True)
    np.testing.assert_allclose((x**exponent).numpy(), x.numpy() ** float(exponent), rtol=1e-13)
    gradcheck(lambda t: t**exponent, x)
    gradcheck(lambda t: (1.0 + exponent**2) ** t, x)


def test_powers_where_a_factor_of_the_gradient_is_infinite():
    x = it.tensor([0.0, 2.0], requires_grad=True)
    ((x**0).sum() + (x**1).sum() + (x**2).sum()).backward()
    assert x.grad.tolist() == [1.0, 5.0]
    a = it.tensor([0.0, 0.0, 3.0], requires_grad=True)
    b = it.tensor([2.0, 1.0, 0.0], requires_grad=True)
    (a**b).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [0.0, 1.0, 0.0])
    np.testing.assert_allclose(b.grad.numpy(), [0.0, 0.0, np.log(3.0)], rtol=1e-6)


def test_integer_powers():
    x = it.tensor([0, 1, 2, 3])
    assert (x**2).tolist() == [0, 1, 4, 9]
    assert (2**x).tolist() == [1, 2, 4, 8]
    assert (x**x).tolist() == [1, 1, 4, 27]
    assert (x**0.5).dtype is it.dtype.float32
    with pytest.raises(ValueError, match=r"pow: exponent -1 of a tensor of int64"):
        x**-1
    with pytest.raises(ValueError, match="negative integers"):
        2 ** (x - 2)
    with pytest.raises(ValueError, match="negative exponents of integers"):
        x ** (x - 2)


# Errors


def test_errors_name_the_op_the_arguments_and_what_to_do():
    x = it.ones(2, 3)
    with pytest.raises(ShapeError, match=r"AddForward\(a: float32\[2, 3\], b: float32\[2\]\).*3 against 2"):
        x + it.ones(2)
    with pytest.raises(TypeError, match="mul: an operand is a Tensor or a number, got str"):
        x * "2"
    with pytest.raises(TypeError, match=r"add: .*got ndarray; make it a tensor"):
        np.ones(3) + x
    with pytest.raises(TypeError, match="sub: one operand is a Tensor, got int and float"):
        ops.sub(1, 2.0)
    with pytest.raises(DtypeError, match=r"add: 300 does not fit int8 \(-128..127\)"):
        it.tensor([1], "int8") + 300
    with pytest.raises(ShapeError, match="grad has shape"):
        ops.AddBackward(x, (2, 3), (4, 1, 1))


def test_gradients_of_huge_powers_warn_of_nothing():
    """Infinities of both signs meet in a sum: a NaN, and no warning in NumPy's name."""
    a = it.tensor(np.array([[1e12, 1e12], [1e12, 1e12]], np.float32), requires_grad=True)
    b = it.tensor(np.array([40.0, -1.0], np.float32), requires_grad=True)
    y = a**b
    y.backward(it.tensor(np.array([[1.0, 1.0], [-1.0, 1.0]], np.float32)))
    assert np.isnan(b.grad.numpy()[0])
