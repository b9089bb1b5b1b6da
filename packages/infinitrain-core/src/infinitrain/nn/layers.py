"""Layers: Linear, Embedding, LayerNorm, RMSNorm and the cross-entropy loss. Each forward is one graph node."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import CPU, Device
from ..dtype import DType, float32
from ..tensor import Tensor
from .init import ONES, ZEROS, Normal, fan_in_uniform, kaiming_uniform
from .module import Module


class Linear(Module):
    """y = x weightᵀ + bias, for x (..., in_features), y (..., out_features).

    ``weight`` (out_features, in_features) starts Kaiming-uniform with a = sqrt(5), ``bias`` (out_features,)
    as U(-1/sqrt(in_features), 1/sqrt(in_features)).
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        device: Device | str = CPU,
        dtype: DType | str = float32,
    ) -> None:
        _sizes("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.declare(
            "weight", (out_features, in_features), kaiming_uniform(in_features), device=device, dtype=dtype
        )
        if bias:
            self.declare("bias", (out_features,), fan_in_uniform(in_features), device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return y (..., out_features) for x (..., in_features)."""
        return ops.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class LinearGELU(Linear):
    """y = gelu(x weightᵀ + bias), in one pass: a Linear and the GELU (tanh form) of what it gives."""

    def forward(self, x: Tensor) -> Tensor:
        """Return y (..., out_features) for x (..., in_features)."""
        return ops.linear_gelu(x, self.weight, self.bias)


class Embedding(Module):
    """Rows of ``weight`` (num_embeddings, embedding_dim), which starts as N(0, 1), by number."""

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        device: Device | str = CPU,
        dtype: DType | str = float32,
    ) -> None:
        _sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.declare("weight", (num_embeddings, embedding_dim), Normal(), device=device, dtype=dtype)

    def forward(self, index: Tensor) -> Tensor:
        """Return rows (..., embedding_dim) for integers (...) in 0 .. num_embeddings - 1.

        Raises IndexError.
        """
        return ops.embedding(index, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """y = (x - mean) / sqrt(var + eps) weight + bias over the last axis, biased variance (Ba et al., 2016).

    ``weight`` (size,) starts as ones, ``bias`` (size,) as zeros.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        size: int,
        eps: float = 1e-5,
        bias: bool = True,
        *,
        device: Device | str = CPU,
        dtype: DType | str = float32,
    ) -> None:
        _sizes("LayerNorm", size=size)
        self.size, self.eps = size, eps
        self.declare("weight", (size,), ONES, device=device, dtype=dtype)
        if bias:
            self.declare("bias", (size,), ZEROS, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """Return y (..., size) for x (..., size)."""
        return ops.layer_norm(x, self.weight, self.bias, self.eps)

    def of_sum(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x + residual, its norm), in one pass; all (..., size)."""
        return ops.add_layer_norm(x, residual, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}" + ("" if self.bias is not None else ", bias=False")


class RMSNorm(Module):
    """y = x / sqrt(mean(x²) + eps) weight over the last axis (Zhang and Sennrich, 2019).

    ``weight`` (size,) starts as ones. It may have another floating dtype than x, such as float32 for x in bfloat16;
    y has x's.
    """

    weight: Tensor

    def __init__(
        self, size: int, eps: float = 1e-6, *, device: Device | str = CPU, dtype: DType | str = float32
    ) -> None:
        _sizes("RMSNorm", size=size)
        self.size, self.eps = size, eps
        self.declare("weight", (size,), ONES, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return y (..., size) for x (..., size)."""
        return ops.rms_norm(x, self.weight, self.eps)

    def of_sum(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x + residual, its norm), in one pass; all (..., size)."""
        return ops.add_rms_norm(x, residual, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps}"


class CrossEntropyLoss(Module):
    """Mean over the targets of -ln softmax(logits)[target], in nats; the options are those of ``ops.cross_entropy``.

    Targets equal to ``ignore_index`` do not count.
    """

    def __init__(
        self,
        ignore_index: int = -100,
        *,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        in_place: bool = False,
    ) -> None:
        self.ignore_index = ignore_index
        self.options: dict[str, Any] = {
            "label_smoothing": label_smoothing,
            "reduction": reduction,
            "in_place": in_place,
        }

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Return the loss, 0-d, for logits (..., classes) and integer targets (...)."""
        return ops.cross_entropy(logits, target, self.ignore_index, **self.options)


def _sizes(what: str, **sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{what}: {name} is an int >= 1, got {size!r}")
