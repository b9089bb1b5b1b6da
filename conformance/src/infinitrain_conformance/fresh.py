"""Running a function of ``bodies`` in a fresh Python process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .check import fail
from .target import Spec


def fresh(heading: str, spec: Spec, body: str, *, seconds: float = 60) -> dict[str, Any]:
    """Return the answer of ``bodies.body`` from a new process, which has to end quietly with code 0."""
    __tracebackhide__ = True
    given = {"name": spec.name, "type": spec.type_name, "module": spec.module, "options": spec.options}
    command = [sys.executable, "-m", "infinitrain_conformance.bodies", body, json.dumps(given)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        fail(heading, [f"a fresh process that ran {body!r} did not end in {seconds:g} s"])
    if done.returncode != 0:
        last = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-12:])
        fail(heading, [f"a fresh process that ran {body!r} ended with exit code {done.returncode}:", last])
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    answer["stderr"] = done.stderr
    return answer
