"""A small network trained on the fake gives the CPU's numbers, on either device and under threads."""

import threading

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS


def train(device, steps=6):
    random = np.random.default_rng(11)

    def parameter(*shape):
        return it.tensor(random.normal(0, 0.4, shape).astype(np.float32), device=device, requires_grad=True)

    params = [parameter(24, 7), parameter(24), parameter(5, 24), parameter(5)]
    ms = [it.zeros(*p.shape, device=device) for p in params]
    vs = [it.zeros(*p.shape, device=device) for p in params]
    x = it.tensor(random.normal(1, 2, (3, 6, 7)).astype(np.float32), device=device)
    target = it.tensor(random.integers(0, 5, (3, 6)), device=device)
    losses = []
    for step in range(1, steps + 1):
        h = it.ops.gelu(it.ops.linear(x, params[0], params[1]))
        loss = it.ops.cross_entropy(it.ops.linear(h, params[2], params[3]), target)
        loss.backward()
        OPS["AdamW"].call(params, [p.grad for p in params], ms, vs, 1e-2, 0.9, 0.99, 1e-8, 0.1, step)
        for p in params:
            p.zero_grad()
        losses.append(loss.item())
    return losses, [p.numpy() for p in params]


@pytest.mark.parametrize("device", ["fake:0", "fake:1"])
def test_training_equals_the_cpu(fake, device):
    fake()
    want, got = train("cpu"), train(device)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
    assert want[0][-1] < want[0][0] - 0.1
    for a, b in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_training_in_two_threads_at_once_equals_the_cpu(fake):
    fake()
    results = {}
    threads = [
        threading.Thread(target=lambda d=device: results.update({d: train(d)}))
        for device in ("fake:0", "fake:1")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = train("cpu")
    for device in ("fake:0", "fake:1"):
        np.testing.assert_allclose(results[device][0], want[0], rtol=1e-6)


def test_launch_blocking_changes_nothing(fake, monkeypatch):
    monkeypatch.setenv("INFINITRAIN_LAUNCH_BLOCKING", "1")
    fake()
    np.testing.assert_allclose(train("fake")[0], train("cpu")[0], rtol=1e-6)
