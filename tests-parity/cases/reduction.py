"""Reductions over no, one, several and all axes, and softmax."""

from __future__ import annotations

import torch

from .case import Case, mask, normal, whole, whole_floats

_AXES = {"all": None, "first": 0, "last": -1, "two": (0, 2), "inner two": (1, -1), "one of many": (1,)}
_THEIRS = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}

CASES = [
    Case(
        *(op, f"{about}{' kept' if keep else ''}"),
        lambda f, x, axes=axes, keep=keep: f(x, axes, keep),
        lambda x, g=theirs, axes=axes, keep=keep: g(x, tuple(range(x.ndim)) if axes is None else axes, keep),
        (normal(3, 4, 5),),
    )
    for op, theirs in _THEIRS.items()
    for about, axes in _AXES.items()
    for keep in (False, True)
]
CASES += [
    Case("max", "ties", lambda f, x: f(x, (0, 2)), lambda x: x.amax((0, 2)), (whole_floats(0, 3, 3, 4, 5),)),
    Case("min", "ties", lambda f, x: f(x, 1), lambda x: x.amin(1), (whole_floats(0, 3, 3, 4, 5),)),
    Case("sum", "ints", lambda f, x: f(x, 1), lambda x: x.sum(1), (whole(-9, 9, 3, 4, dtype="int32"),)),
    Case("sum", "bools", lambda f, x: f(x), lambda x: x.sum(), (mask(30),)),
    Case("sum", "no elements", lambda f, x: f(x, 0), lambda x: x.sum(0), (normal(0, 3),)),
    Case("sum", "many", lambda f, x: f(x, 1), lambda x: x.sum(1), (normal(3, 4001),)),
    Case("max", "ints", lambda f, x: f(x, 0), lambda x: x.amax(0), (whole(-9, 9, 3, 4),)),
    Case("max", "ties in all", lambda f, x: f(x), lambda x: x.amax((0, 1)), (whole_floats(0, 3, 9, 7),)),
    Case("min", "ints", lambda f, x: f(x, 0), lambda x: x.amin(0), (whole(-9, 9, 3, 4),)),
    Case("argmin", "last", lambda f, x: f(x), lambda x: x.argmin(-1), (normal(3, 4, 5),)),
    Case("argmin", "all", lambda f, x: f(x, None), lambda x: x.argmin(), (normal(3, 4, 5),)),
    *[
        Case(
            *(
                "norm",
                f"{about}{' kept' if keep else ''}",
                lambda f, x, axes=axes, keep=keep: f(x, axes, keep),
            ),
            lambda x, axes=axes, keep=keep: torch.linalg.vector_norm(x, 2, axes, keep),
            (normal(3, 4, 5),),
        )
        for about, axes in _AXES.items()
        for keep in (False, True)
    ],
    Case(
        "norm",
        "zeros",
        lambda f, x: f(x, 1),
        lambda x: torch.linalg.vector_norm(x, 2, 1),
        (normal(3, 4, scale=0.0),),
    ),
    *[
        Case(
            "cumsum",
            f"axis {axis}",
            lambda f, x, a=axis: f(x, a),
            lambda x, a=axis: x.cumsum(a),
            (normal(3, 4, 5),),
        )
        for axis in (0, 1, -1)
    ],
    Case("cumsum", "ints", lambda f, x: f(x, 1), lambda x: x.cumsum(1), (whole(-9, 9, 3, 4, dtype="int16"),)),
    Case("cumsum", "bools", lambda f, x: f(x), lambda x: x.cumsum(0), (mask(30),)),
    Case("cumsum", "many", lambda f, x: f(x, 1), lambda x: x.cumsum(1), (normal(3, 4001),)),
    Case("argmax", "last", lambda f, x: f(x), lambda x: x.argmax(-1), (normal(3, 4, 5),)),
    Case("argmax", "first kept", lambda f, x: f(x, 0, True), lambda x: x.argmax(0, True), (normal(3, 4, 5),)),
    Case("argmax", "all", lambda f, x: f(x, None), lambda x: x.argmax(), (normal(3, 4, 5),)),
]
CASES += [
    Case(
        *(op, f"axis {axis} scale {scale}", lambda f, x, axis=axis: f(x, axis)),
        lambda x, op=op, axis=axis: getattr(torch, op)(x, axis),
        (normal(3, 4, 5, scale=scale),),
    )
    for op in ("softmax", "log_softmax")
    for axis in (-1, 0, 1)
    for scale in (1.0, 100.0)
]
CASES += [
    Case(
        *(op, f"{about}, correction {n}"),
        lambda f, x, axes=axes, n=n: f(x, axes, correction=n),
        lambda x, g=theirs, axes=axes, n=n: g(x, axes, correction=n),
        (normal(3, 4, 5),),
    )
    for op, theirs in {"var": torch.var, "std": torch.std}.items()
    for about, axes in _AXES.items()
    for n in (0, 1)
]
