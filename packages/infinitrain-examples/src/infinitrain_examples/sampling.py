"""Text from a language model, one token after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from infinitrain import Device, Generator, from_numpy, no_grad
from infinitrain.nn import TransformerModel
from infinitrain.random import to_uniform


def generate(
    model: TransformerModel,
    prompt: Sequence[int],
    count: int,
    *,
    device: Device,
    generator: Generator,
    window: int | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> list[int]:
    """Return `count` tokens that continue `prompt`, which has at least one; fewer once `stop()` is true.

    The model sees the last `window` tokens, at most and by default `block_size`. More than it was trained on
    makes no sense: positions beyond were never learnt. Each token takes one word of `generator`, one for the
    host.
    """
    tokens = list(prompt)
    seen = min(window or model.config.block_size, model.config.block_size)
    training = model.training
    model.eval()
    with no_grad():
        for _ in range(count):
            if stop():
                break
            context = np.array([tokens[-seen:]], dtype=np.int64)
            logits = model(from_numpy(context, device)).numpy()[0, -1]
            uniform = float(to_uniform(generator.random_raw(1))[0])
            tokens.append(choose(logits, uniform, temperature=temperature, top_k=top_k))
    model.train(training)
    return tokens[len(prompt) :]


def choose(logits: npt.NDArray[Any], uniform: float, *, temperature: float = 1.0, top_k: int = 0) -> int:
    """Return one index into `logits`, shape (n,), with probability softmax(logits / temperature).

    `uniform`, in [0, 1), decides; `top_k` > 0 leaves only so many of the largest logits (more if some are
    equal); `temperature` 0 means the largest one.
    """
    scores = logits.astype(np.float64)
    if temperature == 0:
        return int(scores.argmax())
    if 0 < top_k < len(scores):
        scores[scores < np.partition(scores, -top_k)[-top_k]] = -np.inf
    with np.errstate(over="ignore"):  # a tiny temperature: everything but the largest becomes 0
        heights = np.cumsum(np.exp((scores - scores.max()) / temperature))
    return int(np.searchsorted(heights, uniform * heights[-1], side="right"))
