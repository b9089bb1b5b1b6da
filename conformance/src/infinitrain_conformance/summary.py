"""The report for people: one line that says it all, then what it rests on."""

from __future__ import annotations

import re
from typing import Final

from .matrix import coverage_lines, matrix_lines
from .outcomes import NO_KERNEL
from .report import (
    CONFORMANT,
    FAILURES,
    INTERRUPTED,
    LEVELS,
    NO_DEVICE,
    NOTHING_RAN,
    OUTCOMES,
    Report,
    Result,
)

_SHOWN: Final = 10
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
        f"seed {report.facts.get('seed', 0)}: {_verdict(report)}"
    )


def _verdict(report: Report) -> str:
    if report.exit_code == NO_DEVICE and not report.ran:
        return "no device, and no test was asked for that needs none"
    return _VERDICTS.get(report.exit_code, "stopped")


def lines(report: Report, *, full_matrix: bool = False, coverage: bool = True) -> list[str]:
    """Return the summary; without ``coverage`` no count of the table's ops, of which few were asked for."""
    who = _about(report)
    if report.abort is not None and not report.interrupted:
        return [*who, *report.abort[1].splitlines()]
    out = [first_line(report), *_wrongly_declared(report), *who, *_missing(report)]
    out.append(f"{'level':6}" + "".join(f"{outcome:>{len(outcome) + 2}}" for outcome in OUTCOMES))
    for level, text in LEVELS.items():
        if any(case.level == level for case in report.cases.values()):
            counts = "".join(f"{report.count(o, level):{len(o) + 2}}" for o in OUTCOMES)
            out.append(f"{level:6}{counts}   {text}")
    if full_matrix or coverage:
        out += matrix_lines(report) if full_matrix else coverage_lines(report)
    crashed = [_told("crashed", result) for result in report.of("crashed")]
    out += _shown(crashed, "crashes")
    out += [_told("expected failure", result) for result in report.of("xfailed")]
    if report.lost and report.abort is None and not report.interrupted:
        some = ", ".join(report.lost[:3])
        out.append(f"no result of {len(report.lost)} tests: their process ended without one, such as {some}")
    if report.no_device is not None:
        out.append(f"no device: {report.no_device}")
    elif report.below_floor and not report.interrupted:
        out += _shown([_below(names, why) for why, names in _by_reason(report, report.below_floor).items()])
    if report.no_device is None:
        for outcome in ("unsupported", "skipped"):
            found = _by_reason(report, [r.id for r in report.of(outcome)])
            most = sorted(found.items(), key=lambda pair: -len(pair[1]))
            out += _shown([f"{outcome}: {len(names)} because {why}" for why, names in most])
    return [*out, *report.notes, *report.problems]


def _wrongly_declared(report: Report) -> list[str]:
    """Return what the failed probes of capabilities were about: a wrong one makes many other tests fail."""
    failed = [r for r in report.of("failed", "crashed") if r.id.startswith("capabilities::")]
    said = report.facts.get("declared_where", {})
    names = [r.id.partition("[")[2].removesuffix("]") for r in failed]
    return [
        f"look at this first: {said.get(name, name)}; {r.id} {r.outcome}"
        for name, r in zip(names, failed, strict=True)
    ]


def _by_reason(report: Report, names: list[str]) -> dict[str, list[str]]:
    """Return the tests by the reason why they did not run; reasons that differ in numbers only are one."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        text = report.reason(report.results.get(name, Result(name, "skipped")))
        groups.setdefault(re.sub(r"\b\d+\b", "N", text), []).append((text, name))
    found = {}
    for key, pairs in groups.items():
        texts = {text for text, _ in pairs}
        why = texts.pop() if len(texts) == 1 else key
        found["no kernel" if why == f"{NO_KERNEL}the op" else why] = [name for _, name in pairs]
    return found


def _below(names: list[str], why: str) -> str:
    what = names[0] if len(names) == 1 else f"{len(names)} tests, such as {names[0]},"
    return f"not run, and may not be declined: {what}" + ("" if why == "not run" else f" because {why}")


def _told(what: str, result: Result) -> str:
    return f"{what}: {result.id}: {result.message.partition(chr(10))[0]}"


def _shown(texts: list[str], what: str = "reasons") -> list[str]:
    more = len(texts) - _SHOWN
    return [
        *texts[:_SHOWN],
        *([f"... and {more} more {what}; --json FILE has all of them"] if more > 0 else []),
    ]


def _about(report: Report) -> list[str]:
    facts = report.facts
    provider = facts.get("provider", {})
    if "suite" not in facts:
        return []  # the run ended before anything was known
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
