"""The cases of each family of ops. ``all_cases()`` is what the suite runs."""

from __future__ import annotations

from ..cases import OpCase


def all_cases() -> list[OpCase]:
    """Return every case."""
    from . import attention, elementwise, indexing, linear, loss, norm, pointwise, reduction

    families = (linear, norm, elementwise, attention, loss, indexing, pointwise, reduction)
    return [case for family in families for case in family.CASES]
