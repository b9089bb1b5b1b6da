"""What a fault is, and how a kind of them is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..call import Call

Swap = Callable[[Call], Callable[..., Any]]
"""Returns what takes the place of ``call.op``. Raises NotHere."""
Samples = tuple[tuple[Any, ...], ...]
"""The arguments of each case of an op, as its builder made them."""
Maker = Callable[[Any, Samples], Iterable[tuple[str, Swap]]]
"""Returns, for a row of the op table, what each fault of a kind is about, and what takes the op's place."""


class NotHere(Exception):
    """A case in which the fault does what the op does: because of its data, or ``by_rule``, because of what the op is.

    A fault that is never anywhere else is not applicable when a rule says so of all its cases; any other is a hole in
    the suite.
    """

    def __init__(self, reason: str, *, by_rule: bool = False) -> None:
        super().__init__(reason)
        self.by_rule = by_rule


class OtherTest(NotHere):
    """A test that is about another dtype, or another way to call the op: it decides nothing about the fault."""


@dataclass(frozen=True)
class Kind:
    """One kind of defect, generated for every op that can have it."""

    name: str
    imitates: str
    check: str
    """The name of the check that is there to see it."""
    make: Maker


@dataclass(frozen=True)
class Fault:
    """A defect put between the suite and one op, on any backend."""

    op: str
    name: str
    kind: Kind
    swap: Swap

    def __str__(self) -> str:
        return f"{self.op}.{self.name}"


KINDS: Final[dict[str, Kind]] = {}


def kind(check: str) -> Callable[[Maker], Maker]:
    """Declare a kind by the function that makes its faults; its docstring says what they imitate."""

    def declare(make: Maker) -> Maker:
        name = make.__name__
        KINDS[name] = Kind(name, " ".join((make.__doc__ or "").split()), check, make)
        return make

    return declare
