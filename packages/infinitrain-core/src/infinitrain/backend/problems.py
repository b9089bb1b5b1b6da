"""What is wrong with a registration: every problem of it, told at once [contract 2.3]."""

from __future__ import annotations

import re
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ..device import BUILTIN_NAMES, DeviceType
from ..dtype import HALF
from .capabilities import Capabilities, Option
from .ccl import CclImpl, ccl_problems
from .guard_impl import DeviceGuardImpl, group_problems
from .kernels import signature_problem
from .optable import BASE_OPS, OPS

if TYPE_CHECKING:
    from .registration import BackendRecord, BackendRegistration

CONTRACT: Final = (1, 0)
"""The contract version that this core implements [contract 9.1]."""

_NAME: Final = re.compile(r"[a-z0-9_]+", re.ASCII)


def declaration_problems(type: DeviceType, registration: BackendRegistration) -> list[str]:
    """Return what is wrong with the fields of a registration, before anything of it runs."""
    problems = []
    name = registration.name
    if not isinstance(type, DeviceType) or type is DeviceType.INVALID:
        problems.append(f"{type!r} is no device type [contract 1.1]")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.append(
            f"name {name!r} must be lowercase ASCII letters, digits, underscores: [a-z0-9_]+ [contract 1.3]"
        )
    elif type is DeviceType.PRIVATEUSE1 and name in BUILTIN_NAMES:
        problems.append(f"name {name!r} is reserved: choose the name of your own device [contract 1.3]")
    elif type is not DeviceType.PRIVATEUSE1 and BUILTIN_NAMES.get(name) is not type:
        problems.append(f"name {name!r} is not that of {type!r} [contract 1.3]")
    callbacks = {
        "register_runtime": registration.register_runtime,
        "register_kernels": registration.register_kernels,
    }
    if registration.register_ccl is not None:
        callbacks["register_ccl"] = registration.register_ccl
    wrong = [what for what, callback in callbacks.items() if not callable(callback)]
    problems += [f"{what} must be a callable without arguments [contract 2.1]" for what in wrong]
    problems += _contract_problems(registration.contract)
    dtype = registration.default_autocast_dtype
    if not (dtype is None or any(dtype is half for half in HALF)):
        problems.append(f"default_autocast_dtype must be float16 or bfloat16, not {dtype!r} [contract 2.3]")
    capabilities = registration.capabilities
    if isinstance(capabilities, Capabilities):
        problems += capability_problems(capabilities)
    elif not callable(capabilities):
        problems.append("capabilities must be a Capabilities or a callable that returns one [contract 2.1]")
    return problems


def capability_problems(declared: Capabilities) -> list[str]:
    """Return what is wrong with what a provider declares."""
    problems = []
    options = declared.options
    if not isinstance(options, tuple | list) or not all(isinstance(o, Option) for o in options):
        problems.append(f"options must be a tuple of Option(name, ...), not {options!r} [contract 3.2]")
    else:
        names = [o.name for o in options if isinstance(o.name, str) and _NAME.fullmatch(o.name)]
        if len(set(names)) != len(options):
            problems.append(
                "options must be Option(name, ...) with different names of [a-z0-9_]+ [contract 3.2]"
            )
        problems += [
            f"option {o.name!r}: type {o.type!r} must be a callable that makes a value of a text [contract 3.2]"
            for o in options
            if not callable(o.type)
        ]
    if not callable(declared.peak_flops):
        problems.append(
            f"peak_flops={declared.peak_flops!r} must be a function of a dtype, which returns FLOP/s or None "
            "[contract 2.3]"
        )
    listed = declared.nondeterministic
    if not isinstance(listed, tuple | list):
        problems.append(f"nondeterministic must be a tuple of names of ops, not {listed!r} [contract 7.7]")
    else:
        for name in listed:
            if not isinstance(name, str) or name not in OPS:
                near = get_close_matches(str(name), OPS, 3)
                hint = f"; near: {', '.join(near)}" if near else ""
                problems.append(f"nondeterministic: {name!r} is no op of the table{hint} [contract 7.7]")
    for name in ("host_visible", "peer_copy", "thread_ranks"):
        if not isinstance(getattr(declared, name), bool):
            problems.append(f"{name}={getattr(declared, name)!r} must be True or False [contract 2.3]")
    return problems


def _contract_problems(contract: Any) -> list[str]:
    pair = (
        isinstance(contract, tuple | list)
        and len(contract) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) for n in contract)
    )
    if not pair:
        return [
            f"contract={contract!r} must be the version it was written for, as in contract={CONTRACT} "
            "[contract 2.3]"
        ]
    major, minor = contract
    if major != CONTRACT[0] or not 0 <= minor <= CONTRACT[1]:
        return [
            f"contract {major}.{minor} is not supported: this core implements {CONTRACT[0]}.0 to "
            f"{CONTRACT[0]}.{CONTRACT[1]}; install a matching infinitrain-core or provider [contract 9.1]"
        ]
    return []


def content_problems(record: BackendRecord, failures: dict[str, Exception]) -> list[str]:
    """Return what is wrong with what the callbacks gave; what a failed callback did not give is no news."""
    problems: list[str] = []
    if record.runtime is not None:
        problems += _runtime_problems(record)
    elif "register_runtime" not in failures:
        problems.append("register_runtime did not call register_device_guard_impl [contract 2.3]")
    if record.ccl is not None:
        if not isinstance(record.ccl, CclImpl) or record.ccl.type is not record.type:
            problems.append(f"the ccl {record.ccl!r} is not a CclImpl of type {record.type!r} [contract 2.3]")
        else:
            problems += ccl_problems(record.ccl)
    elif record.registration.register_ccl is not None and "register_ccl" not in failures:
        problems.append("register_ccl did not call register_ccl_impl [contract 2.3]")
    if "register_kernels" not in failures:
        missing = [name for name in BASE_OPS if not record.kernels.get(name)]
        problems += [f"required kernel {name} is missing [contract 2.3]" for name in missing]
    for op_name, layers in record.kernels.items():
        for kernel in chain.from_iterable(layers.values()):
            problem = signature_problem(OPS[op_name], kernel, record.contract)
            if problem:
                problems.append(problem)
    return problems


def _runtime_problems(record: BackendRecord) -> list[str]:
    runtime = record.runtime
    if not isinstance(runtime, DeviceGuardImpl):
        return [f"the runtime {runtime!r} is not a DeviceGuardImpl [contract 2.3]"]
    problems = []
    if runtime.type is not record.type:
        problems.append(f"the runtime says type {runtime.type!r}, expected {record.type!r} [contract 2.3]")
    given = record.registration.capabilities
    if isinstance(given, Capabilities) and runtime.host_visible and not given.host_visible:
        problems.append(
            "host_visible is declared in Capabilities(host_visible=True), not on the runtime [contract 3.9]"
        )
    if not runtime.has_arrays and any("array" in layers for layers in record.kernels.values()):
        problems.append("register_array_kernels needs a runtime with native_array and adopt [contract 4.8]")
    return problems + group_problems(runtime)
