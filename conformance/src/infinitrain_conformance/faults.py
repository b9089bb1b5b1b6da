"""``--faults``: the proof that the suite sees defects. Those planted in the fake backend one by one, and those that are
generated from the op table and stand between the suite and an op.
"""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from concurrent.futures.process import BrokenProcessPool
from difflib import get_close_matches
from typing import Any

from .generated import all_faults, hunt_all
from .generated.hunting import Verdict
from .output import say
from .planted import BACKEND, catalogue, examine_all, healthy_report
from .report import FAILURES, NO_BACKEND, USAGE
from .target import NotLoadable, Spec


def main(names: Sequence[str], spec: Spec | None = None, *, seed: int = 0, timeout: float = 60.0) -> int:
    """Examine the faults (all when none is named); print what caught each; return the exit code.

    The generated ones run on the backend of ``spec``, the planted ones always on the fake.
    """
    try:
        planted = catalogue()
        known: dict[str, Any] = {
            name: fault for name, fault in planted.FAULTS.items() if planted.usable(fault)
        }
        absent = [name for name in planted.FAULTS if name not in known]
    except ImportError:
        planted, known, absent = None, {}, []
    generated = {str(fault): fault for fault in all_faults()}
    if not names:
        names = ("planted", "generated") if spec is None or spec.type_name == BACKEND else ("generated",)
    if list(names) == ["list"]:
        return _list(known.values(), generated.values())
    needs_fake = spec is None or any(name == "planted" or name in known for name in names)
    if planted is None and needs_fake:
        return _stop("planted faults need the fake backend: pip install infinitrain-fake", NO_BACKEND)

    chosen: dict[str, None] = {}
    for name in names:
        if name == "planted":
            chosen |= dict.fromkeys(known)
        elif name == "generated":
            chosen |= dict.fromkeys(generated)
        elif name in known or name in generated:
            chosen[name] = None
        elif some := [full for full, fault in generated.items() if name in (fault.op, fault.kind.name)]:
            chosen |= dict.fromkeys(some)
        else:
            near = get_close_matches(name, [*known, *generated, *absent], 2)
            hint = f"did you mean {' or '.join(near)}?" if near else "`--faults list` prints them all"
            return _stop(f"no fault {name!r}; {hint}", USAGE)

    started = time.monotonic()
    verdicts: list[Verdict] = []
    broken: list[str] = []
    faults = [generated[name] for name in chosen if name in generated]
    if faults:
        ops = list(dict.fromkeys(fault.op for fault in faults))
        try:
            verdicts, broken = hunt_all(spec or Spec(BACKEND), ops, frozenset(map(str, faults)), seed=seed)
        except NotLoadable as error:
            return _stop(str(error), NO_BACKEND)
        except BrokenProcessPool:
            return _stop("a process died with a generated fault in place; name ops to find which", FAILURES)
    to_plant = [known[name] for name in chosen if name in known]
    if to_plant:
        healthy = healthy_report(seed, timeout)
        if healthy.abort is not None:
            return _stop(healthy.abort[1], NO_BACKEND)
        broken += [
            result.id for result in healthy.results.values() if result.outcome in ("failed", "crashed")
        ]
        verdicts = examine_all(to_plant, healthy, seed, timeout) + verdicts
    return _print(verdicts, absent if to_plant else [], sorted(set(broken)), time.monotonic() - started)


def _stop(message: str, code: int) -> int:
    print(f"infinitrain-conformance: {message}", file=sys.stderr)
    return code


def _list(planted: Iterable[Any], generated: Iterable[Any]) -> int:
    for fault in planted:
        say(f"{fault.name}  planted {fault.kind}  {fault.description}")
    for fault in generated:
        say(f"{fault}  generated {fault.kind.name}")
    return 0


def _print(verdicts: list[Verdict], absent: list[str], broken: list[str], seconds: float) -> int:
    width = max((len(v.fault) for v in verdicts), default=0)
    kinds = max((len(v.kind) for v in verdicts), default=0)
    for v in verdicts:
        clause = f"[contract {v.clause}]" if v.clause else ""
        if v.outcome == "caught":
            seen = v.test
        else:
            seen = f"NOT CAUGHT: {v.why}" if v.outcome == "missed" else f"not applicable: {v.why}"
        say(f"{v.fault:{width}}  {v.kind:{kinds}}  {v.level}  {clause:14}  {textwrap.shorten(seen, 150)}")
    if absent:
        say(f"not planted, as this infinitrain-core has no such op: {', '.join(absent)}")
    missed = [v.fault for v in verdicts if v.outcome == "missed"]
    say(f"{summary(verdicts)}, in {seconds:.0f} s" + (f"; not caught: {', '.join(missed)}" if missed else ""))
    if broken:
        say(f"without any fault {len(broken)} tests fail, such as {broken[0]}: run the suite first")
    return FAILURES if missed or broken or not verdicts else 0


def summary(verdicts: list[Verdict]) -> str:
    """Return how many were caught: planted, generated, and those that cannot be seen."""
    parts = []
    for what, group in (
        ("planted", [v for v in verdicts if "." not in v.fault]),
        ("generated", [v for v in verdicts if "." in v.fault]),
    ):
        judged = [v for v in group if v.outcome in ("caught", "missed")]
        if group:
            caught = sum(v.outcome == "caught" for v in judged)
            parts.append(f"{caught:,} of {len(judged):,} {what} faults caught")
    excluded = sum(v.outcome in ("rule", "listed") for v in verdicts)
    return ", ".join(parts) + (f", {excluded} not applicable" if excluded else "")
