"""The larger functions: GELU, SwiGLU, layer norm, cross entropy, attention."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .case import Case, Maker, normal, whole


def _targets(classes: int, ignored: int, *shape: int) -> Maker:
    def make(rng: np.random.Generator) -> np.ndarray:
        targets = rng.integers(0, classes, shape)
        targets.reshape(-1)[::3] = ignored
        return targets

    return make


def _sdpa(qkv: torch.Tensor, n_head: int, n_kv_head: int, causal: bool) -> torch.Tensor:
    """Return PyTorch's attention of packed (B, T, [q heads | k heads | v heads]), packed as (B, T, heads)."""
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv_head)
    q, k, v = (
        part.reshape(b, t, -1, d).transpose(1, 2)
        for part in qkv.split([n_head * d, n_kv_head * d, n_kv_head * d], -1)
    )
    y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=n_kv_head != n_head)
    return y.transpose(1, 2).reshape(b, t, n_head * d)


def _attention(b: int, t: int, d: int, n_head: int, n_kv_head: int, causal: bool, scale: float = 1.0) -> Case:
    about = f"{b}x{t} {n_head} heads {n_kv_head} kv of {d}{' causal' if causal else ''} scale {scale}"
    return Case(
        *("attention", about, lambda f, x: f(x, n_head, n_kv_head, causal=causal)),
        lambda x: _sdpa(x, n_head, n_kv_head, causal),
        (normal(b, t, (n_head + 2 * n_kv_head) * d, scale=scale),),
    )


def _cross_entropy(about: str, logits: Maker, targets: Maker, ignored: int = -100) -> Case:
    def theirs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x.reshape(-1, x.shape[-1]), y.reshape(-1).long(), ignore_index=ignored)

    return Case("cross_entropy", about, lambda f, x, y: f(x, y, ignored), theirs, (logits, targets))


CASES = [
    *[
        Case(
            *("gelu", f"{form} scale {scale}", lambda f, x, form=form: f(x, form)),
            lambda x, form=form: F.gelu(x, approximate=form),
            (normal(3, 40, scale=scale),),
        )
        for form in ("tanh", "none")
        for scale in (1.0, 4.0)
    ],
    Case(
        "gelu", "default is tanh", lambda f, x: f(x), lambda x: F.gelu(x, approximate="tanh"), (normal(3, 5),)
    ),
    *[
        Case(
            *("linear_gelu", form, lambda f, x, w, b, form=form: f(x, w, b, form)),
            lambda x, w, b, form=form: F.gelu(F.linear(x, w, b), approximate=form),
            (normal(2, 3, 7), normal(5, 7), normal(5)),
        )
        for form in ("tanh", "none")
    ],
    Case(
        *("linear_gelu", "no bias", lambda f, x, w: f(x, w)),
        lambda x, w: F.gelu(F.linear(x, w), approximate="tanh"),
        (normal(4, 33, scale=2.0), normal(9, 33)),
    ),
    *[
        Case(
            *("swiglu", f"scale {scale}", lambda f, x: f(x)),
            lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
            (normal(2, 3, 14, scale=scale),),
        )
        for scale in (1.0, 20.0)
    ],
    Case(
        *("layer_norm", "", lambda f, x, w, b: f(x, w, b), lambda x, w, b: F.layer_norm(x, (7,), w, b)),
        (normal(2, 3, 7), normal(7), normal(7)),
    ),
    Case(
        *("layer_norm", "no bias", lambda f, x, w: f(x, w), lambda x, w: F.layer_norm(x, (7,), w)),
        (normal(5, 7), normal(7)),
    ),
    Case(
        *("layer_norm", "eps", lambda f, x, w, b: f(x, w, b, 0.3)),
        lambda x, w, b: F.layer_norm(x, (7,), w, b, 0.3),
        (normal(5, 7, scale=0.2), normal(7), normal(7)),
    ),
    Case(
        *("layer_norm", "wide", lambda f, x, w, b: f(x, w, b), lambda x, w, b: F.layer_norm(x, (769,), w, b)),
        (normal(4, 769, scale=30), normal(769), normal(769)),
    ),
    _cross_entropy("", normal(9, 11), whole(0, 11, 9)),
    _cross_entropy("3 axes", normal(2, 5, 11), whole(0, 11, 2, 5)),
    _cross_entropy("int32 targets", normal(9, 11), whole(0, 11, 9, dtype="int32")),
    _cross_entropy("ignores -100", normal(2, 5, 11), _targets(11, -100, 2, 5)),
    _cross_entropy("ignores 3", normal(9, 11), _targets(11, 3, 9), 3),
    _cross_entropy("large logits", normal(9, 11, scale=60), _targets(11, -100, 9)),
    _cross_entropy("many classes", normal(5, 5003), whole(0, 5003, 5)),
    _attention(2, 9, 5, 3, 3, True),
    _attention(2, 9, 5, 3, 3, False),
    _attention(1, 33, 10, 3, 3, True, 2.0),
    _attention(2, 7, 4, 6, 2, True),
    _attention(2, 7, 4, 4, 1, False),
    _attention(1, 1, 8, 2, 1, True),
    _attention(1, 129, 16, 2, 2, True),
    _attention(1, 300, 8, 4, 2, True),
    _attention(2, 257, 4, 2, 1, False),
]
