"""A GPT-2 trains on a provider that was written from docs/contract.md alone, as it does on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# Registration is for the length of a process, so a process of its own registers the provider.
TRAIN = """
import json

import numpy as np

import infinitrain
from infinitrain import nn, ops, optim
from infinitrain.backend import check_kernels, load_backend_module
from infinitrain.device import DeviceType

load_backend_module("strict_provider")
assert check_kernels(DeviceType.PRIVATEUSE1) == []


def losses(device):
    config = nn.TransformerConfig(block_size=16, vocab_size=64, n_layer=2, n_head=2, n_embd=32)
    model = nn.TransformerModel(config, seed=7, device=device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    draw = np.random.default_rng(0)
    for _ in range(5):
        text = np.cumsum(draw.integers(0, 3, (4, 17)), axis=1) % 64
        tokens, target = (infinitrain.from_numpy(part, device=device) for part in (text[:, :-1], text[:, 1:]))
        optimizer.zero_grad()
        loss = ops.cross_entropy(model(tokens), target)
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


print(json.dumps({device: list(losses(device)) for device in ("cpu", "strict", "strict:1")}))
"""


def train(*flags: str, simulated: int) -> dict[str, list[float]]:
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path, "INFINITRAIN_STRICT_SIMULATED": str(simulated)}
    command = [sys.executable, *flags, "-c", TRAIN]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(losses: dict[str, list[float]]) -> None:
    assert len(losses["cpu"]) == 5
    assert losses["cpu"][-1] < losses["cpu"][0] - 0.05
    for device in ("strict", "strict:1"):
        assert losses[device] == pytest.approx(losses["cpu"], rel=0, abs=1e-5)


@pytest.mark.multiproc
def test_gpt2_trains_as_on_the_cpu() -> None:
    check(train(simulated=0))


@pytest.mark.multiproc
def test_gpt2_trains_on_devices_that_do_not_mix() -> None:
    check(train(simulated=1))


@pytest.mark.multiproc
def test_gpt2_trains_without_a_warning() -> None:
    check(train("-W", "error", simulated=0))


def test_the_provider_is_short() -> None:
    assert len((HERE / "strict_provider.py").read_text().splitlines()) < 150
