"""Backward runs where forward ran, and leaves devices and streams as they were [contract 3.5, 3.6]."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import DeviceGuard, current_device, stream_scope
from infinitrain.device import Device, DeviceType


def values(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("device", ["fake:0", "fake:1"])
def test_backward_follows_the_streams_of_forward(fake, device):
    runtime = fake()
    rng = np.random.default_rng(5)
    x, w, b = (values(rng, *shape) for shape in ((6, 3), (4, 3), (4,)))
    where = Device.parse(device)
    tx = it.from_numpy(x, where, requires_grad=True)
    tw = it.from_numpy(w, where, requires_grad=True)
    tb = it.from_numpy(b, where, requires_grad=True)
    with DeviceGuard(where):
        streams = [runtime.create_stream(0) for _ in range(2)]
    default = runtime.current_stream(where)
    for stream in streams:  # what was copied on the default stream
        event = runtime.create_event()
        runtime.record(event, default)
        runtime.wait(stream, event)
    with stream_scope(streams[0], where):
        hidden = ops.gelu(ops.linear(tx, tw, tb))
        done = runtime.create_event()
        runtime.record(done, streams[0])
    runtime.wait(streams[1], done)
    with stream_scope(streams[1], where):
        loss = (hidden * hidden).mean()
        done = runtime.create_event()
        runtime.record(done, streams[1])
    runtime.wait(default, done)
    loss.backward()
    assert runtime.current_stream(where) is default
    reference = [it.from_numpy(v, requires_grad=True) for v in (x, w, b)]
    h = ops.gelu(ops.linear(*reference))
    (h * h).mean().backward()
    for got, want in zip((tx, tw, tb), reference, strict=True):
        np.testing.assert_allclose(got.grad.numpy(), want.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_ops_and_copies_leave_the_current_device_alone(fake):
    fake()
    x = it.from_numpy(np.arange(3, dtype=np.float32), "fake:1")
    with DeviceGuard("fake:0"):
        y = x + x
        y.numpy()
        y.to("cpu").to("fake:1")
        it.zeros(2, device="fake:1")
        assert current_device(DeviceType.PRIVATEUSE1) is Device.parse("fake:0")
