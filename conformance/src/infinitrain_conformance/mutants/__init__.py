"""Defects generated from the op table, put between the suite and an op in the same process, on any backend.

A *mutant* takes the place of an op in the suite's calls: it changes the arguments before the real op sees them, or the
results after it. Which there are follows from the row: one of most kinds for each tensor argument, each attribute and
each result. ``hunt`` runs the suite's checks until one fails; a mutant that passes them all is a hole in the suite.
"""

from __future__ import annotations

from . import arguments, attributes, precision, results  # each declares its kinds
from .hunting import Bench, Verdict, hunt, hunt_all
from .mutant import KINDS, Kind, Mutant, NotHere
from .table import EQUIVALENT, all_mutants, mutants_of

__all__ = [
    "EQUIVALENT",
    "KINDS",
    "Bench",
    "Kind",
    "Mutant",
    "NotHere",
    "Verdict",
    "all_mutants",
    "arguments",
    "attributes",
    "hunt",
    "hunt_all",
    "mutants_of",
    "precision",
    "results",
]
