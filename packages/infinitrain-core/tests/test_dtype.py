"""The dtypes: ids on disk, what names them, and promotion against a table written apart."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

from infinitrain import dtype
from infinitrain.dtype import ALL, DType, as_dtype, promote
from infinitrain.errors import DtypeError


def test_ids_and_sizes_are_those_of_the_files() -> None:
    names = [
        "bool",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "uint32",
        "int32",
        "uint64",
        "int64",
        "bfloat16",
        "float16",
        "float32",
        "float64",
    ]
    sizes = [1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8]
    assert [(d.id, d.name, d.itemsize) for d in ALL] == list(zip(range(13), names, sizes, strict=True))


@pytest.mark.parametrize("d", ALL, ids=str)
def test_every_spelling_means_the_one_object(d: DType) -> None:
    for spelling in (d, d.name, d.numpy, d.numpy.type, np.zeros(1, d.numpy).dtype):
        assert as_dtype(spelling) is d


def test_kinds() -> None:
    assert [d.name for d in dtype.FLOATING] == ["bfloat16", "float16", "float32", "float64"]
    assert len(dtype.INTEGER) == 8
    assert not dtype.bool_.is_integer
    assert not dtype.bool_.is_floating
    assert as_dtype(bool) is dtype.bool_
    assert as_dtype(ml_dtypes.bfloat16) is dtype.bfloat16


@pytest.mark.parametrize(
    "value",
    [
        None,
        float,
        int,
        complex,
        "float",
        "f4",
        "Float32",
        "float32 ",
        "",
        np.complex64,
        np.dtype(">f4"),
        3,
        object,
    ],
    ids=repr,
)
def test_anything_else_is_refused_with_the_known_names(value: object) -> None:
    with pytest.raises(DtypeError, match=r"unknown dtype .*; known: bool, uint8, .*, float64"):
        as_dtype(value)


@pytest.mark.parametrize("d", ALL, ids=str)
def test_copies_are_the_same_object(d: DType) -> None:
    assert pickle.loads(pickle.dumps(d)) is d
    assert copy.deepcopy(d) is d


@pytest.mark.parametrize("a", ALL, ids=str)
@pytest.mark.parametrize("b", ALL, ids=str)
def test_promotion(a: DType, b: DType) -> None:
    """NumPy's rule, but a float is not widened by an integer, and float16 with bfloat16 is float32."""
    if a.is_floating is not b.is_floating:
        expected = a if a.is_floating else b
    elif {a.name, b.name} == {"float16", "bfloat16"}:
        expected = dtype.float32
    elif "bfloat16" in (a.name, b.name) and a is not b:
        expected = a if a.name != "bfloat16" else b
    else:
        expected = as_dtype(np.promote_types(a.numpy, b.numpy))
    assert promote(a, b) is expected
