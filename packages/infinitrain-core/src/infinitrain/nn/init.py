"""What the first values of parameters are: distributions, and how they are drawn [contract 8.1].

A module declares a distribution for each of its parameters (``Module.declare``). Who draws from it differs: a
module made by itself gets its values at once, from the default generator; ``init_weights`` gives a whole
model values that depend only on a seed and on the parameters' names.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from .. import random
from ..ops.base import Fill
from ..tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


@dataclass(frozen=True)
class Constant:
    """The same value everywhere."""

    value: float


@dataclass(frozen=True)
class Normal:
    """Normal numbers with this standard deviation around ``mean``."""

    std: float = 1.0
    mean: float = 0.0

    def convert(self, raw: random.Words) -> random.Values:
        """Return one value for each word."""
        return self.mean + self.std * random.to_normal(raw)


@dataclass(frozen=True)
class Uniform:
    """Numbers spread evenly between ``low`` and ``high``."""

    low: float
    high: float

    def convert(self, raw: random.Words) -> random.Values:
        """Return one value for each word."""
        return self.low + (self.high - self.low) * random.to_uniform(raw)


Distribution = Constant | Normal | Uniform
ZEROS, ONES = Constant(0.0), Constant(1.0)


def kaiming_uniform(fan_in: int, a: float = sqrt(5.0)) -> Uniform:
    """Return U(-b, b), b = sqrt(3) g / sqrt(fan_in), g = sqrt(2 / (1 + a²)) (He et al., 2015).

    Fan_in 0 gives zeros.
    """
    bound = sqrt(3.0) * sqrt(2.0 / (1.0 + a * a)) / sqrt(fan_in) if fan_in else 0.0
    return Uniform(-bound, bound)


def fan_in_uniform(fan_in: int) -> Uniform:
    """Return U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the usual one for a bias; fan_in 0 gives zeros."""
    bound = 1.0 / sqrt(fan_in) if fan_in else 0.0
    return Uniform(-bound, bound)


def fill_by_name(tensor: Tensor, distribution: Distribution, seed: int, name: str) -> None:
    """Set ``tensor`` to what ``distribution`` gives for the parameter ``name`` of a model with this seed."""
    if isinstance(distribution, Constant):
        Fill(tensor, distribution.value)
    else:
        random.fill(tensor, distribution.convert, random.weight_key(seed, name))


def fill_from_generator(tensor: Tensor, distribution: Distribution) -> None:
    """Set ``tensor`` to numbers from its device's default generator."""
    if isinstance(distribution, Constant):
        Fill(tensor, distribution.value)
    else:
        random.default_generator(tensor.device).fill(tensor, distribution.convert)


def init_weights(model: Module, seed: int) -> None:
    """Give every parameter of ``model`` the first value that its module declared, for ``seed`` in 0 .. 2**64
    - 1.

    Element i of a parameter is made from word i of a stream whose key is (seed, path of the parameter from
    ``model``; the first one in order of registration if it has several). So it depends on no order, device or
    number of threads, and not on the other parameters. Parameters that no module declared a distribution for
    are left as they are. The modules learn their paths too: see ``name_paths``.
    """
    name_paths(model)
    done: set[int] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            distribution = module.declared.get(name)
            if distribution is not None and id(parameter) not in done:
                fill_by_name(parameter, distribution, seed, f"{prefix}.{name}" if prefix else name)
            done.add(id(parameter))


def name_paths(model: Module) -> None:
    """Tell every module below ``model`` its path from there, the first one if it has several.

    What a module draws at random depends on it [contract 8.3]: call this with the bare model, not with a wrapper
    around it, when the model is complete. ``init_weights`` does.
    """
    for path, module in model.named_modules():
        module._path = path


class _Deferred(threading.local):
    active = False


_deferred = _Deferred()


@contextmanager
def deferred() -> Iterator[None]:
    """Inside, modules made by this thread leave their parameters uninitialised: ``init_weights`` or loading
    follows.
    """
    before, _deferred.active = _deferred.active, True
    try:
        yield
    finally:
        _deferred.active = before


def is_deferred() -> bool:
    """Tell whether the calling thread is inside ``deferred``."""
    return _deferred.active
