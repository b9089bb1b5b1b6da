"""What each rank of the experiment trains: one transformer block on random data, by infinitrain's ops."""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from rank_comm import Comm, all_reduce_mean

import infinitrain as it
from infinitrain import ops
from infinitrain.backend import TensorSpec
from infinitrain.device import CPU
from infinitrain.dtype import float32


@dataclass
class Config:
    """``batch`` is each rank's; rank ``fail[0]`` raises at step ``fail[1]``; ``switch`` is in seconds."""

    steps: int = 40
    batch: int = 4
    time: int = 16
    width: int = 32
    heads: int = 4
    classes: int = 41
    seed: int = 7
    fail: list[int] = field(default_factory=list)
    switch: float | None = None
    warmup: int = 0

    def shapes(self) -> dict[str, tuple[int, ...]]:
        c = self.width
        return {
            "norm1.weight": (c,), "norm1.bias": (c,), "qkv.weight": (3 * c, c), "qkv.bias": (3 * c,),
            "proj.weight": (c, c), "proj.bias": (c,), "norm2.weight": (c,), "norm2.bias": (c,),
            "up.weight": (4 * c, c), "up.bias": (4 * c,), "down.weight": (c, 4 * c), "down.bias": (c,),
            "head.weight": (self.classes, c),
        }  # fmt: skip

    def count(self) -> int:
        """Elements of all parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes().values())


@dataclass
class Result:
    """``digest`` covers all bits of the parameters; ``ms`` is the median step, ``faults`` per step."""

    rank: int
    digest: str
    losses: list[float]
    ms: float
    faults: float


class Model:
    """Parameters whose gradients land in one flat buffer, and AdamW's state."""

    def __init__(self, config: Config, flat: np.ndarray) -> None:
        rng = np.random.Generator(np.random.Philox(config.seed))
        self.config, self.params = config, {}
        gradients = it.from_dlpack(flat)
        offset = 0
        for name, shape in config.shapes().items():
            values = rng.standard_normal(shape) * 0.1 + ("norm" in name and "weight" in name)
            p = it.from_numpy(values.astype(np.float32), requires_grad=True)
            p.name = name
            p.set_grad_destination(gradients.view_as(TensorSpec.of(shape, float32, CPU), offset))
            offset += p.nbytes
            self.params[name] = p
        self.means = [it.zeros(p.shape) for p in self.params.values()]
        self.squares = [it.zeros(p.shape) for p in self.params.values()]

    def loss(self, x: it.Tensor, target: it.Tensor) -> it.Tensor:
        p = self.params
        h = ops.layer_norm(x, p["norm1.weight"], p["norm1.bias"])
        h = ops.attention(ops.linear(h, p["qkv.weight"], p["qkv.bias"]), self.config.heads)
        x = x + ops.linear(h, p["proj.weight"], p["proj.bias"])
        h = ops.layer_norm(x, p["norm2.weight"], p["norm2.bias"])
        h = ops.gelu(ops.linear(h, p["up.weight"], p["up.bias"]))
        x = x + ops.linear(h, p["down.weight"], p["down.bias"])
        return ops.cross_entropy(ops.linear(x, p["head.weight"]), target)

    def step(self, number: int) -> None:
        params = list(self.params.values())
        grads = [p.grad for p in params]
        ops.AdamW(params, grads, self.means, self.squares, 3e-3, 0.9, 0.99, 1e-8, 0.01, number)

    def digest(self) -> str:
        found = hashlib.sha256()
        for p in self.params.values():
            found.update(p.numpy().tobytes())
        return found.hexdigest()


POOL = 64  # samples; ranks take turns, so that 2 ranks with batch B see what 1 rank with 2 B sees


def samples(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (POOL, T, C) and targets (POOL, T), which depend on the inputs."""
    rng = np.random.Generator(np.random.Philox((config.seed, 1)))
    x = rng.standard_normal((POOL, config.time, config.width), np.float32)
    return x, np.abs(x[..., :3].sum(-1) * 9).astype(np.int64) % config.classes


def train(comm: Comm, config: Config, on_step: Callable[[int], None] = lambda step: None) -> Result:
    """Train on this rank's share of the samples; the gradients are averaged in every step."""
    model = Model(config, comm.buffers[comm.rank])
    x, target = samples(config)
    losses, times = [], []
    faults = 0
    for step in range(config.steps):
        if step == config.warmup:
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        began = time.perf_counter()
        if config.fail == [comm.rank, step]:
            raise ValueError(f"injected at step {step}")
        for p in model.params.values():
            p.zero_grad()
        mine = ((step * comm.size + comm.rank) * config.batch + np.arange(config.batch)) % POOL
        loss = model.loss(it.from_numpy(x[mine]), it.from_numpy(target[mine]))
        loss.backward()
        all_reduce_mean(comm)
        model.step(step + 1)
        times.append(time.perf_counter() - began)
        losses.append(loss.item())
        on_step(step)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    measured = times[config.warmup :] or [0.0]
    return Result(
        comm.rank, model.digest(), losses, float(np.median(measured)) * 1e3, faults / max(1, len(measured))
    )
