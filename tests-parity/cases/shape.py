"""Views, transposes, joining, cutting and repeating."""

from __future__ import annotations

import torch

from .case import Case, normal, whole

_X = (normal(2, 3, 4),)

CASES = [
    Case("view", "", lambda f, x: f(x, (4, 6)), lambda x: x.view(4, 6), _X),
    Case("flatten", "all", lambda f, x: f(x), torch.flatten, _X),
    Case("flatten", "two axes", lambda f, x: f(x, 1, 2), lambda x: x.flatten(1, 2), _X),
    Case("flatten", "0-d", lambda f, x: f(x), torch.flatten, (normal(),)),
    Case("squeeze", "all", lambda f, x: f(x), torch.squeeze, (normal(1, 3, 1, 2),)),
    Case("squeeze", "one", lambda f, x: f(x, 2), lambda x: x.squeeze(2), (normal(1, 3, 1, 2),)),
    Case("squeeze", "two", lambda f, x: f(x, (0, -2)), lambda x: x.squeeze((0, -2)), (normal(1, 3, 1, 2),)),
    *[
        Case("unsqueeze", f"at {at}", lambda f, x, at=at: f(x, at), lambda x, at=at: x.unsqueeze(at), _X)
        for at in (0, 2, -1)
    ],
    Case("transpose", "last two", lambda f, x: f(x), lambda x: x.transpose(-2, -1), _X),
    Case("transpose", "outer two", lambda f, x: f(x, 0, 2), lambda x: x.transpose(0, 2), _X),
    Case("permute", "cycle", lambda f, x: f(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), _X),
    Case(
        "permute",
        "4 axes",
        lambda f, x: f(x, (0, 2, 1, -1)),
        lambda x: x.permute(0, 2, 1, 3),
        (normal(2, 3, 4, 5),),
    ),
    Case(
        "broadcast_to", "", lambda f, x: f(x, (2, 3, 4)), lambda x: x.broadcast_to(2, 3, 4), (normal(3, 1),)
    ),
    Case("expand", "keeps -1", lambda f, x: f(x, (5, -1, 4)), lambda x: x.expand(5, -1, 4), (normal(3, 1),)),
    Case(
        "concat",
        "first axis",
        lambda f, a, b: f([a, b]),
        lambda a, b: torch.cat([a, b]),
        (normal(2, 3), normal(4, 3)),
    ),
    Case(
        *("concat", "three on the last axis", lambda f, *x: f(x, -1), lambda *x: torch.cat(x, -1)),
        (normal(2, 3), normal(2, 1), normal(2, 4)),
    ),
    Case(
        "concat",
        "one tensor twice",
        lambda f, a: f([a, a], 1),
        lambda a: torch.cat([a, a], 1),
        (normal(2, 3),),
    ),
    Case(
        "concat",
        "with ints",
        lambda f, a, n: f([a, n]),
        lambda a, n: torch.cat([a, n]),
        (normal(3), whole(0, 9, 2)),
    ),
    *[
        Case(
            "stack",
            f"at {at}",
            lambda f, a, b, at=at: f([a, b], at),
            lambda a, b, at=at: torch.stack([a, b], at),
            (normal(2, 3), normal(2, 3)),
        )
        for at in (0, 1, -1)
    ],
    Case("split", "by size", lambda f, x: f(x, 3, 1), lambda x: x.split(3, 1), (normal(2, 7, 3),)),
    Case(
        "split",
        "by sizes",
        lambda f, x: f(x, [1, 4, 2], -1),
        lambda x: x.split([1, 4, 2], -1),
        (normal(3, 7),),
    ),
    Case("split", "one used", lambda f, x: f(x, 2)[1], lambda x: x.split(2)[1], (normal(5, 3),)),
    *[
        Case(
            *("repeat_interleave", f"axis {axis}", lambda f, x, axis=axis: f(x, 3, axis)),
            lambda x, axis=axis: x.repeat_interleave(3, axis),
            _X,
        )
        for axis in (0, 1, -1)
    ],
    *[
        Case(
            op,
            f"diagonal {k}",
            lambda f, x, k=k: f(x, k),
            lambda x, op=op, k=k: getattr(torch, op)(x, k),
            (normal(2, 4, 5),),
        )
        for op in ("tril", "triu")
        for k in (-2, 0, 1)
    ],
]
