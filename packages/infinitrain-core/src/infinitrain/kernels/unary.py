"""Array kernels of functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .elementwise import floating
from .registry import array_kernel


def _function(name: str, fn: Callable[[Any, Any], Any]) -> None:
    """Declare the kernel of a function that takes integers as float32."""

    def kernel(xp: Any, x: Any) -> Any:
        return fn(xp, floating(xp, x))

    kernel.__name__ = name
    array_kernel()(kernel)


_function("ReciprocalForward", lambda xp, x: 1.0 / x)
_function("ExpForward", lambda xp, x: xp.exp(x))
_function("LogForward", lambda xp, x: xp.log(x))
_function("SqrtForward", lambda xp, x: xp.sqrt(x))
_function("RsqrtForward", lambda xp, x: 1.0 / xp.sqrt(x))
_function("SinForward", lambda xp, x: xp.sin(x))
_function("CosForward", lambda xp, x: xp.cos(x))
_function("TanhForward", lambda xp, x: xp.tanh(x))


@array_kernel()
def NegForward(xp: Any, x: Any) -> Any:
    return -x


@array_kernel()
def AbsForward(xp: Any, x: Any) -> Any:
    return xp.abs(x)


@array_kernel()
def AbsBackward(xp: Any, grad: Any, x: Any) -> Any:
    return grad * xp.sign(x)


@array_kernel()
def ReciprocalBackward(xp: Any, grad: Any, x: Any) -> Any:
    return -grad / x / x


@array_kernel()
def ExpBackward(xp: Any, grad: Any, y: Any) -> Any:
    return grad * y


@array_kernel()
def LogBackward(xp: Any, grad: Any, x: Any) -> Any:
    return grad / x


@array_kernel()
def SqrtBackward(xp: Any, grad: Any, y: Any) -> Any:
    return grad / (2.0 * y)


@array_kernel()
def RsqrtBackward(xp: Any, grad: Any, x: Any) -> Any:
    return -0.5 * grad / (x * xp.sqrt(x))


@array_kernel()
def SinBackward(xp: Any, grad: Any, x: Any) -> Any:
    return grad * xp.cos(x)


@array_kernel()
def CosBackward(xp: Any, grad: Any, x: Any) -> Any:
    return -grad * xp.sin(x)


@array_kernel()
def TanhBackward(xp: Any, grad: Any, y: Any) -> Any:
    return grad * (1.0 - y * y)


@array_kernel()
def SigmoidForward(xp: Any, x: Any) -> Any:
    x = floating(xp, x)
    e = xp.exp(-xp.abs(x))  # never above 1, so nothing overflows
    return xp.where(x >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


@array_kernel()
def SigmoidBackward(xp: Any, grad: Any, y: Any) -> Any:
    return grad * y * (1.0 - y)
