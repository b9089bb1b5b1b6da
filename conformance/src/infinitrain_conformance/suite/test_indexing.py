"""Indices out of range, in every op of the table that takes some: an IndexError, never what memory held before."""

from __future__ import annotations

from typing import Any

import pytest

from infinitrain_conformance import checks
from infinitrain_conformance.cases import OpCase
from infinitrain_conformance.check import expect
from infinitrain_conformance.families import first_cases, level_of
from infinitrain_conformance.target import Target

WHERE = ("beyond", "negative", "beyond_32_bits")


def _places(op: str) -> list[int]:
    from infinitrain.backend import OPS

    return [i for i, p in enumerate(OPS[op].params) if p.annotation == "Index"]


def limit(args: dict[str, Any]) -> int:
    """Return how many values an index may have, from an op's arguments by name."""
    for name in ("rows", "classes", "vocab_size_local", "vocab_size_original"):
        if name in args:
            return int(args[name])
    if "axis" in args:
        shape = args["shape"] if "shape" in args else args["x" if "x" in args else "grad"].shape
        return int(shape[args["axis"]])
    if "logits" in args:
        return int(args["logits"].shape[-1])
    return int(args["weight"].shape[0])


@pytest.mark.parametrize(
    ("case", "where"),
    [
        pytest.param(
            case,
            where,
            id=f"{case.op}-{where}",
            marks=pytest.mark.contract("4.7", level=level_of(case.op), op=case.op),
        )
        for case in first_cases()
        if _places(case.op)
        for where in WHERE
    ],
)
def test_bad_index(case: OpCase, where: str, target: Target, seed: int, heading: str) -> None:
    """Good indices, and then ones out of range: an IndexError at the latest at the next synchronising call. Where
    kernels are done when they return, it names op, value and limit.
    """
    import infinitrain as it

    call = checks.maker(case, "float32", seed, target.device)()
    (place,) = _places(case.op)
    count = limit(dict(zip(call.row.param_names, call.args, strict=True)))
    index = call.args[place].numpy()
    bad = {"beyond": count, "negative": -1, "beyond_32_bits": 2**32}[where]
    index.reshape(-1)[index.size // 2 :] = bad
    call.args[place] = it.from_numpy(index, target.device)
    with pytest.raises(IndexError) as caught:
        [result.numpy() for result in call.run().values()]
    if target.runtime.host_visible:
        text = str(caught.value)
        for what in (case.op, str(bad), f"0..{count - 1}"):
            expect(heading, what in text, f"the IndexError does not name {what}: {text!r}")
