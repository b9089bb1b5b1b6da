"""Every method and operator of Tensor that computes, against PyTorch's tensors: values, dtypes and the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from agreement import array, assert_agree
from tensors import as_tuple, dtype_of, pair, send_back
from tolerances import DOUBLE, SINGLE

import infinitrain as it

RNG = np.random.default_rng(11)
X, Y, M = RNG.uniform(0.3, 2, (4, 5)), RNG.uniform(0.3, 2, (5,)), RNG.normal(0.2, 1, (5, 3))
INDEX, MASK = RNG.integers(0, 4, (3, 5)), RNG.random((4, 5)) < 0.4
Call = Callable[..., Any]

_ARITHMETIC = "__add__ __sub__ __mul__ __truediv__ __pow__"
_COMPARISONS = "__lt__ __le__ __gt__ __ge__ __eq__ __ne__"
SAME = {
    "exp log sqrt rsqrt reciprocal sin cos tanh sigmoid abs isfinite isnan flatten sum mean": (),
    "contiguous clone float cpu detach __neg__ __abs__": (),
    "pow __pow__ __rpow__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__": (
        1.7,
    ),
    "__lt__ __le__ __gt__ __ge__ __eq__ __ne__": (1.0,),
    "sum mean argmax argmin": (0, True),
    "softmax cumsum argmax argmin unsqueeze __getitem__": (1,),
    "view reshape": (2, -1),
    "clamp": (0.5, 1.5),
    "flatten transpose": (0, 1),
    "repeat_interleave": (3, 1),
    "split": (3, 1),
    "topk": (2, 1),
}
"""Methods with PyTorch's name and arguments, by the arguments."""

CASES: dict[str, tuple[Call, Call]] = {
    **{
        f"{name}{args}": (
            lambda x, y, m, i, k, name=name, args=args: getattr(x, name)(*args),
            lambda x, y, m, i, k, name=name, args=args: getattr(x, name)(*args),
        )
        for names, args in SAME.items()
        for name in names.split()
    },
    **{
        f"{name} of tensors": (
            lambda x, y, m, i, k, name=name: getattr(x, name)(y),
            lambda x, y, m, i, k, name=name: getattr(x, name)(y),
        )
        for name in (*_ARITHMETIC.split(), *_COMPARISONS.split())
    },
    "max": (lambda x, *_: x.max(1), lambda x, *_: x.amax(1)),
    "min": (lambda x, *_: x.min((0, 1)), lambda x, *_: x.amin((0, 1))),
    "norm": (lambda x, *_: x.norm(1), lambda x, *_: torch.linalg.vector_norm(x, dim=1)),
    "var": (lambda x, *_: x.var(1), lambda x, *_: x.var(1, correction=0)),
    "std": (lambda x, *_: x.std(1, correction=1), lambda x, *_: x.std(1, correction=1)),
    "matmul": (lambda x, y, m, *_: x.matmul(m), lambda x, y, m, *_: x.matmul(m)),
    "__matmul__": (lambda x, y, m, *_: x @ m, lambda x, y, m, *_: x @ m),
    "outer": (lambda x, y, *_: y.outer(y), lambda x, y, *_: y.outer(y)),
    "T": (lambda x, *_: x.T, lambda x, *_: x.mT),
    "masked_fill": (lambda x, y, m, i, k: x.masked_fill(k, -2), lambda x, y, m, i, k: x.masked_fill(k, -2)),
    "gather": (lambda x, y, m, i, k: x.gather(0, i), lambda x, y, m, i, k: x.gather(0, i)),
    "index_select": (
        lambda x, y, m, i, k: x.index_select(0, i[0]),
        lambda x, y, m, i, k: x.index_select(0, i[0]),
    ),
    "scatter_add": (
        lambda x, y, m, i, k: x.scatter_add(0, i, x[:3]),
        lambda x, y, m, i, k: x.scatter_add(0, i, x[:3]),
    ),
    "astype": (lambda x, *_: x.astype("float16"), lambda x, *_: x.half()),
    "to": (lambda x, *_: x.to("bfloat16"), lambda x, *_: x.bfloat16()),
    "__and__": (lambda x, y, m, i, k: (x > 1) & k, lambda x, y, m, i, k: (x > 1) & k),
    "__or__": (lambda x, y, m, i, k: (x > 1) | k, lambda x, y, m, i, k: (x > 1) | k),
    "__invert__": (lambda x, y, m, i, k: ~k, lambda x, y, m, i, k: ~k),
    "__iter__": (lambda x, *_: list(x), lambda x, *_: list(x)),
    "squeeze": (lambda x, *_: x[:, None].squeeze(1), lambda x, *_: x[:, None].squeeze(1)),
    "new_full": (lambda x, *_: x.new_full((2, 3), 0.3), lambda x, *_: x.new_full((2, 3), 0.3)),
    "__setitem__": (lambda x, *_: _put(x, 1, 2.5), lambda x, *_: _put(x, 1, 2.5)),
    "fill_": (lambda x, *_: x.detach().clone().fill_(3), lambda x, *_: x.detach().clone().fill_(3)),
    "zero_": (lambda x, *_: x.detach().clone().zero_(), lambda x, *_: x.detach().clone().zero_()),
    "copy_": (
        lambda x, y, *_: y.detach().clone().copy_(x[1].detach()),
        lambda x, y, *_: y.detach().clone().copy_(x[1].detach()),
    ),
    "add_": (
        lambda x, y, *_: y.detach().clone().add_(x[2].detach(), alpha=-0.3),
        lambda x, y, *_: y.detach().clone().add_(x[2].detach(), alpha=-0.3),
    ),
    "item": (lambda x, *_: it.tensor(x[0, 0].item()), lambda x, *_: torch.tensor(x[0, 0].item())),
}

NOT_COMPUTING = {
    "array buffer offset ptr nbytes numel ndim shape dtype device name version bump_version": "what a tensor is",
    "backward grad grad_fn is_leaf requires_grad register_hook register_post_accumulate_grad_hook": "the graph",
    "set_grad_destination zero_grad": "where gradients go",
    "view_as": "how kernels look at memory: outside the graph",
    "numpy tolist __array__ __array_priority__ __dlpack__ __dlpack_device__": "values for others",
    "__bool__ __float__ __int__ __index__ __len__": "one Python number",
}
"""Attributes that make no tensor, with the reason."""


def _put(x: Any, index: Any, value: Any) -> Any:
    x = x.detach().clone()
    x[index] = value
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_methods(name: str, dtype: str) -> None:
    run, reference = CASES[name]
    ours, theirs = zip(*[pair(values, dtype) for values in (X, Y, M, INDEX, MASK)], strict=True)

    results, their_results = as_tuple(run(*ours)), as_tuple(reference(*theirs))

    assert len(results) == len(their_results)
    for a, b in zip(results, their_results, strict=True):
        if name != "item":  # a Python number
            assert dtype_of(a) == dtype_of(b)
        assert (a.shape, a.requires_grad) == (tuple(b.shape), b.requires_grad)
        np.testing.assert_allclose(array(a), array(b), rtol=SINGLE if dtype == "float32" else DOUBLE)
        if b.requires_grad:
            send_back(np.random.default_rng(2), a, b)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            tolerance = SINGLE if dtype == "float32" or name == "float()" else DOUBLE
            assert_agree(f"methods, gradients, {dtype}", f"{name} input {i}", a.grad, b.grad, tolerance)


def test_every_method_that_computes_has_a_case() -> None:
    attributes = {
        name
        for kind in it.Tensor.__mro__[:-1]
        for name in vars(kind)
        if not name.startswith("_") or (name.endswith("__") and callable(getattr(kind, name)))
    }
    attributes -= set(vars(object)) - {
        "__eq__",
        "__ne__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
    }
    attributes -= {"__weakref__", "__dict__"}
    listed = {name for names in NOT_COMPUTING for name in names.split()}
    tested = {name.split("(")[0].split(" ")[0] for name in CASES}
    assert attributes - listed == tested & attributes, sorted(attributes - listed - tested)
    assert listed <= attributes | {"__array_priority__"}, sorted(listed - attributes)
    assert tested <= attributes, sorted(tested - attributes)
