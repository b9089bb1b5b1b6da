"""What a provider declares about itself beyond what it registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dtype import DType
from ..errors import BackendInitError


@dataclass(frozen=True)
class Option:
    """One provider option: ``--backend_option name=value`` or ``INFINITRAIN_<PROVIDER>_<NAME>`` [contract 3.2]."""

    name: str
    type: type = str
    default: Any = None
    help: str = ""

    def parse(self, text: str) -> Any:
        """Return the option's value for ``text``. Raises BackendInitError."""
        if self.type is bool:
            words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
            if text.lower() in words:
                return words[text.lower()]
        else:
            try:
                return self.type(text)
            except ValueError:
                pass
        raise BackendInitError(f"backend option {self.name}={text!r} is not a {self.type.__name__} [contract 3.2]")


@dataclass(frozen=True)
class Capabilities:
    """Declared, then tested; what is not declared must fail gracefully.

    ``host_visible``: native arrays are plain host memory. ``peer_copy``: D2D between two devices works directly.
    ``thread_ranks``: several ranks may be threads of one process. ``peak_flops``: dtype -> FLOP/s of one device, or
    None when unknown. ``nondeterministic``: ops whose bits may differ from run to run.
    """

    host_visible: bool = False
    peer_copy: bool = False
    thread_ranks: bool = True
    options: tuple[Option, ...] = ()
    nondeterministic: tuple[str, ...] = ()
    peak_flops: Callable[[DType], float | None] = lambda dtype: None
