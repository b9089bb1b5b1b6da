"""Random numbers that depend on a seed and a position, and on nothing else.

Every stream is Philox4x64-10: word i is a pure function of (key, i), so a slice can be drawn without what
comes before it. The key is the 16-byte BLAKE2b digest of the stream's name. Only NumPy's raw words are used,
because NumPy promises them never to change, unlike what its ``Generator`` makes of them. A word w becomes, in
float64,

    uniform in [0, 1):   u = (w >> (64 - b)) 2^-b          b = 53, or the precision of the result's dtype
    standard normal:     z = sqrt(-2 ln((h + 1/2) 2^-32)) cos(2 pi l 2^-32)      h, l: upper and lower half of
    w

(Box and Muller, 1958), one word for one number; the result is rounded once to the dtype asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, pi
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .backend import storage
from .backend.spec import TensorSpec
from .device import CPU, Device
from .dtype import DType, as_dtype, bfloat16, float16, float32, float64
from .errors import DeviceMismatchError, DtypeError, InfiniTrainError, ShapeError
from .masks import StepScope as StepScope
from .masks import current_step as current_step
from .masks import dropout_mask as dropout_mask
from .masks import step_scope as step_scope
from .philox import MAX_SEED as MAX_SEED
from .philox import Words, checked_seed, is_count, stream_key, words
from .tensor import Tensor

DEFAULT_SEED: Final = 42

Values = npt.NDArray[np.float64]

_PIECE: Final = 1 << 17  # words drawn at a time: the temporaries stay in the cache and below 10 MB
_PRECISION: Final = {float64: 53, float32: 24, float16: 11, bfloat16: 8}


def to_uniform(raw: Words, bits: int = 53) -> Values:
    """Return one number in [0, 1) for each word: a multiple of ``2**-bits``."""
    return (raw >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits


def to_normal(raw: Words) -> Values:
    """Return one standard normal number for each word; none is beyond 6.8."""
    radius = (raw >> np.uint64(32)).astype(np.float64)
    radius += 0.5
    radius *= 2.0**-32
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    angle = (raw & np.uint64(0xFFFFFFFF)).astype(np.float64)
    angle *= 2.0 * pi * 2.0**-32
    np.cos(angle, out=angle)
    angle *= radius
    return angle


def fill(tensor: Tensor, convert: Callable[[Words], Values], key: int, start: int = 0) -> None:
    """Write ``convert(word start + i)`` to element i of ``tensor``, on any device, in pieces."""
    kind = tensor.dtype.numpy
    for begin in range(0, tensor.numel, _PIECE):
        end = min(begin + _PIECE, tensor.numel)
        values = convert(words(key, start + begin, start + end)).astype(kind)
        piece = tensor.view_as(
            TensorSpec.of((end - begin,), tensor.dtype, tensor.device), begin * tensor.dtype.itemsize
        )
        storage.write_bytes(piece, values.view(np.uint8).data)


# Weights [contract 8.1] -------------------------------------------------------------------------------------


def weight_key(seed: int, name: str) -> int:
    """Return the key of a parameter's stream: decided by the seed and its path from the root."""
    return stream_key("weight", seed, name)


def normal_slice(seed: int, name: str, start: int, stop: int) -> Values:
    """Return elements start .. stop - 1 of the standard normal numbers of parameter ``name``, float64, flat.

    A rank that holds a part of a parameter draws that part with it, and gets what the whole would have there.
    """
    return to_normal(words(weight_key(seed, name), start, stop))


def uniform_slice(seed: int, name: str, start: int, stop: int) -> Values:
    """As ``normal_slice``, of the numbers in [0, 1)."""
    return to_uniform(words(weight_key(seed, name), start, stop))


# Generators [contract 8.2] ----------------------------------------------------------------------------------


class Generator:
    """A stream of random numbers for the tensors of one device.

    Its state is the seed and the number of words drawn; a call that is refused draws none. The numbers do not
    depend on the device: they are made on the host and copied. Not for use by two threads at once.

    >>> g = Generator("cpu", seed=7)
    >>> state = g.state_dict()
    >>> a = g.normal((2, 3))
    >>> g.load_state_dict(state)
    >>> bool((g.normal((2, 3)).numpy() == a.numpy()).all())
    True
    """

    def __init__(self, device: Device | str = CPU, seed: int = DEFAULT_SEED) -> None:
        self.device = Device.parse(device)
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``, 0 .. 2**64 - 1, from its beginning; return the generator."""
        key = stream_key("generator", seed)
        self.seed, self.position, self._key = seed, 0, key
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return ``seed`` and ``position`` (words drawn)."""
        return {"seed": self.seed, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken.

        Raises InfiniTrainError, and changes nothing, when it is no such state.
        """
        position: Any = state.get("position")
        if set(state) != {"seed", "position"} or not is_count(position):
            raise InfiniTrainError(
                f"a generator's state is its seed and position (words drawn, >= 0), got {dict(state)!r}"
            )
        self.manual_seed(state["seed"])
        self.position = position

    def random_raw(self, n: int) -> Words:
        """Return the next ``n`` words, uint64, as a NumPy array."""
        if not is_count(n):
            raise ShapeError(f"random_raw: the number of words is an int >= 0, got {n!r}")
        raw = words(self._key, self.position, self.position + n)
        self.position += n
        return raw

    def uniform(
        self, shape: Sequence[int], low: float = 0.0, high: float = 1.0, *, dtype: DType | str = float32
    ) -> Tensor:
        """Return numbers spread evenly over [low, high); ``high`` itself only where rounding leads to it.

        Raises ShapeError, DtypeError (no floating type), ValueError (bounds not finite or in the wrong
        order).
        """
        kind = _floating("uniform", dtype)
        if not (isfinite(low) and isfinite(high) and low <= high):
            raise ValueError(f"uniform: needs finite low <= high, got {low} and {high}")
        bits = _PRECISION[kind]
        return self._draw("uniform", shape, kind, lambda raw: low + (high - low) * to_uniform(raw, bits))

    def normal(
        self, shape: Sequence[int], mean: float = 0.0, std: float = 1.0, *, dtype: DType | str = float32
    ) -> Tensor:
        """Return normal numbers with this mean and standard deviation.

        Raises ShapeError, DtypeError (no floating type), ValueError (mean not finite, std negative or not
        finite).
        """
        kind = _floating("normal", dtype)
        if not (isfinite(mean) and isfinite(std) and std >= 0):
            raise ValueError(f"normal: needs a finite mean and a finite std >= 0, got {mean} and {std}")
        return self._draw("normal", shape, kind, lambda raw: mean + std * to_normal(raw))

    def fill(self, tensor: Tensor, convert: Callable[[Words], Values]) -> None:
        """Write one number for each of the next words to ``tensor``, a whole one of this device.

        Raises DeviceMismatchError.
        """
        if tensor.device is not self.device:
            raise DeviceMismatchError(
                f"a generator for {self.device} cannot fill a tensor on {tensor.device} [contract 8.2]"
            )
        fill(tensor, convert, self._key, self.position)
        self.position += tensor.numel  # last, so that a draw that failed was none

    def _draw(
        self, what: str, shape: Sequence[int], dtype: DType, convert: Callable[[Words], Values]
    ) -> Tensor:
        sizes = tuple(shape)
        if not all(is_count(n) for n in sizes):
            raise ShapeError(f"{what}: a shape is a sequence of ints >= 0, got {shape!r}")
        made: Tensor = storage.empty_like_spec(TensorSpec.of(sizes, dtype, self.device))
        self.fill(made, convert)
        made._version = None  # its first content, not a change
        return made

    def __repr__(self) -> str:
        return f"Generator({str(self.device)!r}, seed={self.seed}, position={self.position})"


class _Defaults(threading.local):
    """Per thread, because a rank is a thread [contract 6.7]."""

    def __init__(self) -> None:
        self.seed = DEFAULT_SEED
        self.generators: dict[Device, Generator] = {}


_defaults = _Defaults()


def manual_seed(seed: int) -> None:
    """Start the calling thread's default generators anew, those of all devices, with ``seed``."""
    _defaults.seed = checked_seed(seed)
    _defaults.generators.clear()


def default_generator(device: Device | str = CPU) -> Generator:
    """Return the calling thread's generator for ``device``; it exists from its first use on."""
    device = Device.parse(device)
    found = _defaults.generators.get(device)
    if found is None:
        found = _defaults.generators[device] = Generator(device, _defaults.seed)
    return found


DefaultStates = tuple[int, dict[Device, dict[str, Any]]]


def default_states() -> DefaultStates:
    """Return where the calling thread's default generators are: the seed of new ones, and the states of the others."""
    return _defaults.seed, {device: g.state_dict() for device, g in _defaults.generators.items()}


def load_default_states(states: DefaultStates) -> None:
    """Take the calling thread's default generators to where ``states`` was taken, on any thread."""
    _defaults.seed, found = states
    unused = {"seed": _defaults.seed, "position": 0}
    for device in found.keys() | _defaults.generators.keys():
        default_generator(device).load_state_dict(found.get(device, unused))


def uniform(
    shape: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DType | str = float32,
    device: Device | str = CPU,
    generator: Generator | None = None,
) -> Tensor:
    """Return ``Generator.uniform`` of ``generator``, or of the device's default one.

    Raises DeviceMismatchError too.
    """
    return generator_for(device, generator).uniform(shape, low, high, dtype=dtype)


def normal(
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DType | str = float32,
    device: Device | str = CPU,
    generator: Generator | None = None,
) -> Tensor:
    """Return ``Generator.normal`` of ``generator``, or of the device's default one.

    Raises DeviceMismatchError too.
    """
    return generator_for(device, generator).normal(shape, mean, std, dtype=dtype)


def generator_for(device: Device | str, generator: Generator | None) -> Generator:
    """Return ``generator``, or the default one of ``device``.

    Raises DeviceMismatchError for another device's.
    """
    device = Device.parse(device)
    if generator is None:
        return default_generator(device)
    if generator.device is not device:
        raise DeviceMismatchError(
            f"a generator for {generator.device} cannot draw for {device}; "
            f"make one with Generator({str(device)!r}) [contract 8.2]"
        )
    return generator


def _floating(what: str, dtype: DType | str) -> DType:
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise DtypeError(f"{what}: random numbers have a floating dtype, got {kind}")
    return kind
