"""InfiniTrain: a training framework whose devices are plug-ins.

>>> import infinitrain as it
>>> x = it.tensor([1.0, 2.0, 3.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4., 6.])
"""

from . import autograd, backend, ops
from . import cpu as _cpu
from . import tensor as _tensor
from .__about__ import __version__
from .autograd import autocast, enable_grad, is_autocast_enabled, is_grad_enabled, no_grad
from .backend import DeviceGuard, synchronize
from .cpu.threads import get_num_threads, set_num_threads
from .creation import arange, empty, from_dlpack, from_numpy, full, ones, tensor, zeros
from .device import CPU, Device, DeviceType
from .dtype import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .errors import InfiniTrainError
from .tensor import Tensor

_tensor.run_backward = autograd.backward
_cpu.register()

from . import nn, optim, random  # noqa: E402 - built on all of the above
from .gradcheck import gradcheck  # noqa: E402
from .random import Generator, manual_seed  # noqa: E402

__all__ = [
    "CPU",
    "DType",
    "Device",
    "DeviceGuard",
    "DeviceType",
    "Generator",
    "InfiniTrainError",
    "Tensor",
    "__version__",
    "arange",
    "autocast",
    "autograd",
    "backend",
    "bfloat16",
    "bool_",
    "empty",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "full",
    "get_num_threads",
    "gradcheck",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_enabled",
    "is_grad_enabled",
    "manual_seed",
    "nn",
    "no_grad",
    "ones",
    "ops",
    "optim",
    "random",
    "set_num_threads",
    "synchronize",
    "tensor",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
]
