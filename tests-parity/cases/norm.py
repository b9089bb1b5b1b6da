"""RMSNorm, and norms after a residual: PyTorch's own norms of PyTorch's own sum."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .case import Case, normal


def _add_layer_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return total, F.layer_norm(total, (x.shape[-1],), weight, bias, eps)


def _add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + residual
    return total, F.rms_norm(total, (x.shape[-1],), weight, eps)


SHAPES = {"vector": (7,), "rank 3": (2, 3, 7), "rank 4": (2, 1, 3, 5), "wide": (4, 769)}

CASES = [
    *[
        Case(
            *("rms_norm", f"{name} eps {eps}", lambda f, x, w, eps=eps: f(x, w, eps)),
            lambda x, w, eps=eps: F.rms_norm(x, (x.shape[-1],), w, eps),
            (normal(*shape, scale=scale), normal(shape[-1])),
        )
        for name, shape in SHAPES.items()
        for eps, scale in ((1e-6, 1.0), (0.3, 0.2))
    ],
    Case(  # without an eps that shows, and for a layer norm, there would be nothing but rounding
        *("rms_norm", "width 1", lambda f, x, w: f(x, w, 0.3)),
        lambda x, w: F.rms_norm(x, (1,), w, 0.3),
        (normal(5, 1), normal(1)),
    ),
    Case(
        *("rms_norm", "default eps", lambda f, x, w: f(x, w)),
        lambda x, w: F.rms_norm(x, (7,), w, 1e-6),
        (normal(5, 7, scale=30), normal(7)),
    ),
    *[
        Case(
            *("add_layer_norm", name, lambda f, x, r, w, b: f(x, r, w, b, 1e-3)),
            lambda x, r, w, b: _add_layer_norm(x, r, w, b, 1e-3),
            (normal(*shape), normal(*shape, scale=3), normal(shape[-1]), normal(shape[-1])),
        )
        for name, shape in SHAPES.items()
    ],
    Case(
        *("add_layer_norm", "no bias, default eps", lambda f, x, r, w: f(x, r, w)),
        lambda x, r, w: _add_layer_norm(x, r, w, None, 1e-5),
        (normal(5, 7), normal(5, 7), normal(7)),
    ),
    *[
        Case(
            *("add_rms_norm", name, lambda f, x, r, w: f(x, r, w, 1e-3)),
            lambda x, r, w: _add_rms_norm(x, r, w, 1e-3),
            (normal(*shape), normal(*shape, scale=3), normal(shape[-1])),
        )
        for name, shape in SHAPES.items()
    ],
]
