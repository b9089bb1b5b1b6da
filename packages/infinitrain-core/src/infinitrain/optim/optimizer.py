"""Optimizer: groups of named parameters, their state, and one call of an op of the table for each step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from .. import ops
from ..backend.spec import TensorSpec
from ..creation import zeros
from ..dtype import HALF, DType, float32
from ..nn.parameter import Parameter
from ..nn.state import StateDictError, mismatch, write
from ..ops.base import Copy
from ..ops.compare import NotEqualsForward
from ..ops.indexing import WhereForward
from ..tensor import Tensor
from .flat import FlatBuffer, Run, bump, flatten, gradients, runs_with_gradient

NamedParameter = tuple[str, Parameter]
MASTER: Final = "master"


class Optimizer:
    """Base of the optimizers.

    ``params`` are parameters, (name, parameter) pairs such as ``model.named_parameters()``, or groups: dicts
    with ``params`` and settings that differ from the defaults. A parameter without a name gets ``param0``,
    ``param1``, ... Names are the keys of the state dict, so that they are what a checkpoint can be read with.

    A step changes the parameters that have a gradient (``p.grad`` is not None) and no others. Parameters and
    gradients are moved into flat buffers (``infinitrain.optim.flatten``) unless ``flat=False``; their values,
    their identity and the state dict do not show it.

    State is float32 or wider: a float16 or bfloat16 parameter has float32 moments. Its own update is computed in
    float32 and rounded into it, so that steps below half a unit in the parameter's last place (1/512 of its value for
    bfloat16) are lost. With ``master_weights`` such parameters get a float32 copy, slot ``master`` of the state: steps
    are made there and the rounded value is written back. A parameter that somebody else changed since, by loading a
    state dict for example, counts; the copy follows.

    ``groups`` may be changed between steps: ``optimizer.groups[0]["lr"] = 1e-4``.
    """

    slots: ClassVar[tuple[str, ...]] = ()
    """Names of a parameter's state tensors; they have its shape and device, its dtype but for half precision (float32),
    and start as zeros."""

    def __init__(
        self,
        params: Iterable[Any],
        defaults: dict[str, Any],
        *,
        flat: bool = True,
        master_weights: bool = False,
    ) -> None:
        self.flat, self.master_weights = flat, master_weights
        self.groups: list[dict[str, Any]] = []
        self._steps: dict[str, int] = {}
        self._state: dict[str, dict[str, Tensor]] = {}
        # State in the layout of a flat buffer, by the buffer's id; where each parameter got its state.
        self._long: dict[int, dict[str, Tensor]] = {}
        self._homes: dict[str, tuple[Any, ...]] = {}
        self._names: dict[int, str] = {}
        self._versions: dict[str, int] = {}  # of parameters, when their master copies were equal to them
        if not isinstance(params, Iterable):
            raise TypeError(f"{type(self).__name__}: params is an iterable of Parameters, got {params!r:.60}")
        entries = list(params)
        if not entries:
            raise ValueError(
                f"{type(self).__name__}: no parameters; give model.parameters() or named_parameters()"
            )
        grouped = entries if isinstance(entries[0], dict) else [{"params": entries}]
        for group in grouped:
            if not isinstance(group, dict) or "params" not in group:
                raise TypeError(f"{type(self).__name__}: a group is a dict with 'params', got {group!r:.80}")
            unknown = sorted(set(group) - set(defaults) - {"params"})
            if unknown:
                raise ValueError(
                    f"{type(self).__name__}: unknown setting {unknown[0]!r}; known: {', '.join(defaults)}"
                )
            settings = {**defaults, **{k: v for k, v in group.items() if k != "params"}}
            self.check(settings)
            self.groups.append({"params": self._named(group["params"]), **settings})
        self._prepare()

    # For subclasses -----------------------------------------------------------------------------------------
    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise ValueError for settings that make no sense."""

    def update(
        self, group: dict[str, Any], step: int, params: list[Tensor], grads: list[Tensor], state: Any
    ) -> None:
        """Do step number ``step`` (from 1) for parameters that have made equally many.

        ``state`` maps slot -> tensors.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no update()")

    # Use ----------------------------------------------------------------------------------------------------
    def step(self) -> None:
        """Change every parameter that has a gradient."""
        self._prepare()
        for group in self.groups:
            by_step: dict[int, list[Run]] = {}
            for run in runs_with_gradient(group["params"].values()):
                for part, step in self._by_step(run):
                    by_step.setdefault(step, []).append(part)
            for step, runs in by_step.items():
                params = [
                    r.params[0] if r.flat is None else r.flat.run(r.flat.data, r.start, r.stop) for r in runs
                ]
                masters = [self._master_of(r, p) for r, p in zip(runs, params, strict=True)]
                state = {slot: [self._slot(r, slot) for r in runs] for slot in self.active_slots(group)}
                self.update(group, step, masters, gradients(runs), state)
                for p, master in zip(params, masters, strict=True):
                    if master is not p:
                        ops.Cast(master, p.dtype, out=p)
                bump(runs, type(self).__name__, gradients=False)
                for run in runs:
                    for p in run.params:
                        name = self._names[id(p)]
                        self._steps[name], self._versions[name] = step, p.version

    def zero_grad(self) -> None:
        """Mark all gradients stale; no memory is touched [contract 4.5]."""
        for group in self.groups:
            for p in group["params"].values():
                p.zero_grad()

    def active_slots(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the slots that a group's settings need."""
        return self.slots

    def state_dict(self) -> dict[str, Any]:
        """Return ``{"state": {name: {"step": int, slot: Tensor}}, "groups": [settings]}``.

        Tensors are views of the state, not copies; a group's ``params`` are names. Parameters that never made
        a step have no state. A master copy is as the last step left it, whatever the parameter became since.
        """
        self._prepare()
        state: dict[str, dict[str, Any]] = {}
        for group in self.groups:
            for name, p in group["params"].items():
                if self._steps.get(name):
                    tensors = {slot: self._state[name][slot].detach() for slot in self._slots(group, p)}
                    state[name] = {"step": self._steps[name], **tensors}
        return {"state": state, "groups": [{**g, "params": list(g["params"])} for g in self.groups]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state dict of an optimizer of this class with the same names in the same groups.

        Everything is checked before anything is changed. Raises StateDictError, which lists all problems.
        """
        self._prepare()
        problems, state = self._state_problems(state_dict)
        if problems:
            raise StateDictError(type(self).__name__, problems)
        for saved in state_dict["groups"]:
            self.check({k: v for k, v in saved.items() if k != "params"})
        for group, saved in zip(self.groups, state_dict["groups"], strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})
        self._prepare()  # other settings may need other state
        for group in self.groups:
            for name, p in group["params"].items():
                held = state.get(name)
                self._steps[name] = held["step"] if held else 0
                self._versions.pop(name, None)  # a master copy counts if it rounds to the parameter
                for slot in self._slots(group, p):
                    target = self._state[name][slot]
                    if held:
                        write(target, held[slot])
                    elif slot != MASTER:
                        target.zero_()

    # Inside -------------------------------------------------------------------------------------------------
    def _named(self, params: Iterable[Any]) -> dict[str, Parameter]:
        named: dict[str, Parameter] = {}
        for entry in params:
            name, p = entry if isinstance(entry, tuple) else (None, entry)
            if not isinstance(p, Parameter):
                raise TypeError(f"{type(self).__name__}: {entry!r:.80} is no nn.Parameter")
            name = name or p.name or f"param{len(self._names)}"
            if id(p) in self._names or name in self._names.values():
                raise ValueError(f"{type(self).__name__}: parameter {name!r} is given twice")
            self._names[id(p)] = name
            named[name] = p
        return named

    def _prepare(self) -> None:
        """See that every parameter has its state where the parameter is: at first, and after something was
        moved.
        """
        for group in self.groups:
            for name, p in group["params"].items():
                if self._homes.get(name) != (p._flat, p.spec, self._slots(group, p)):
                    self._place(group)
                    break

    def _place(self, group: dict[str, Any]) -> None:
        if self.flat:
            flatten(group["params"].values())
        for name, p in group["params"].items():
            slots, dtype = self._slots(group, p), state_dtype(p)
            home = (p._flat, p.spec, slots)
            if self._homes.get(name) == home:
                continue
            old = self._state.get(name, {})
            if p._flat is None:
                new = {slot: zeros(p.shape, dtype=dtype, device=p.device) for slot in slots}
            else:
                flat, index = p._flat
                whole = self._long_state(flat, slots, dtype)
                new = {slot: flat.part(whole[slot], index) for slot in slots}
            for slot in old.keys() & new.keys():
                new[slot].copy_(old[slot])
            if MASTER in new and MASTER not in old:
                new[MASTER].copy_(p.detach())
                self._versions[name] = p.version
            self._state[name], self._homes[name] = new, home
        in_use = {id(h[0][0]) for h in self._homes.values() if h[0] is not None}
        self._long = {key: held for key, held in self._long.items() if key in in_use}

    def _long_state(self, flat: FlatBuffer, slots: tuple[str, ...], dtype: DType) -> dict[str, Tensor]:
        held = self._long.setdefault(id(flat), {})
        for slot in slots:
            if slot not in held:
                held[slot] = flat.new(dtype)
        return held

    def _slot(self, run: Run, slot: str) -> Tensor:
        if run.flat is None:
            return self._state[self._names[id(run.params[0])]][slot]
        return run.flat.run(self._long[id(run.flat)][slot], run.start, run.stop)

    def _slots(self, group: Mapping[str, Any], p: Parameter) -> tuple[str, ...]:
        slots = self.active_slots(group)
        return (*slots, MASTER) if self.master_weights and p.dtype in HALF else slots

    def _master_of(self, run: Run, params: Tensor) -> Tensor:
        """Return what steps are made on: the master copies of a run's parameters, or the parameters."""
        if not self.master_weights or params.dtype not in HALF:
            return params
        for p in run.params:
            self._follow(self._names[id(p)], p)
        return self._slot(run, MASTER)

    def _follow(self, name: str, p: Parameter) -> None:
        """See that a parameter's master copy, if any, rounds to the parameter, which somebody may have changed.

        Elements that do are kept, with the bits that the parameter cannot hold.
        """
        master = self._state[name].get(MASTER)
        if master is None or self._versions.get(name) == p.version:
            return
        changed = NotEqualsForward(ops.Cast(master, p.dtype), p)
        Copy(master, WhereForward(changed, ops.Cast(p, master.dtype), master))
        self._versions[name] = p.version

    def _by_step(self, run: Run) -> list[tuple[Run, int]]:
        """Return the run, cut where the numbers of steps made differ, with the step to make."""
        steps = [self._steps.get(self._names[id(p)], 0) + 1 for p in run.params]
        if steps.count(steps[0]) == len(steps):
            return [(run, steps[0])]
        pieces: list[tuple[Run, int]] = []
        for i, (p, step) in enumerate(zip(run.params, steps, strict=True)):
            if pieces and pieces[-1][1] == step:
                pieces[-1][0].stop += 1
                pieces[-1][0].params.append(p)
            else:
                pieces.append((Run(run.flat, run.start + i, run.start + i + 1, [p]), step))
        return pieces

    def _state_problems(self, saved: Mapping[str, Any]) -> tuple[list[str], Mapping[str, Any]]:
        """Return everything that is wrong with a state dict, and its states by name."""
        state, groups = saved.get("state"), saved.get("groups")
        if not isinstance(state, Mapping) or not isinstance(groups, list):
            return ["it has no 'state' and 'groups'; use what state_dict() returned"], {}
        mine = [list(g["params"]) for g in self.groups]
        theirs = [list(g.get("params", ())) for g in groups]
        if mine != theirs:
            here, there = {n for g in mine for n in g}, {n for g in theirs for n in g}
            problems = [f"missing: {name}" for name in sorted(here - there)]
            problems += [f"unexpected: {name}" for name in sorted(there - here)]
            return problems or ["the same parameters are in other groups, or in another order"], {}
        problems = []
        for number, (group, other) in enumerate(zip(self.groups, groups, strict=True)):
            if set(group) != set(other):
                problems.append(f"group {number} has settings {sorted(other)}, expected {sorted(group)}")
                continue
            for name, p in group["params"].items():
                if name in state:
                    problems += _entry_problems(name, state[name], p, self._slots(other, p))
        problems += [f"unexpected: {name}" for name in state if name not in {n for g in mine for n in g}]
        return problems, state


def _entry_problems(name: str, entry: Any, p: Parameter, slots: tuple[str, ...]) -> list[str]:
    if not isinstance(entry, Mapping) or set(entry) != {"step", *slots}:
        has = sorted(entry) if isinstance(entry, Mapping) else entry
        return [f"{name}: has {has}, expected step{''.join(', ' + s for s in slots)}"]
    if not isinstance(entry["step"], int) or entry["step"] < 0:
        return [f"{name}: step is {entry['step']!r}, expected an int >= 0"]
    wanted = TensorSpec.of(p.shape, state_dtype(p), p.device)
    return [fault for slot in slots if (fault := mismatch(f"{name}: {slot}", entry[slot], wanted))]


def state_dtype(p: Parameter) -> DType:
    """Return the dtype of a parameter's state: a moment in half precision would stop moving."""
    return float32 if p.dtype in HALF else p.dtype
