"""InfiniTrain: a training framework whose devices are plug-ins."""

from . import autograd, backend, dtype, ops
from . import cpu as _cpu
from . import tensor as _tensor_module
_cpu.register()
_tensor_module.run_backward = autograd.backward
from .creation import *
