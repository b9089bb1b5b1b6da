"""x[...] and x[...] = value against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import register_kernel
from infinitrain.device import DeviceType
from infinitrain.dtype import ALL
from infinitrain.errors import AutogradError, DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck
from infinitrain.testing import host_backend, temporary_backend

INDICES = [
    0,
    -1,
    np.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(5, 0, -2),
    slice(-2, 100),
    slice(2, 1),
    ...,
    None,
    (0, 1, 2),
    (slice(None), 1),
    (..., 1),
    (1, ..., slice(None, None, 3)),
    (None, 0, None, ..., None),
    (slice(0, 1), slice(None, None, -1), slice(3, None, -1)),
    (slice(0, 0), 1),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_getitem(index, rng):
    x = rng.normal(size=(3, 4, 5))
    t = it.from_numpy(x, requires_grad=True)
    y = t[index]
    assert y.shape == x[index].shape
    assert y.numpy().tolist() == x[index].tolist()
    y.detach().fill_(9.0)
    assert t.numpy().tolist() == x.tolist(), "indexing copies"
    gradcheck(lambda v: v[index], t)


def test_getitem_of_0d_and_by_a_0d_tensor():
    assert it.tensor(3.0)[...].item() == 3.0
    assert it.tensor(3.0)[()].shape == ()
    assert it.tensor(3.0)[None].tolist() == [3.0]
    assert it.tensor([1.0, 2.0])[it.tensor(1)].item() == 2.0
    assert [row.tolist() for row in it.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


def test_getitem_errors():
    x = it.ones(2, 3)
    with pytest.raises(IndexError, match=r"index 3 is out of range for axis 1 of size 3 \(shape \[2, 3\]\)"):
        x[0, 3]
    with pytest.raises(IndexError, match="index -3 is out of range for axis 0"):
        x[-3]
    with pytest.raises(IndexError, match="3 indices for a tensor with 2 dimensions"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="at most one Ellipsis"):
        x[..., ...]
    for index in (np.array([0]), [0, 1], True, 1.5, "a", it.ones(1)):
        with pytest.raises(TypeError, match="an index is an int, a slice, None, Ellipsis or a tensor of int"):
            x[index]
    with pytest.raises(TypeError, match=r"x\[mask\] would have a shape that depends.*where\(mask, x, 0\)"):
        x[x > 0]
    with pytest.raises(TypeError, match=r"one tensor of indices, got two; use .*x\[i\]\.gather\(1, "):
        x[it.tensor([0]), it.tensor([0])]
    with pytest.raises(ValueError, match="step cannot be zero"):
        x[::0]


I1, I2 = np.array([2, 0, 0, 1]), np.array([[1, 2, 0], [0, 0, 2]])
FULL, BACK = slice(None), slice(None, None, -1)
BY_TENSOR = [
    (I1,),
    (I2,),
    (FULL, I1),
    (..., I2),
    (..., I1, FULL),
    (BACK, slice(0, 3), I2),
    (I1, 1),
    (1, I1),
    (1, I2, 0),
    (1, FULL, I2),
    (I1, FULL, 0),
    (0, ..., I1),
    (0, 1, ..., I1),
    (FULL, 1, ..., I1),
    (None, I1),
    (0, None, I1),
    (I1, None, 1),
    (FULL, None, I2),
    (slice(0, 0), I1),
    (FULL, I1[:0]),
]


@pytest.mark.parametrize("index", BY_TENSOR, ids=lambda i: repr(i)[:50])
def test_getitem_by_a_tensor(index, rng):
    """Alone, between slices, beside ints on either side: NumPy's places of the new axes, the odd ones included."""
    x = rng.normal(size=(3, 4, 3))
    want = x[index]
    t = it.from_numpy(x, requires_grad=True)
    ours = tuple(it.from_numpy(i) if isinstance(i, np.ndarray) else i for i in index)
    y = t[ours]
    assert y.shape == want.shape
    assert y.numpy().tolist() == want.tolist()
    gradcheck(lambda v: v[ours], t)


ASSIGNED = [
    (0, ()),
    (-1, (4, 5)),
    ((slice(None), 1), (3, 5)),
    ((slice(None), 1), (3, 1)),
    ((slice(None, None, -1), ..., slice(4, 0, -2)), (3, 4, 2)),
    ((slice(None, None, -1), ..., slice(4, 0, -2)), (4, 1)),
    ((..., None, 2), (3, 4, 1)),
    ((None, 1, 2), (1, 5)),
    ((1, 2, 3), ()),
    ((1, 2, 3), (1,)),
    (..., (5,)),
    (slice(2, 2), (0, 4, 5)),
    ((slice(2, 2), None), ()),
    (slice(0, 3, 2), (2, 4, 5)),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16", "bool"])
@pytest.mark.parametrize(("index", "shape"), ASSIGNED, ids=repr)
def test_setitem(index, shape, dtype, rng):
    x, value = rng.integers(0, 2, (3, 4, 5)), np.asarray(rng.integers(0, 2, shape) + 1)
    t = it.from_numpy(x).astype(dtype)
    view = t.detach()
    if shape == (1,) and index == (1, 2, 3):
        with pytest.raises(ShapeError, match=r"value of shape \(1,\) does not broadcast to x\[index\], \(\)"):
            t[index] = it.from_numpy(value).astype(dtype)
        return
    want = x.astype(t.dtype.numpy)
    want[index] = value.astype(t.dtype.numpy)
    value = it.from_numpy(value)  # int64, which floats take as it is
    t[index] = value if t.dtype.is_floating else value.astype(dtype)
    assert t.tolist() == want.tolist()
    assert view.tolist() == want.tolist()
    want[index] = 0
    t[index] = 0
    assert t.tolist() == want.tolist()


def test_setitem_of_what_it_reads(rng):
    """The right side is read before anything is written, also when it is the same memory."""
    x = rng.normal(size=(4, 3))
    t = it.from_numpy(x)
    t[::-1] = t
    assert t.tolist() == x[::-1].tolist()
    t[::-1] = t.view(4, 3)
    assert t.tolist() == x.tolist()
    t[1:] = t[:-1]
    assert t.tolist() == x[[0, 0, 1, 2]].tolist()


@pytest.mark.parametrize("scalar", [True, False])
def test_setitem_casts_what_fits(scalar):
    """A number that does not fit is refused, and a tensor of a dtype of which some would not."""
    fits = {
        "uint8": {"bool", "uint8"},
        "int16": {"bool", "uint8", "int8", "int16"},
        "uint64": {"bool", "uint8", "uint16", "uint32", "uint64"},
        "bool": {"bool"},
        "float16": {d.name for d in ALL},
    }
    for dtype, taken in fits.items():
        for value in ALL:
            x, given = it.zeros(3, dtype=dtype), it.ones((() if scalar else (3,)), dtype=value.name)
            for index in (slice(None), it.tensor([True, True, True])) if scalar else (slice(None),):
                if value.name in taken:
                    x[index] = given
                    assert x.tolist() == [1, 1, 1]
                    continue
                with pytest.raises(
                    DtypeError, match=rf"x\[index\] = value: value is {value}, .* not fit {dtype}"
                ):
                    x[index] = given
                assert x.tolist() == [0, 0, 0]


def test_setitem_of_its_own_memory_on_a_device_that_copies_in_order():
    """A kernel may read what it has just written: core gives it a copy of what shares x's memory."""

    def SliceAssign(x, value, starts, ends, steps):
        (at,), source = [range(s, e, k) for s, e, k in zip(starts, ends, steps, strict=True)], value.array
        for i, place in enumerate(at):
            x.array[place] = source[i]

    def kernels():
        register_kernel(DeviceType.PRIVATEUSE1, "SliceAssign", SliceAssign)

    with temporary_backend(host_backend(kernels=kernels)):
        for alias in (lambda x: x, lambda x: x.detach(), lambda x: x.view(5)):
            x = it.tensor([0, 1, 2, 3, 4], device="testdev")
            x[::-1] = alias(x)
            assert x.tolist() == [4, 3, 2, 1, 0]


def test_setitem_by_mask(rng):
    x = rng.normal(size=(3, 4))
    t = it.from_numpy(x)
    mask, m = it.from_numpy(x > 0), x > 0
    t[mask] = -1
    x[m] = -1
    assert t.tolist() == x.tolist()
    t[t < -1] = it.tensor([2.5])
    x[x < -1] = 2.5
    assert t.tolist() == x.tolist()
    with pytest.raises(ShapeError, match=r"mask has shape \(4,\), x \(3, 4\)"):
        t[mask[0]] = 0
    with pytest.raises(ShapeError, match=r"takes one number, got a tensor of shape \(3, 4\).*where"):
        t[mask] = t


def test_setitem_bumps_the_version_and_minds_the_graph():
    x = it.tensor([1.0, 2.0], requires_grad=True)
    h = x * 1.0
    for tensor in (x, h):
        with pytest.raises(AutogradError, match=r"x\[index\] = value changes a tensor that the graph needs"):
            tensor[0] = 3.0
    with pytest.raises(AutogradError, match=r"x\[index\] = value would drop the graph of what it reads"):
        it.zeros(2)[0] = x[0]
    y = (x * x).sum()
    with it.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5.0, 2.0]
    with pytest.raises(AutogradError, match="SliceAssign has changed it since"):
        y.backward()
    y = (x * x).sum()
    with it.no_grad():
        x[x > 3] = 1.0
    with pytest.raises(AutogradError, match="Copy has changed it since"):
        y.backward()


def test_setitem_errors():
    x = it.zeros(2, 3)
    with pytest.raises(
        ShapeError, match=r"value of shape \(2,\) does not broadcast|shapes .* do not broadcast"
    ):
        x[0] = it.ones(2)
    with pytest.raises(TypeError, match=r"x\[index\] = value: an operand is a Tensor or a number, got list"):
        x[0] = [1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match=r"x\[tensor\] = value is not supported: use scatter"):
        x[it.tensor([0])] = 1.0
    with pytest.raises(IndexError, match="index 2 is out of range for axis 0"):
        x[2] = 1.0
    with pytest.raises(DtypeError, match=r"value 0\.5 is a float, and the tensor int64"):
        it.tensor([1, 2])[0] = 0.5
    with pytest.raises(DtypeError, match=r"x\[index\] = value: 300 does not fit uint8"):
        it.tensor([1, 2], "uint8")[0] = 300
    with pytest.raises(DtypeError, match=r"SliceAssign.*value has dtype int64, expected float32"):
        ops.SliceAssign(x, it.tensor(1), (0, 0), (1, 1), (1, 1))
    with pytest.raises(ShapeError, match=r"SliceAssign.*does not broadcast"):
        ops.SliceAssign(x, it.ones(2, 3), (0, 0), (1, 3), (1, 1))


def test_refusals_name_what_to_use_instead():
    x = it.ones(3, 4, requires_grad=True)
    for index in ([0, 2], np.array([0, 2])):
        with pytest.raises(TypeError, match=r"use x\[infinitrain\.tensor\(indices\)\]"):
            x[index]
    result = x * 2
    with pytest.raises(AutogradError) as caught:
        result[result > 1] = 0
    assert "x.masked_fill(mask, value) or ops.where(mask, value, x)" in str(caught.value)
    assert "no_grad" not in str(caught.value)  # which would not help: the graph is there
    with it.no_grad(), pytest.raises(AutogradError, match="masked_fill"):
        result[0] = 0
    with pytest.raises(AutogradError, match=r"use no_grad\(\), detach\(\), or x\.masked_fill"):
        x[0] = 0
    with pytest.raises(AutogradError, match=r"fill_ changes .* use the op without _, or detach"):
        result.fill_(0)
