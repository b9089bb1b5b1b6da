"""The models that are trained by benchmarks: their sizes, parameters, and what their matrix products cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple


class Product(NamedTuple):
    """``times`` products of (rows, inputs) and (inputs, outputs), forward, and both of their backward."""

    times: int
    rows: int
    inputs: int
    outputs: int

    @property
    def flops(self) -> int:
        return self.times * 3 * 2 * self.rows * self.inputs * self.outputs


@dataclass(frozen=True)
class Shape:
    """A GPT-2 (LayerNorm, learned positions, GELU, tied head) or a LLaMA (RMSNorm, RoPE, SwiGLU), and its batch.

    ``steps`` are those timed in one turn, after ``settle`` untimed ones, which bring back the caches.
    """

    family: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int
    batch: int
    time: int
    steps: int = 1
    settle: int = 0

    @property
    def tokens(self) -> int:
        return self.batch * self.time

    @property
    def packed(self) -> int:
        """Width of the queries, keys and values together."""
        return (self.heads + 2 * self.kv_heads) * (self.width // self.heads)

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Return name -> shape, in the order of the model."""
        found: dict[str, tuple[int, ...]] = {}
        c, hidden, gpt2 = self.width, self.hidden, self.family == "gpt2"
        found["transformer.wte.weight"] = (self.vocab, c)
        if gpt2:
            found["transformer.wpe.weight"] = (self.time, c)
        for i in range(self.layers):
            parts: dict[str, tuple[int, ...]] = {
                "ln_1": (c,),
                "attn.c_attn": (self.packed, c),
                "attn.c_proj": (c, c),
                "ln_2": (c,),
                "mlp.c_fc": (hidden if gpt2 else 2 * hidden, c),
                "mlp.c_proj": (c, hidden),
            }
            for part, shape in parts.items():
                found[f"transformer.h.{i}.{part}.weight"] = shape
                if gpt2:
                    found[f"transformer.h.{i}.{part}.bias"] = shape[:1]
        found["transformer.ln_f.weight"] = (c,)
        if gpt2:
            found["transformer.ln_f.bias"] = (c,)
        else:
            found["lm_head.weight"] = (self.vocab, c)
        return found

    def size(self) -> int:
        """Return the number of parameters."""
        return sum(prod(shape) for shape in self.parameters().values())

    def products(self) -> list[Product]:
        """Return the matrix products of a training step, without those inside attention."""
        gate = 1 if self.family == "gpt2" else 2
        return [
            Product(self.layers, self.tokens, self.width, self.packed),
            Product(self.layers, self.tokens, self.width, self.width),
            Product(self.layers, self.tokens, self.width, gate * self.hidden),
            Product(self.layers, self.tokens, self.hidden, self.width),
            Product(1, self.tokens, self.width, self.vocab),
        ]

    def attention_flops(self) -> int:
        """Return those of causal attention: two products forward, four backward, nothing computed twice."""
        pairs = self.batch * self.time * (self.time + 1) // 2
        return self.layers * 6 * 2 * pairs * self.width

    def flops(self) -> int:
        """Return those of a training step's matrix products and attention."""
        return sum(p.flops for p in self.products()) + self.attention_flops()


def gpt2(layers: int, width: int, heads: int, vocab: int, batch: int, time: int, **turn: int) -> Shape:
    return Shape("gpt2", layers, width, heads, heads, 4 * width, vocab, batch, time, **turn)


SHAPES = {
    "gpt2-124m-256": gpt2(12, 768, 12, 50304, 1, 256, steps=2),
    "gpt2-124m-1024": gpt2(12, 768, 12, 50304, 1, 1024),
    "llama-125m-512": Shape("llama", 12, 768, 12, 4, 2048, 32000, 1, 512),
    "tiny-128": gpt2(4, 128, 4, 256, 16, 64, steps=12, settle=2),
    "tiny-256": gpt2(4, 256, 8, 512, 16, 64, steps=6, settle=1),
    "micro": gpt2(4, 64, 4, 256, 1, 16, steps=150, settle=20),
}
