"""What a provider declares about itself beyond what it registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dtype import DType
from ..errors import BackendInitError


@dataclass(frozen=True)
class Option:
    """An option: ``--backend_option name=value`` or ``INFINITRAIN_<PROVIDER>_<NAME>`` [contract 3.2].

    ``type`` is str, int, float, bool, or a callable that raises ValueError; ``default`` is a value of it, or
    None.
    """

    name: str
    type: Callable[[str], Any] = str
    default: Any = None
    help: str = ""

    def parse(self, text: str) -> Any:
        """Return the option's value for ``text``. Raises BackendInitError."""
        try:
            return _truth(text) if self.type is bool else self.type(text)
        except ValueError:
            kind = getattr(self.type, "__name__", "value")
            article = "an" if kind[0] in "aeiou" else "a"
            raise BackendInitError(
                f"backend option {self.name}={text!r} is not {article} {kind} [contract 3.2]"
            ) from None


def _truth(text: str) -> bool:
    word = text.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _unknown_peak(dtype: DType) -> float | None:
    return None


@dataclass(frozen=True)
class Capabilities:
    """Declared, then tested; what is not declared must fail gracefully.

    ``host_visible``: native arrays are plain host memory. ``peer_copy``: D2D between two devices works
    directly. ``thread_ranks``: several ranks may be threads of one process. ``peak_flops``: dtype -> FLOP/s
    of one device, or None when unknown. ``options``: what users may set. ``nondeterministic``: ops whose bits
    may differ from run to run.
    """

    host_visible: bool = False
    peer_copy: bool = False
    thread_ranks: bool = True
    options: tuple[Option, ...] = ()
    nondeterministic: tuple[str, ...] = ()
    peak_flops: Callable[[DType], float | None] = _unknown_peak
