"""Random cases for the rows of the op table, each with what NumPy makes of it in float64."""

from . import moves, pointwise, products, reduce
from .draw import SAMPLERS, Draw, Sample, Shape

__all__ = ["SAMPLERS", "Draw", "Sample", "Shape", "moves", "pointwise", "products", "reduce"]
