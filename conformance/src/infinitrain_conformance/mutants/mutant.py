"""What a mutant is, and how a kind of them is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ..call import Call

Plant = Callable[[Call], Callable[..., Any]]
"""Returns what takes the place of ``call.op``. Raises NotHere."""
Samples = tuple[tuple[Any, ...], ...]
"""The arguments of each case of an op, as its builder made them."""
Maker = Callable[[Any, Samples], Iterable[tuple[str, Plant]]]
"""Returns, for a row of the op table, what each mutant of a kind is about, and how it is planted."""


class NotHere(Exception):
    """A case in which the mutant does what the op does: because of its data, or ``by_rule``, because of what the op is.

    A mutant that is nowhere else than here is not applicable when a rule says so, and a hole in the suite otherwise.
    """

    def __init__(self, reason: str, *, by_rule: bool = False) -> None:
        super().__init__(reason)
        self.by_rule = by_rule


@dataclass(frozen=True)
class Kind:
    """One kind of defect, generated for every op that can have it."""

    name: str
    imitates: str
    check: str
    """The name of the check that is there to see it."""
    make: Maker


@dataclass(frozen=True)
class Mutant:
    """A defect put between the suite and one op, on any backend."""

    op: str
    name: str
    kind: Kind
    plant: Plant

    def __str__(self) -> str:
        return f"{self.op}.{self.name}"


KINDS: Final[dict[str, Kind]] = {}


def kind(check: str) -> Callable[[Maker], Maker]:
    """Declare a kind by the function that makes its mutants; its docstring says what they imitate."""

    def declare(make: Maker) -> Maker:
        name = make.__name__
        KINDS[name] = Kind(name, " ".join((make.__doc__ or "").split()), check, make)
        return make

    return declare
