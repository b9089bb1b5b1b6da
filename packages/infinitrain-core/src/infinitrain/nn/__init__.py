"""Modules: what a model is made of."""

from . import init
from .activation import GELU, ReLU, SiLU
from .config import PRESETS, ConfigError, TransformerConfig
from .containers import ModuleList, Sequential
from .dropout import Dropout
from .init import init_weights, name_paths
from .layers import CrossEntropyLoss, Embedding, LayerNorm, Linear, LinearGELU, RMSNorm
from .module import Module
from .parameter import Parameter
from .state import StateDictError
from .transformer import TransformerModel

__all__ = [
    "GELU",
    "PRESETS",
    "ConfigError",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "LayerNorm",
    "Linear",
    "LinearGELU",
    "Module",
    "ModuleList",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "StateDictError",
    "TransformerConfig",
    "TransformerModel",
    "init",
    "init_weights",
    "name_paths",
]
