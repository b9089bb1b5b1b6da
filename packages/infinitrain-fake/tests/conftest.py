"""A fake device of its own per test: registered, used, and taken away again."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

import infinitrain_fake
from infinitrain.backend import get_device_guard_impl
from infinitrain.device import DeviceType
from infinitrain.testing import temporary_backend


@pytest.fixture
def fake(monkeypatch):
    """``fake(fault="", **options)`` registers the device with faults and options, and returns its runtime."""
    with ExitStack() as stack:

        def start(fault: str = "", **options: int):
            monkeypatch.setenv("INFINITRAIN_FAKE_FAULT", fault)
            for name, value in options.items():
                monkeypatch.setenv(f"INFINITRAIN_FAKE_{name.upper()}", str(value))
            stack.enter_context(temporary_backend(infinitrain_fake.register_backend))
            return get_device_guard_impl(DeviceType.PRIVATEUSE1)

        yield start
