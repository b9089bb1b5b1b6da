"""NVIDIA GPUs for InfiniTrain. The provider is not implemented yet: this package registers nothing."""

from infinitrain_cuda.__about__ import __version__

__all__ = ["__version__"]
