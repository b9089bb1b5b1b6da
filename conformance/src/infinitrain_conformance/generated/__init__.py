"""Defects generated from the op table, put between the suite and an op in the same process, on any backend.

A *fault* takes the place of an op in the suite's calls: it changes the arguments before the real op sees them, or the
results after it. Which there are follows from the row: one of most kinds for each tensor argument, each attribute and
each result. ``hunt`` runs the suite's checks until one fails; a fault that passes them all is a hole in the suite.
"""

from __future__ import annotations

from . import arguments, attributes, half_sums, precision, results, splits  # each declares its kinds
from .fault import KINDS, Fault, Kind, NotHere
from .hunting import Bench, Verdict, hunt, hunt_all
from .table import EQUIVALENT, all_faults, faults_of

__all__ = [
    "EQUIVALENT",
    "KINDS",
    "Bench",
    "Fault",
    "Kind",
    "NotHere",
    "Verdict",
    "all_faults",
    "arguments",
    "attributes",
    "faults_of",
    "half_sums",
    "hunt",
    "hunt_all",
    "precision",
    "results",
    "splits",
]
