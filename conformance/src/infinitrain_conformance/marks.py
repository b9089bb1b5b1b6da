"""What a test says about itself: its id, its marker, and whether every provider has to run it."""

from __future__ import annotations

import zlib

import pytest

from .report import Case


def test_id(item: pytest.Item) -> str:
    """Return the stable id: file without ``test_`` and suffix, ``::``, name with parameters."""
    return f"{item.path.stem.removeprefix('test_')}::{item.name}"


def seed_for(ident: str, seed: int) -> int:
    """Return the seed of the data of a test."""
    return (zlib.crc32(ident.encode()) + seed) % 2**32


def case_of(item: pytest.Item) -> Case | None:
    """Return what the test's marker says, or None for a test without one."""
    mark = item.get_closest_marker("contract")
    if mark is None:
        return None
    op = mark.kwargs.get("op")
    floor = not (mark.kwargs.get("optional") or mark.kwargs.get("hardware")) and in_floor(item, op)
    return Case(test_id(item), mark.kwargs["level"], mark.args[0], op, floor)


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
    from infinitrain.dtype import ALL

    mark = item.get_closest_marker("contract")
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    floor = {"float32", "int64"} if op in BASE_OPS else {"float32"}
    named = {value for value in params if isinstance(value, str)} & {d.name for d in ALL}
    return bool(named - floor) or (mark is not None and bool(mark.kwargs.get("half")))


def is_external(item: pytest.Item) -> bool:
    """Tell whether the test is about the slot for providers outside core."""
    mark = item.get_closest_marker("contract")
    return mark is not None and bool(mark.kwargs.get("external"))
