"""Functions of one float32 that LLVM vectorises, where calls of libm would not be."""

from __future__ import annotations

import numpy as np

from ..erf import _P as _ERF_P
from ..erf import _Q as _ERF_Q
from .jit import inline

f32 = np.float32
_LOG2_E = f32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = (
    f32(0.693359375),
    f32(-2.12194440e-4),
)  # ln 2 in two parts: n times the first one is exact
_LOWEST, _HIGHEST = (
    f32(-87.33655),
    f32(88.72284),
)  # exp of less is below the normal numbers: 0; of more it is infinite
_SATURATED = f32(1e4)
_ALL_BUT_SIGN, _ORDER_OF_LEAST = np.int32(0x7FFFFFFF), np.int32(-(2**31))
_SQRT_2_PI_2, _CUBIC = f32(1.5957691216057308), f32(0.044715)  # 2 sqrt(2 / pi)


@inline
def _power(n):
    """2ⁿ for an int32 n in -126 .. 127."""
    return np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)


@inline
def _exp_of_rest(r):
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    return p * r * r + r + f32(1)


@inline
def exp(x):
    """e to the x, within 2 units in the last place: Cephes' reduction to 2ⁿ eʳ, |r| <= ln 2 / 2, and its polynomial."""
    z = min(max(x, _LOWEST), _HIGHEST)  # for n alone: r keeps a NaN
    n = np.floor(z * _LOG2_E + f32(0.5))
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = _exp_of_rest(r)
    whole = np.int32(n)
    half = whole >> np.int32(1)  # 2ⁿ as a product: n reaches 128, which no exponent does
    y = p * _power(half) * _power(whole - half)
    if x < _LOWEST:
        y = f32(0)
    if x > _HIGHEST:
        y = f32(np.inf)
    return y


@inline
def exp_low(x):
    """`exp` of x <= 0, or of little more."""
    n = np.floor(max(x, _LOWEST) * _LOG2_E + f32(0.5))
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    y = _exp_of_rest(r) * _power(np.int32(n))
    return f32(0) if x < _LOWEST else y


@inline
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return f32(1) / (f32(1) + exp(-x))


@inline
def gelu(x):
    """x / 2 (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x³), written as x sigmoid(2 u)."""
    return x * sigmoid(_SQRT_2_PI_2 * (x + _CUBIC * x * x * x))


@inline
def gelu_slope(x):
    """The derivative of `gelu`."""
    square = x * x
    if square > _SATURATED:  # the slope is 0 or 1; an infinite square times 1 - s = 0 would be no number
        square = _SATURATED
    s = sigmoid(_SQRT_2_PI_2 * x * (f32(1) + _CUBIC * square))
    return s + x * s * (f32(1) - s) * _SQRT_2_PI_2 * (f32(1) + f32(3) * _CUBIC * square)


@inline
def erf(x):
    """2 / sqrt(pi) times the integral of exp(-t²) from 0 to x, within 4 units in the last place."""
    if x > f32(4):
        x = f32(4)
    if x < f32(-4):
        x = f32(-4)
    square = x * x
    p, q = f32(_ERF_P[0]), f32(_ERF_Q[0])
    for i in range(1, 7):
        p = p * square + f32(_ERF_P[i])
    for i in range(1, 5):
        q = q * square + f32(_ERF_Q[i])
    return x * p / q


@inline
def largest(x):
    """The largest number of an array, a NaN with its sign bit clear being above all: as integers, which LLVM compares
    in vectors where it must not drop a NaN.
    """
    bits = x.view(np.int32)
    top = _ORDER_OF_LEAST
    for j in range(bits.size):
        b = bits[j]
        top = max(top, b ^ ((b >> np.int32(31)) & _ALL_BUT_SIGN))  # negative floats in reverse
    return np.int32(top ^ ((top >> np.int32(31)) & _ALL_BUT_SIGN)).view(np.float32)
