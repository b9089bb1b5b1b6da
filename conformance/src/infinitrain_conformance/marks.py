"""What a test says about itself: its id, its marker, and whether this provider has to run it."""

from __future__ import annotations

import zlib
from typing import Any, NoReturn

import pytest

from .report import Case


class Declined(Exception):
    """What the test is about is not offered, which the provider says in the contract's way: no failure, no pass."""


def decline(reason: str) -> NoReturn:
    """End the test as unsupported."""
    raise Declined(reason)


def test_id(item: pytest.Item) -> str:
    """Return the stable id: file without ``test_`` and suffix, ``::``, name with parameters."""
    return f"{item.path.stem.removeprefix('test_')}::{item.name}"


def seed_for(ident: str, seed: int) -> int:
    """Return the seed of the data of a test."""
    return (zlib.crc32(ident.encode()) + seed) % 2**32


def case_of(item: pytest.Item, devices: int = 1, offers: frozenset[str] = frozenset()) -> Case | None:
    """Return what the test's marker says, or None for a test without one.

    The floor follows from the contract, the number of devices, and the groups of methods that the provider offers.
    """
    mark = item.get_closest_marker("contract")
    if mark is None:
        return None
    op, optional = mark.kwargs.get("op"), mark.kwargs.get("optional")
    excused = (
        mark.kwargs.get("hardware")
        or (optional and optional not in offers)
        or mark.kwargs.get("devices", 1) > devices
    )
    return Case(
        test_id(item),
        mark.kwargs["level"],
        mark.args[0],
        op,
        floor=not excused and in_floor(item, op),
        base=_is_base(mark, op),
        dtype=_dtype_of(item, mark, op),
    )


def group_of(case: Case) -> str:
    """Return the group that one process runs in one go: an op's tests, or those of a file."""
    return f"{case.level} {case.op or case.id.partition('::')[0]}"


def in_floor(item: pytest.Item, op: str | None) -> bool:
    """Tell whether every provider has to run the test: what is not about an op, and the ops of `base` and
    `training` in the dtypes that none may refuse.
    """
    if op is None:
        return True
    from infinitrain.backend import OPS

    return op in OPS and OPS[op].profile in ("base", "training") and not beyond_the_floor(item, op)


def beyond_the_floor(item: pytest.Item, op: str | None) -> bool:
    """Tell whether the test is about a dtype that a provider may lack: all but float32, and int64 in the
    base ops [contract 4.7].
    """
    from infinitrain.backend import BASE_OPS

    mark = item.get_closest_marker("contract")
    floor = {"float32", "int64"} if op in BASE_OPS else {"float32"}
    return bool(set(_dtypes_in(item)) - floor) or (mark is not None and bool(mark.kwargs.get("half")))


def is_external(item: pytest.Item) -> bool:
    """Tell whether the test is about the slot for providers outside core."""
    mark = item.get_closest_marker("contract")
    return mark is not None and bool(mark.kwargs.get("external"))


def _is_base(mark: pytest.Mark, op: str | None) -> bool:
    from infinitrain.backend import BASE_OPS

    return bool(mark.kwargs.get("base")) or op in BASE_OPS


def _dtypes_in(item: pytest.Item) -> list[str]:
    """Return the dtypes among the test's parameters; of a cast the goal is in the case's name."""
    from infinitrain.dtype import ALL

    params: Any = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = {d.name for d in ALL}
    words = (v.rpartition("to_")[2] if v.startswith("Cast-") else v for v in map(str, params))
    return [word for word in words if word in names]


def _dtype_of(item: pytest.Item, mark: pytest.Mark, op: str | None) -> str | None:
    """Return the dtype that an op's test is about; of a cast that of the result."""
    if op is None:
        return None
    named = _dtypes_in(item)
    return named[-1] if named else "bfloat16" if mark.kwargs.get("half") else "float32"
