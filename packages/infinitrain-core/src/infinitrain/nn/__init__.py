"""Modules: what a model is made of."""

from . import init
from .config import PRESETS, ConfigError, TransformerConfig
from .containers import ModuleList, Sequential
from .init import init_weights
from .layers import GELU, CrossEntropyLoss, Embedding, LayerNorm, Linear
from .module import Module
from .parameter import Parameter
from .state import StateDictError
from .transformer import TransformerModel

__all__ = [
    "GELU",
    "PRESETS",
    "ConfigError",
    "CrossEntropyLoss",
    "Embedding",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Parameter",
    "Sequential",
    "StateDictError",
    "TransformerConfig",
    "TransformerModel",
    "init",
    "init_weights",
]
