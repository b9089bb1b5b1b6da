"""Loss scaling: float16 gradients that would be rounded to zero are kept by a factor on the loss."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from .. import ops
from ..device import Device
from ..dtype import HALF, float16
from ..errors import InfiniTrainError
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .flat import bump, gradients, runs_with_gradient
from .optimizer import Optimizer

_LARGEST: Final = 2.0**127
_SMALLEST: Final = 2.0**-126
_SETTINGS: Final = ("scale", "growth_factor", "backoff_factor", "growth_interval", "growth_tracker")


class GradScaler:
    """Multiplies the loss by a factor, divides the gradients by it, and skips steps whose gradients overflowed.

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # only to clip: clip_grad_norm(..., error_if_nonfinite=False)
        scaler.step(optimizer)
        scaler.update()

    ``update`` multiplies the factor by ``backoff_factor`` after a skipped step, and by ``growth_factor`` after
    ``growth_interval`` steps in a row without one (Micikevicius et al., 2018). float16 autocast needs it; bfloat16 has
    float32's range and does not. With ``enabled=False`` everything passes through.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        given = {"init_scale": init_scale, "growth_factor": growth_factor, "backoff_factor": backoff_factor}
        for name, value in {**given, "growth_interval": growth_interval}.items():
            ops.real(f"GradScaler: {name}", value)
        if not 0.0 < init_scale <= _LARGEST:
            raise ValueError(f"GradScaler: init_scale is above 0 and at most 2**127, got {init_scale}")
        if not 1.0 < growth_factor < inf:
            raise ValueError(f"GradScaler: growth_factor is above 1 and finite, got {growth_factor}")
        if not 0.0 < backoff_factor < 1.0:
            raise ValueError(f"GradScaler: backoff_factor is between 0 and 1, got {backoff_factor}")
        if not isinstance(growth_interval, int) or isinstance(growth_interval, bool) or growth_interval < 1:
            raise ValueError(f"GradScaler: growth_interval is an int of at least 1, got {growth_interval!r}")
        self.enabled = enabled
        self.scale_factor = float(init_scale)
        """The factor on the loss."""
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval, self._tracker = growth_interval, 0
        self._finite: dict[int, bool] = {}  # by optimizer, since the last update
        self._unscaled: dict[int, list[Parameter]] = {}
        self._stepped: set[int] = set()

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the factor; a half-precision loss as float32, which can hold it. Differentiable."""
        if not self.enabled:
            return loss
        scaled: Tensor = (loss.float() if loss.dtype in HALF else loss) * self.scale_factor
        return scaled

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the factor; ``step`` does it where this did not.

        Raises InfiniTrainError a second time before ``update``, where there is no gradient, and for one that was
        divided already and not written since: that of a parameter of two optimizers, or of an earlier iteration.
        """
        if not self.enabled:
            return
        if id(optimizer) in self._finite:
            raise InfiniTrainError(
                "GradScaler.unscale_: these gradients are unscaled already; once per optimizer and update()"
            )
        written = _with_gradient(optimizer)
        if not written:
            raise InfiniTrainError(
                "GradScaler: no parameter of the optimizer has a gradient; call scale(loss).backward() before"
            )
        for p in written:
            if p._stale is None:
                raise InfiniTrainError(
                    f"GradScaler.unscale_: the gradient of {_called(p)} is unscaled already: its parameter is in two "
                    "optimizers, or no backward has written it since the last iteration; call zero_grad() after steps"
                )
        runs = runs_with_gradient(written)
        by_device: dict[Device, list[Tensor]] = {}
        for grad in gradients(runs):
            if grad.dtype is float16:
                raise InfiniTrainError(
                    "GradScaler: a gradient is float16, and dividing it would lose what the scale kept; leave the "
                    "parameters in float32 and compute under autocast"
                )
            by_device.setdefault(grad.device, []).append(grad)
        for grads in by_device.values():
            ops.ScaleInPlace(grads, 1.0 / self.scale_factor)
        bump(runs, "GradScaler.unscale_", gradients=True)
        for p in written:
            p._stale = None
        self._unscaled[id(optimizer)] = written
        self._finite[id(optimizer)] = all(bool(ops.AllFinite(grads)) for grads in by_device.values())

    def step(self, optimizer: Optimizer) -> bool:
        """Make the optimizer's step if all gradients are finite; tell whether it was made. Waits for the device.

        Raises InfiniTrainError when gradients were written or dropped after ``unscale_``, which looked at others.
        """
        if not self.enabled:
            optimizer.step()
            return True
        if id(optimizer) in self._stepped:
            raise InfiniTrainError("GradScaler.step: this optimizer has made its step; call update() before")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._check_same(optimizer)
        self._stepped.add(id(optimizer))
        if self._finite[id(optimizer)]:
            optimizer.step()
        return self._finite[id(optimizer)]

    def _check_same(self, optimizer: Optimizer) -> None:
        then, now = self._unscaled[id(optimizer)], _with_gradient(optimizer)
        looked_at = set(map(id, then))
        for p in (*then, *now):
            if p._stale is not None or id(p) not in looked_at:
                what = "dropped" if p._stale else "written"
                raise InfiniTrainError(
                    f"GradScaler.step: the gradient of {_called(p)} was {what} after unscale_, which divided and "
                    "checked what was there; call unscale_ after the last backward, and zero_grad after the step"
                )

    def update(self) -> None:
        """Adapt the factor to what the steps since the last call met; once per iteration, after all steps."""
        if not self.enabled:
            return
        if not self._stepped:
            raise InfiniTrainError(
                "GradScaler.update: no step since the last one; call step(optimizer) before"
            )
        if all(self._finite.values()):
            self._tracker += 1
            if self._tracker == self.growth_interval:
                self.scale_factor = min(self.scale_factor * self.growth_factor, _LARGEST)
                self._tracker = 0
        else:
            self.scale_factor = max(self.scale_factor * self.backoff_factor, _SMALLEST)
            self._tracker = 0
        self._finite, self._stepped, self._unscaled = {}, set(), {}

    def state_dict(self) -> dict[str, Any]:
        """Return the factor, how it changes, and how many steps it has held; nothing when not enabled."""
        values = (
            self.scale_factor, self.growth_factor, self.backoff_factor, self.growth_interval, self._tracker
        )  # fmt: skip
        return dict(zip(_SETTINGS, values, strict=True)) if self.enabled else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state dict. Raises InfiniTrainError, ValueError; then nothing is changed."""
        if not self.enabled:
            return
        if set(state) != set(_SETTINGS):
            hint = "; it is that of a scaler that was not enabled" if not state else ""
            raise InfiniTrainError(
                f"a GradScaler's state has {', '.join(_SETTINGS)}, got {', '.join(state) or 'nothing'}{hint}"
            )
        scale, growth, backoff, interval, tracker = (state[name] for name in _SETTINGS)
        loaded = GradScaler(scale, growth, backoff, interval)
        if not isinstance(tracker, int) or not 0 <= tracker < interval:
            raise ValueError(f"GradScaler: growth_tracker lies in 0 .. growth_interval - 1, got {tracker}")
        loaded._tracker = tracker
        self.__dict__.update(loaded.__dict__)


def _with_gradient(optimizer: Optimizer) -> list[Parameter]:
    return [p for group in optimizer.groups for p in group["params"].values() if p.grad is not None]


def _called(p: Parameter) -> str:
    return f"parameter {p.name or list(p.shape)}"
