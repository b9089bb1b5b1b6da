"""Ops that move data against NumPy, gradients against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.errors import DtypeError, ShapeError
from infinitrain.gradcheck import gradcheck

X = (2, 3, 4)
MOVES = {
    "transpose": (lambda t: ops.transpose(t, 0, -1), lambda x: np.swapaxes(x, 0, -1), X),
    "transpose-same": (lambda t: ops.transpose(t, 1, 1), lambda x: x, X),
    "T": (lambda t: t.T, lambda x: np.swapaxes(x, -1, -2), X),
    "permute": (lambda t: ops.permute(t, (2, 0, 1)), lambda x: np.transpose(x, (2, 0, 1)), X),
    "permute-negative": (lambda t: ops.permute(t, (-1, 0, 1)), lambda x: np.transpose(x, (2, 0, 1)), X),
    "concat": (lambda t: ops.concat([t, t, t], 1), lambda x: np.concatenate([x, x, x], 1), X),
    "concat-one": (lambda t: ops.concat([t], -1), lambda x: x, X),
    "stack": (lambda t: ops.stack([t, t], 1), lambda x: np.stack([x, x], 1), X),
    "stack-last": (lambda t: ops.stack([t, t], -1), lambda x: np.stack([x, x], -1), X),
    "stack-0d": (lambda t: ops.stack([t, t]), lambda x: np.stack([x, x]), ()),
    "repeat": (lambda t: ops.repeat_interleave(t, 3, 1), lambda x: np.repeat(x, 3, 1), X),
    "repeat-0": (lambda t: ops.repeat_interleave(t, 0, 1), lambda x: np.repeat(x, 0, 1), X),
    "expand": (lambda t: ops.expand(t, (5, 2, 4)), lambda x: np.broadcast_to(x, (5, 2, 4)), (2, 1)),
    "expand-keep": (lambda t: ops.expand(t, (5, -1, 4)), lambda x: np.broadcast_to(x, (5, 2, 4)), (2, 1)),
    "expand-0d": (lambda t: ops.broadcast_to(t, (3,)), lambda x: np.broadcast_to(x, (3,)), ()),
    "expand-empty": (lambda t: ops.broadcast_to(t, (0, 2)), lambda x: np.broadcast_to(x, (0, 2)), (1, 2)),
    "flatten": (lambda t: t.flatten(), lambda x: x.reshape(-1), X),
    "flatten-some": (lambda t: ops.flatten(t, 1, -1), lambda x: x.reshape(2, 12), X),
    "flatten-0d": (lambda t: t.flatten(), lambda x: x.reshape(1), ()),
    "squeeze": (lambda t: t.squeeze(1), lambda x: x.squeeze(1), (2, 1, 4)),
    "squeeze-all": (lambda t: ops.squeeze(t), lambda x: x.squeeze(), (1, 2, 1)),
    "squeeze-two": (lambda t: ops.squeeze(t, (0, -1)), lambda x: x.squeeze((0, -1)), (1, 2, 1)),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda x: np.expand_dims(x, 1), X),
    "unsqueeze-last": (lambda t: t.unsqueeze(-1), lambda x: np.expand_dims(x, -1), X),
    "tril": (ops.tril, np.tril, (3, 4)),
    "tril-batch": (lambda t: ops.tril(t, 1), lambda x: np.tril(x, 1), (2, 4, 3)),
    "triu": (lambda t: ops.triu(t, -1), lambda x: np.triu(x, -1), (3, 4)),
    "empty": (lambda t: ops.transpose(t), lambda x: x.T, (0, 3)),
}


@pytest.mark.parametrize("name", MOVES)
def test_forward_and_gradient(name, rng):
    fn, oracle, shape = MOVES[name]
    x = rng.normal(size=shape)
    t = it.from_numpy(np.asarray(x), requires_grad=True)
    y = fn(t)
    want = oracle(np.asarray(x))
    assert y.shape == want.shape
    assert y.numpy().tolist() == want.tolist()
    gradcheck(fn, t)


@pytest.mark.parametrize("dtype", [d.name for d in it.dtype.ALL])
def test_every_dtype_is_moved_unchanged(dtype):
    x = it.tensor([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    a = np.array([[0, 1, 1], [1, 0, 1]])
    for y, want in (
        (x.T, a.T),
        (ops.permute(x, (1, 0)), a.T),
        (x[:, ::-1], a[:, ::-1]),
        (ops.concat([x, x]), np.concatenate([a, a])),
        (ops.split(x, 2, 1)[0], a[:, :2]),
        (ops.repeat_interleave(x, 2, 0), np.repeat(a, 2, 0)),
        (ops.expand(x, (2, 2, 3)), np.stack([a, a])),
        (ops.tril(x), np.tril(a)),
        (ops.triu(x), np.triu(a)),
    ):
        assert y.dtype.name == dtype
        assert y.numpy().astype(int).tolist() == want.tolist()


def test_results_do_not_share_memory(rng):
    x = it.from_numpy(rng.normal(size=(2, 3)))
    before = x.tolist()
    for y in (
        ops.transpose(x, 0, 0),
        ops.permute(x, (0, 1)),
        x[...],
        x[:, :],
        ops.concat([x]),
        ops.split(x, 2)[0],
        ops.split(x, 1)[0],
        ops.expand(x, (2, 3)),
        ops.repeat_interleave(x, 1, 0),
        ops.SumForward(x, (), False),
        ops.MaxForward(x, (), False),
        ops.AddBackward(x, (2, 3), (2, 3))[0],
        ops.ExpandBackward(x, (2, 3)),
        ops.MaskBackward(x, it.tensor(False), (2, 3)),
        ops.pow(x, 1),
    ):
        y.fill_(7.0)
    assert x.tolist() == before


@pytest.mark.parametrize(
    ("size", "axis", "want"),
    [(2, 1, [2, 2, 1]), (5, 1, [5]), (7, 1, [5]), ([1, 0, 4], 1, [1, 0, 4]), (1, -2, [1, 1]), ([5], -1, [5])],
)
def test_split(size, axis, want, rng):
    x = rng.normal(size=(2, 5, 3)) if axis != -1 else rng.normal(size=(2, 5))
    t = it.from_numpy(x, requires_grad=True)
    axis = axis if axis != -2 else 0
    pieces = ops.split(t, size, axis)
    assert [p.shape[axis] for p in pieces] == want
    assert isinstance(pieces, tuple)
    np.testing.assert_array_equal(np.concatenate([p.numpy() for p in pieces], axis), x)
    gradcheck(lambda v: ops.split(v, size, axis), t)


def test_an_unused_piece_of_split_counts_as_zero():
    x = it.tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    first, _, last = x.split(2)
    (first * 3.0).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [3.0, 3.0, 0.0, 0.0, 0.0]
    last.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0, 0.0, 0.0, 1.0]


def test_concat_gives_each_tensor_its_part_and_its_dtype(rng):
    a = it.from_numpy(rng.normal(size=(2, 1)), requires_grad=True)
    b = it.tensor(rng.normal(size=(2, 3))).astype("bfloat16")
    b.requires_grad = True
    y = ops.concat([a, b, it.tensor([[1], [2]])], 1)
    assert y.dtype is it.dtype.float64
    assert y.shape == (2, 5)
    y.backward(it.from_numpy(np.arange(10.0).reshape(2, 5)))
    assert a.grad.tolist() == [[0.0], [5.0]]
    assert b.grad.tolist() == [[1.0, 2.0, 3.0], [6.0, 7.0, 8.0]]
    assert b.grad.dtype is it.dtype.bfloat16


def test_errors_name_the_function_and_the_values():
    x = it.ones(2, 3)
    cases = [
        (lambda: ops.transpose(x, 0, 2), "transpose: axis1 2 is out of range"),
        (lambda: ops.permute(x, (0, 0)), r"PermuteForward.*axes \(0, 0\) are not each of 0\.\.1 once"),
        (lambda: ops.split(x, 0), "split: size 0"),
        (
            lambda: ops.split(x, [1, 2]),
            r"split: sizes \(1, 2\) do not add up to 2, the size of axis 0 of \[2, 3\]",
        ),
        (lambda: ops.concat([x, it.ones(2, 2)]), r"tensors\[1\] has shape \(2, 2\), tensors\[0\] \(2, 3\)"),
        (lambda: ops.concat([]), r"concat: tensors=\[\] needs at least one tensor"),
        (lambda: ops.stack([x, it.ones(3)]), r"stack: tensors\[1\] has shape \[3\], tensors\[0\] \[2, 3\]"),
        (lambda: ops.repeat_interleave(x, -1, 0), "repeats -1 is negative"),
        (lambda: ops.expand(x, (2, 4)), r"shapes? \(2, 3\)"),
        (lambda: ops.expand(x, (3,)), r"broadcast_to: shape \[2, 3\] does not broadcast to \[3\]"),
        (lambda: ops.tril(it.ones(3)), "a triangle needs two axes"),
        (lambda: ops.flatten(x, 1, 0), "flatten: start 1 comes after end 0"),
        (lambda: x.squeeze(0), r"squeeze: axis 0 of \[2, 3\] has size 2, not 1"),
        (lambda: x.unsqueeze(4), "unsqueeze: axis 4 is out of range"),
        (lambda: ops.SliceForward(x, (0, 0), (3, 3), (1, 1)), "0:3:1 is outside axis 0 of size 2"),
        (lambda: ops.SliceForward(x, (0,), (1,), (1,)), "need one entry per axis"),
        (lambda: ops.SplitForward(x, (2,), 0), "two or more"),
    ]
    for call, message in cases:
        with pytest.raises(ShapeError, match=message):
            call()
    with pytest.raises(DtypeError, match="transpose: axis0 is an int, got 'a'"):
        ops.transpose(x, "a", 0)


def test_a_slice_of_nothing_backwards_from_before_the_first():
    x, none = it.ones(1, 3), it.ones(1, 0)
    where = (0, -1), (1, -1), (1, -1)
    assert ops.SliceForward(x, *where).shape == (1, 0)
    assert ops.SliceBackward(none, (1, 3), *where).tolist() == [[0.0, 0.0, 0.0]]
    ops.SliceAssign(x, none, *where)
    assert x.tolist() == [[1.0, 1.0, 1.0]]
