"""What each op means, in float64 NumPy, written from its definition and apart from every kernel; one file per family.

Arguments are float64 arrays of exactly the values that the device got; results are ``Want``: the value, and the
magnitude of the terms it was summed from, by which the tolerance is measured.
"""

from .want import Array, Want, plain, sum_to

__all__ = ["Array", "Want", "plain", "sum_to"]
