"""What the framework costs beside its kernels: a GPT-2 step through the public API against straight-line code.

The straight-line step calls the same CPU kernels in the same order on plain holders of arrays: no op table, no tape,
no optimizer object. Both start from the same weights and must give the same losses. Prints, per size, the medians and
minima of alternating rounds, the difference, and what is left after 50 steps with the garbage collector off.

    python benchmarks/bench_overhead.py [micro16 tiny128 gpt2-124m]
"""

from __future__ import annotations

import gc
import os
import sys
import time
from dataclasses import dataclass
from statistics import median

for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)

import numpy as np  # noqa: E402 - after the variables that it reads

import infinitrain as it  # noqa: E402
from infinitrain import nn, ops, optim  # noqa: E402
from infinitrain.cpu import activation, attention, elementwise, indexing, linear, loss, norm, optimizer  # noqa: E402

LR, BETA1, BETA2, EPS = 1e-3, 0.9, 0.95, 1e-8


@dataclass(frozen=True)
class Size:
    layers: int
    width: int
    heads: int
    batch: int
    time: int
    vocab: int
    rounds: int
    steps: int


SIZES = {
    "micro16": Size(4, 64, 4, 1, 16, 256, rounds=12, steps=60),
    "tiny128": Size(4, 128, 4, 16, 64, 256, rounds=8, steps=6),
    "gpt2-124m": Size(12, 768, 12, 1, 256, 50304, rounds=4, steps=1),
}


class Holder:
    """What a kernel needs of a tensor."""

    __slots__ = ("array", "numel", "shape")

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.numel = array, array.shape, array.size


def new(*shape: int) -> Holder:
    return Holder(np.empty(shape, np.float32))


class Straight:
    """The step written out, with parameters and gradients in flat arrays."""

    def __init__(self, size: Size, weights: dict[str, np.ndarray]) -> None:
        self.size = size
        total = sum(w.size for w in weights.values())
        self.flat = [Holder(np.zeros(total, np.float32)) for _ in range(4)]  # parameters, gradients, m, v
        self.p: dict[str, Holder] = {}
        self.g: dict[str, Holder] = {}
        at = 0
        for name, w in weights.items():
            for where, flat in ((self.p, self.flat[0]), (self.g, self.flat[1])):
                where[name] = Holder(flat.array[at : at + w.size].reshape(w.shape))
            self.p[name].array[...] = w
            at += w.size
        self.positions = Holder(np.arange(size.time))
        self.steps = 0
        self.one = Holder(np.ones((), np.float32))

    def linear(self, name: str, x: Holder, bias: bool = True) -> Holder:
        w = self.p[name + ".weight"]
        y = new(*x.shape[:-1], w.shape[0])
        linear.LinearForward(x, w, self.p[name + ".bias"] if bias else None, out=y)
        return y

    def linear_back(self, name: str, x: Holder, grad: Holder, bias: bool = True) -> Holder:
        dx = new(*x.shape)
        linear.LinearBackwardInput(self.p[name + ".weight"], grad, out=dx)
        linear.LinearBackwardWeight(x, grad, out=self.g[name + ".weight"])
        if bias:
            linear.LinearBackwardBias(grad, out=self.g[name + ".bias"])
        return dx

    def norm(self, name: str, x: Holder) -> tuple[Holder, Holder, Holder]:
        out = new(*x.shape), new(*x.shape[:-1]), new(*x.shape[:-1])
        norm.LayerNormForward(x, self.p[name + ".weight"], self.p[name + ".bias"], 1e-5, out=out)
        return out

    def norm_back(self, name: str, x: Holder, mean: Holder, rstd: Holder, grad: Holder) -> Holder:
        dx = new(*x.shape)
        out = dx, self.g[name + ".weight"], self.g[name + ".bias"]
        norm.LayerNormBackward(x, self.p[name + ".weight"], mean, rstd, grad, out=out)
        return dx

    def add(self, a: Holder, b: Holder) -> Holder:
        y = new(*a.shape)
        elementwise.AddForward(a, b, out=y)
        return y

    def step(self, tokens: np.ndarray, targets: np.ndarray) -> float:
        s = self.size
        ids, heads = Holder(tokens), s.heads
        wte, wpe = self.p["transformer.wte.weight"], self.p["transformer.wpe.weight"]
        a, b = new(s.batch, s.time, s.width), new(s.time, s.width)
        indexing.EmbeddingForward(ids, wte, out=a)
        indexing.EmbeddingForward(self.positions, wpe, out=b)
        x = self.add(a, b)
        kept = []
        for i in range(s.layers):
            n = f"transformer.h.{i}."
            h1, m1, r1 = self.norm(n + "ln_1", x)
            qkv = self.linear(n + "attn.c_attn", h1)
            y, lse = new(*x.shape), new(s.batch, heads, s.time)
            attention.AttentionForward(qkv, heads, heads, True, out=(y, lse))
            x2 = self.add(x, self.linear(n + "attn.c_proj", y))
            h2, m2, r2 = self.norm(n + "ln_2", x2)
            u = self.linear(n + "mlp.c_fc", h2)
            v = new(*u.shape)
            activation.GeluForward(u, "tanh", out=v)
            x3 = self.add(x2, self.linear(n + "mlp.c_proj", v))
            kept.append((x, h1, m1, r1, qkv, y, lse, x2, h2, m2, r2, u, v))
            x = x3
        hf, mf, rf = self.norm("transformer.ln_f", x)
        logits = new(s.batch, s.time, s.vocab)
        linear.LinearForward(hf, wte, None, out=logits)
        result, lse_ce = new(), new(s.batch, s.time)
        goal = Holder(targets)
        loss.CrossEntropyForward(logits, goal, -100, 0.0, "mean", out=(result, lse_ce))
        dlogits = new(*logits.shape)
        loss.CrossEntropyBackward(self.one, logits, goal, lse_ce, -100, 0.0, "mean", out=dlogits)
        g = new(*hf.shape)
        linear.LinearBackwardInput(wte, dlogits, out=g)
        linear.LinearBackwardWeight(hf, dlogits, out=self.g["transformer.wte.weight"])
        g = self.norm_back("transformer.ln_f", x, mf, rf, g)
        for i in reversed(range(s.layers)):
            n = f"transformer.h.{i}."
            x, h1, m1, r1, qkv, y, lse, x2, h2, m2, r2, u, v = kept.pop()
            d = self.linear_back(n + "mlp.c_proj", v, g)
            du = new(*u.shape)
            activation.GeluBackward(u, d, "tanh", out=du)
            d = self.linear_back(n + "mlp.c_fc", h2, du)
            g = self.add(g, self.norm_back(n + "ln_2", x2, m2, r2, d))
            d = self.linear_back(n + "attn.c_proj", y, g)
            dqkv = new(*qkv.shape)
            attention.AttentionBackward(qkv, y, lse, d, heads, heads, True, out=dqkv)
            d = self.linear_back(n + "attn.c_attn", h1, dqkv)
            g = self.add(g, self.norm_back(n + "ln_1", x, m1, r1, d))
        summed = Holder(np.add.reduce(g.array, 0))
        indexing.EmbeddingBackward(self.positions, summed, wpe.shape[0], out=self.g["transformer.wpe.weight"])
        indexing.EmbeddingBackward(ids, g, s.vocab, out=self.g["transformer.wte.weight"], accumulate=True)
        self.steps += 1
        p, grad, m, v = self.flat
        optimizer.AdamW([p], [grad], [m], [v], LR, BETA1, BETA2, EPS, 0.0, self.steps)
        return float(result.array)


class Framework:
    """The same step through the public API."""

    def __init__(self, size: Size) -> None:
        config = nn.TransformerConfig(
            block_size=size.time, vocab_size=size.vocab,
            n_layer=size.layers, n_head=size.heads, n_embd=size.width,
        )  # fmt: skip
        self.model = nn.TransformerModel(config, seed=1)
        self.optimizer = optim.AdamW(
            self.model.named_parameters(), lr=LR, betas=(BETA1, BETA2), eps=EPS, weight_decay=0.0
        )

    def step(self, tokens: np.ndarray, targets: np.ndarray) -> float:
        self.optimizer.zero_grad()
        result = ops.cross_entropy(self.model(it.from_numpy(tokens)), it.from_numpy(targets))
        result.backward()
        self.optimizer.step()
        return float(result.item())


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(name: str) -> None:
    size = SIZES[name]
    rng = np.random.default_rng(0)
    framework = Framework(size)
    straight = Straight(size, {n: p.numpy() for n, p in framework.model.named_parameters()})
    batch = [rng.integers(0, size.vocab, (size.batch, size.time)) for _ in range(2)]
    sides = {"straight": straight.step, "framework": framework.step}
    for _ in range(3):
        a, b = (step(*batch) for step in sides.values())
        assert abs(a - b) <= 1e-5 * abs(a), (a, b)
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(size.rounds):
        for side, step in sides.items():
            start = time.perf_counter()
            for _ in range(size.steps):
                step(*batch)
            times[side].append((time.perf_counter() - start) / size.steps * 1e3)
    mid = {side: median(t) for side, t in times.items()}
    low = {side: min(t) for side, t in times.items()}
    print(
        f"{name:10s} straight {mid['straight']:9.3f} ms (min {low['straight']:9.3f})   framework "
        f"{mid['framework']:9.3f} ms (min {low['framework']:9.3f})   "
        f"difference {mid['framework'] - mid['straight']:+.3f} ms "
        f"(of minima {low['framework'] - low['straight']:+.3f}), ratio {mid['framework'] / mid['straight']:.3f}"
    )
    gc.collect()
    gc.disable()
    count = 50 if size.width < 500 else 10
    framework.step(*batch)
    before = resident()
    for _ in range(count):
        framework.step(*batch)
    print(f"{'':10s} memory over {count} steps with gc off: {(resident() - before) / 2**20:+.2f} MiB")
    gc.enable()


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SIZES:
        measure(chosen)
