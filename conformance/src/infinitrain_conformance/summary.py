"""The report for people: one line that says it all, then what it rests on."""

from __future__ import annotations

from typing import Final

from .matrix import coverage_lines, matrix_lines
from .report import (
    CONFORMANT,
    FAILURES,
    INTERRUPTED,
    LEVELS,
    NO_DEVICE,
    NOTHING_RAN,
    OUTCOMES,
    Report,
)

_SHOWN: Final = 5
_VERDICTS: Final = {
    CONFORMANT: "conformant on what it ran",
    FAILURES: "not conformant",
    NO_DEVICE: "no device, so L0 only",
    NOTHING_RAN: "nothing ran, which proves nothing",
    INTERRUPTED: "interrupted",
}


def first_line(report: Report) -> str:
    """Return what ran, of how much, and the verdict."""
    counts = {outcome: report.count(outcome) for outcome in OUTCOMES}
    parts = [f"{counts['failed']} failed"]
    parts += [f"{counts[o]} {o}" for o in ("crashed", "xfailed", "unsupported", "skipped") if counts[o]]
    return (
        f"ran {report.ran} of {len(report.cases)} (floor {report.floor}), {', '.join(parts)}, "
        f"seed {report.facts.get('seed', 0)}: {_VERDICTS.get(report.exit_code, 'stopped')}"
    )


def lines(report: Report, *, full_matrix: bool = False) -> list[str]:
    """Return the summary."""
    who = _about(report)
    if report.abort is not None and not report.interrupted:
        return [*who, *report.abort[1].splitlines()]
    out = [first_line(report), *who, *_missing(report)]
    out.append(f"{'level':6}" + "".join(f"{outcome:>{len(outcome) + 2}}" for outcome in OUTCOMES))
    for level, text in LEVELS.items():
        if any(case.level == level for case in report.cases.values()):
            counts = "".join(f"{report.count(o, level):{len(o) + 2}}" for o in OUTCOMES)
            out.append(f"{level:6}{counts}   {text}")
    out += matrix_lines(report) if full_matrix else coverage_lines(report)
    for outcome, what in (("crashed", "crashed"), ("xfailed", "expected failure")):
        out += [f"{what}: {r.id}: {r.message.partition(chr(10))[0]}" for r in report.of(outcome)]
    if report.no_device is not None:
        out.append(f"no device: {report.no_device}")
    elif report.below_floor and not report.interrupted:
        below = report.below_floor
        out += [f"not run, and may not be declined: {name}" for name in below[:_SHOWN]]
        if len(below) > _SHOWN:
            out.append(f"... and {len(below) - _SHOWN} more; --json FILE has all of them")
    return [*out, *report.problems]


def _about(report: Report) -> list[str]:
    facts = report.facts
    provider = facts.get("provider", {})
    out = [
        f"infinitrain-conformance {facts.get('suite', '?')}, infinitrain-core {facts.get('core', '?')} "
        f"(contract {facts.get('core_contract', '?')}), Python {facts.get('python', '?')}, "
        f"NumPy {facts.get('numpy', '?')}",
    ]
    if provider:
        out.append(
            f"provider {provider['name']} ({provider.get('distribution', 'built in')}), "
            f"slot {provider['slot']}, contract {provider.get('contract', '?')}, "
            f"device {provider.get('describe', 'not touched')}"
        )
        declared = [name for name, offered in facts.get("capabilities", {}).items() if offered]
        out.append(f"declared: {', '.join(declared) or 'nothing'}")
    return out


def _missing(report: Report) -> list[str]:
    if not any(case.op for case in report.cases.values()):
        return []  # no test of an op was asked for
    missing = report.facts.get("missing_kernels", {})
    return [f"no kernel in profile {profile}: {', '.join(ops)}" for profile, ops in missing.items()]
