"""Arrays of any layout become dense tensors of their own; what is no tensor's content is refused by name."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import infinitrain as it
from infinitrain.dtype import INTEGER
from infinitrain.errors import DtypeError, InfiniTrainError, ShapeError, UnsupportedShapeError

RNG = np.random.default_rng(11)
BASE = RNG.normal(size=(6, 5, 4)).astype(np.float32)


def _read_only() -> np.ndarray:
    array = BASE.copy()
    array.flags.writeable = False
    return array


def _unaligned() -> np.ndarray:
    raw = np.zeros(BASE.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(BASE.tobytes(), np.uint8)
    return raw[1:].view(np.float32).reshape(BASE.shape)


def _matrix() -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(BASE[0])


class Labelled(np.ndarray):
    """A subclass that numbers its axes."""


LAYOUTS: dict[str, np.ndarray] = {
    "dense": BASE,
    "transposed": BASE.T,
    "permuted": BASE.transpose(1, 2, 0),
    "Fortran order": np.asfortranarray(BASE),
    "every other row": BASE[::2],
    "every third column": BASE[:, :, ::3],
    "offset": BASE[1:, 2:, 1:],
    "reversed": BASE[::-1],
    "reversed in all axes": BASE[::-1, ::-2, ::-1],
    "zero strides": np.broadcast_to(BASE[0], (3, 5, 4)),
    "one element, zero strides": np.broadcast_to(np.float32(1.5), (2, 3)),
    "read-only": _read_only(),
    "unaligned": _unaligned(),
    "byte-swapped": BASE.astype(">f4"),
    "byte-swapped and transposed": BASE.astype(">f4").T,
    "byte-swapped integers": np.arange(-3, 9, dtype=">i8").reshape(3, 4)[:, ::-1],
    "0-d": np.array(2.5),
    "0-d of a larger array": BASE[1, 2, 3, ...],
    "a scalar": np.float32(2.5),
    "empty": BASE[:0],
    "empty and strided": BASE[::2, 5:, ::-1],
    "size-1 axes": BASE[:1, :, None, :1],
    "a diagonal": np.einsum("ii->i", BASE[0, :4, :4]),
    "a matrix": _matrix(),
    "another subclass": BASE.view(Labelled)[::2],
    "a field of records": np.array([(1, 2.5), (3, 4.5)], [("n", "i4"), ("x", "f4")])["x"],
    "the real part of complex numbers": (BASE + 1j).astype(np.complex64).real,
    "bools": (BASE > 0).T,
    "bfloat16": BASE.astype(ml_dtypes.bfloat16).T,
    "float16": BASE.astype(np.float16)[::-1],
    "uint64": np.array([0, 2**63, 2**64 - 1], np.uint64)[::-1],
    "8 axes": BASE.reshape(1, 6, 1, 5, 1, 2, 2, 1).T,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", [it.from_numpy, it.tensor])
def test_any_layout(layout: str, make: Any) -> None:
    array = LAYOUTS[layout]
    before = np.array(array, subok=False)
    tensor = make(array)
    assert tensor.shape == array.shape
    assert tensor.numpy().dtype == array.dtype.newbyteorder("=")
    assert tensor.tolist() == array.tolist()
    held = tensor.array
    assert type(held) is np.ndarray
    assert held.flags["C_CONTIGUOUS"]
    assert held.flags["ALIGNED"]
    assert held.flags["WRITEABLE"]
    assert held.dtype.isnative
    assert not np.shares_memory(held, array)
    tensor.zero_()
    np.testing.assert_array_equal(np.array(array, subok=False), before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_to_another_device(layout: str) -> None:
    from infinitrain.testing import host_backend, temporary_backend

    with temporary_backend(host_backend()):
        assert it.from_numpy(LAYOUTS[layout], "testdev:1").tolist() == LAYOUTS[layout].tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ops_see_the_values(layout: str) -> None:
    """The op runs on what was imported, as it would on NumPy's own copy."""
    array = LAYOUTS[layout]
    tensor = it.from_numpy(array)
    np.testing.assert_array_equal((tensor == tensor).numpy(), np.ones(array.shape, bool))
    wide = np.array(array, subok=False).astype(np.float64)
    np.testing.assert_allclose(tensor.astype("float64").sum().item(), wide.sum(), rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copy_from_any_layout(layout: str) -> None:
    array = LAYOUTS[layout]
    tensor = it.zeros(array.shape, dtype=array.dtype.newbyteorder("="))
    tensor.copy_(array)
    assert tensor.tolist() == array.tolist()


@pytest.mark.parametrize("layout", ["dense", "transposed", "reversed", "read-only", "zero strides", "0-d"])
def test_dlpack(layout: str) -> None:
    array = LAYOUTS[layout]
    assert it.from_dlpack(array).tolist() == array.tolist()
    assert it.from_dlpack(array).array.flags["C_CONTIGUOUS"]


REFUSED: dict[str, tuple[Any, str]] = {
    "masked": (np.ma.masked_array([1.0, 2.0], [True, False]), "(?s)from_numpy: array .*filled"),
    "complex": (np.ones(2, complex), "from_numpy: array: unknown dtype dtype.'complex128'"),
    "texts": (np.array(["a"]), "from_numpy: array: unknown dtype dtype.'<U1'"),
    "objects": (np.array([None]), "tensor.*None|from_numpy: array: unknown dtype dtype.'O'"),
    "dates": (np.array(["2024-01-01"], "M8[D]"), "from_numpy: array: unknown dtype dtype.'<M8"),
    "records": (np.zeros(2, [("n", "i4")]), "from_numpy: array: unknown dtype"),
    "long double": (np.ones(2, np.longdouble), "from_numpy: array: unknown dtype"),
    "9 axes": (np.ones((1,) * 9), r"from_numpy: array: 9 dimensions.*\[contract 4.4\]"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("make", [it.from_numpy, it.tensor])
def test_what_is_no_tensor(kind: str, make: Any) -> None:
    array, text = REFUSED[kind]
    with pytest.raises((InfiniTrainError, TypeError), match=text):
        make(array)


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        ([300], "int8", "300 to 300 does not fit int8"),
        ([-1, 5], "uint16", "-1 to 5 does not fit uint16"),
        ([2**63], "int64", "does not fit int64"),
        ([1.0, float("nan")], "int32", "nan to nan does not fit int32"),
        (np.array([np.inf]), "int64", "inf to inf does not fit int64"),
        ([1e30], "int64", "1e\\+30 to 1e\\+30 does not fit int64"),
        ([1j], "float32", "data has dtype complex128"),
        (["1.5"], "float32", "data has dtype <U3"),
        ([1.0], "float31", "unknown dtype 'float31'"),
    ],
)
def test_what_a_dtype_does_not_hold(data: Any, dtype: str, text: str) -> None:
    with pytest.raises(DtypeError, match=text):
        it.tensor(data, dtype=dtype)


@pytest.mark.parametrize("dtype", [d.name for d in INTEGER])
def test_ints_are_exact(dtype: str) -> None:
    """NumPy makes floats of ints that no dtype of its own holds together, 3 and 2**64 - 1 for example."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    for ints in ([3, high], [high], [low, high], [low + 1, 0, high - 1], [[True, high], [5, high - 2]]):
        assert it.tensor(ints, dtype).tolist() == ints
        for wrong in ([low, high + 1], [low - 1, high], [low - 1], [high + 1]):
            with pytest.raises(DtypeError, match="fit"):
                it.tensor(wrong, dtype)


def test_ints_beyond_int64() -> None:
    for ints, dtype in (([3, 2**63 - 1], "int64"), ([3, 2**63], "uint64"), ([[2**64 - 1], [0]], "uint64")):
        made = it.tensor(ints)
        assert (made.tolist(), made.dtype.name) == (ints, dtype)
    for wrong in ([-1, 2**63], [2**64], [-(2**63) - 1, 0]):
        with pytest.raises(DtypeError, match=r"tensor: ints from .* fit neither int64 nor uint64"):
            it.tensor(wrong)
    for bound, dtype in (
        (2.0**63, "int64"),
        (2.0**64, "uint64"),
    ):  # one more than the largest, which is no float
        with pytest.raises(DtypeError, match="does not fit"):
            it.tensor(np.array([bound]), dtype)
        assert it.tensor(np.array([bound / 2]), dtype).tolist() == [int(bound) // 2]
    assert it.tensor([0.5, 2**63]).dtype is it.float32


def test_what_a_dtype_holds_though_rounded() -> None:
    assert it.tensor([1e300], dtype="float32").tolist() == [np.inf]
    assert it.tensor([2.9, -2.9], dtype="int8").tolist() == [2, -2]
    assert it.tensor([2**64 - 1], dtype="uint64").tolist() == [2**64 - 1]
    assert it.tensor([0.0, 2.0, np.nan], dtype="bool").tolist() == [False, True, True]
    assert it.tensor([], dtype="int8").tolist() == []


@pytest.mark.parametrize("make", [it.zeros, it.ones, it.empty])
def test_shapes_that_cannot_be(make: Any) -> None:
    name = make.__name__
    for shape in [(-1, 3), (-2, -3), (0, -1)]:
        with pytest.raises(ShapeError, match=rf"^{name}: shape .*negative"):
            make(shape)
    for shape in [(2**62, 2), (2**31, 2**31, 2), (0, 2**62, 4)]:
        with pytest.raises(ShapeError, match=rf"^{name}: .*2\*\*63 bytes"):
            make(shape)
    with pytest.raises(UnsupportedShapeError, match=rf"^{name}: 9 dimensions"):
        make((1,) * 9)
    for wrong in ["x", 1.5, None, True, b"ab", {2}, [None], 2**63]:
        with pytest.raises(DtypeError, match=rf"^{name}: a size in a shape"):
            make(wrong)


def test_a_value_that_an_element_cannot_have() -> None:
    for dtype, value, text in [
        ("int8", 300, "300 does not fit int8"),
        ("int64", 0.5, "value 0.5 is a float, and the tensor int64"),
        ("uint8", -1, "-1 does not fit uint8"),
        ("int32", float("nan"), "nan is a float"),
    ]:
        with pytest.raises(DtypeError, match=f"^full: value: .*{text}"):
            it.full((2,), value, dtype=dtype)
        with pytest.raises(DtypeError, match=f"^fill_: value: .*{text}"):
            it.zeros(2, dtype=dtype).fill_(value)
        with pytest.raises(DtypeError, match=f"^new_full: value: .*{text}"):
            it.zeros(2, dtype=dtype).new_full((2,), value)
    with pytest.raises(TypeError, match=r"grad is a Tensor or None, got ndarray"):
        it.ones(2, requires_grad=True).grad = np.ones(2)
