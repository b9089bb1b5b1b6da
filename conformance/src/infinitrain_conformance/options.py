"""The plugin's options, and the backend that they ask for."""

from __future__ import annotations

import argparse
from typing import Final

import pytest

from .report import LEVELS
from .target import Spec

DEFAULT_TIMEOUT: Final = 120.0
LONGEST_TIMEOUT: Final = 1e6


def timeout(text: str) -> float:
    """Return the seconds that an option gives one test; 0 stands for no limit. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_TIMEOUT:
        raise argparse.ArgumentTypeError(f"{text!r}: seconds from 0 (no limit) to {LONGEST_TIMEOUT:,.0f}")
    return seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("infinitrain-conformance")
    group.addoption(
        "--conformance_backend", metavar="NAME", help="device under test, such as cpu, fake, maca:1"
    )
    group.addoption(
        "--conformance_module", metavar="PKG.MOD[:FN]", help="registrar to call when it is not installed"
    )
    group.addoption(
        "--conformance_option", action="append", default=[], metavar="K=V", help="option of the provider"
    )
    group.addoption(
        "--conformance_level", action="append", default=[], metavar="L", help=f"of {', '.join(LEVELS)}"
    )
    group.addoption(
        "--conformance_op", action="append", default=[], metavar="OP", help="tests of these ops only"
    )
    group.addoption(
        "--conformance_exclude", action="append", default=[], metavar="ID", help="leave this test out"
    )
    group.addoption("--conformance_first", metavar="CLAUSE", help="run the tests of this clause first")
    group.addoption("--conformance_seed", type=int, default=0, help="added to each test's own seed")
    group.addoption(
        "--conformance_timeout", type=timeout, default=DEFAULT_TIMEOUT, help="seconds for one test"
    )
    group.addoption("--conformance_json", metavar="FILE", help="write the report")
    group.addoption("--conformance_xfail", metavar="FILE", help="expected failures, in TOML")
    group.addoption("--conformance_journal", metavar="FILE", help="append events for the parent process")
    group.addoption("--conformance_share", metavar="FOLDER:N", help="take groups of tests as worker N")
    group.addoption(
        "--conformance_parent", type=int, metavar="FD", help="end when this pipe does: the parent has died"
    )


def spec_of(config: pytest.Config) -> Spec:
    """Return the backend that the options ask for. Raises UsageError."""
    options = []
    for text in config.getoption("conformance_option"):
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise pytest.UsageError(f"--backend_option {text!r} is not of the form name=value")
        options.append((key, value))
    name = config.getoption("conformance_backend")
    if name is None:
        raise pytest.UsageError("conformance tests need --conformance_backend NAME")
    return Spec(name, config.getoption("conformance_module"), tuple(options))
