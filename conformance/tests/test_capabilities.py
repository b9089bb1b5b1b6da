"""What a provider declares is probed both ways, and nothing that could be declared is without a probe."""

from __future__ import annotations

import dataclasses

import pytest

from infinitrain.backend import Capabilities, DeviceGuardImpl
from infinitrain.backend.guard_impl import GROUPS
from infinitrain_conformance import manifest
from infinitrain_conformance.probes import PROBES

PROBE = "capabilities::test_as_declared[{}]"


def test_every_field_and_method_has_a_probe():
    """A field of Capabilities or an optional method that is added to core needs a probe here."""
    assert {field.name for field in dataclasses.fields(Capabilities)} == set(manifest.FIELDS)
    required = {"initialize", "describe", "shutdown"} | {*GROUPS["identity"], *GROUPS["memory"]}
    optional = {method for methods in GROUPS.values() for method in methods} - required
    assert {method for methods in manifest.METHODS.values() for method in methods} == optional
    assert set(PROBES) == set(manifest.NAMES)
    public = {name for name in vars(DeviceGuardImpl) if not name.startswith("_")}
    assert public - {"host_visible", "has_streams", "has_arrays"} == optional | required


@pytest.fixture
def capable(command):
    def call(registrar):
        args = ("--backend_module", f"capable:{registrar}", "-k", "test_as_declared")
        return command("--backend", "toy", *args)

    return call


@pytest.mark.multiproc
def test_what_is_declared_works(capable):
    got = capable("able")
    assert got.failed() == []
    declared = {name for name, offered in got.report["capabilities"].items() if offered}
    assert declared >= {
        "capture",
        "host_alloc",
        "memcpy_async",
        "ccl",
        "options",
        "peak_flops",
        "nondeterministic",
    }
    assert got.tests[PROBE.format("peer_copy")]["outcome"] == "skipped"  # there is one device
    assert got.report["summary"]["below_floor"] == []


@pytest.mark.multiproc
def test_what_is_declared_and_does_not_work(capable):
    got = capable("liar")
    said = {
        "options": "option lanes has no help text", "nondeterministic": "names one twice",
        "peak_flops": "peak_flops(bool) is 0.0", "capture": "after replay x is [1.]",
        "host_alloc": "512 bytes", "memcpy_async": "what was copied there and back", "memory_stats": "used = 0",
        "ccl": "all_reduce among one rank",
    }  # fmt: skip
    failed = {t["id"]: t["message"] for t in got.failed()}
    assert set(failed) == {PROBE.format(name) for name in said}
    for name, text in said.items():
        message = failed[PROBE.format(name)]
        assert text in message, name
        if name in manifest.METHODS:
            assert f"{name} is declared by Lying" in message, name
        elif name in manifest.FIELDS:
            assert f"declared in Capabilities at registration: {name}=" in message or name == "options", name


@pytest.mark.multiproc
def test_wrong_capability_is_the_first_thing_said(command):
    """It is probed first of L1, and named below the line that counts."""
    args = ("--backend", "toy", "--backend_module", "capable:liar", "--level", "L1", "--workers", "1")
    got = command(*args, "-k", "test_as_declared or test_malloc")
    lines = got.out[got.out.index("\nran ") + 1 :].splitlines()
    assert lines[1].startswith(
        "look at this first: declared in Capabilities at registration: options=('lanes',); "
    )
    assert any(line.startswith("look at this first: capture is declared by Lying; ") for line in lines)
    assert next(iter(got.tests)).startswith("capabilities::")


@pytest.mark.multiproc
def test_what_is_not_declared_says_so(capable):
    got = capable("silent")
    assert {t["id"] for t in got.failed()} == {
        PROBE.format(name) for name in ("streams", "capture", "host_alloc", "memcpy_async")
    }
    assert "RuntimeError" in got.tests[PROBE.format("host_alloc")]["message"]
