"""A provider without an array library: ``ptr``, whose chip knows pointers only (ptr_kernels.c).

It has the ops that training GPT-2 in float32 needs. The option ``library`` is the path of the compiled file.
"""

import ctypes
import functools
import itertools
from math import prod

from infinitrain import backend
from infinitrain.device import Device, DeviceType
from infinitrain.dtype import DType
from infinitrain.errors import UnsupportedDtypeError, UnsupportedShapeError

TYPE = DeviceType.PRIVATEUSE1
DTYPES = ("float32", "int64")  # all that the chip has; the library knows them by their place here


class Runtime(backend.DeviceGuardImpl):
    type = TYPE

    def initialize(self, launch):
        Runtime.lib = lib = ctypes.CDLL(launch.options["library"])
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        lib.ptr_malloc.restype, lib.ptr_malloc.argtypes, lib.ptr_free.argtypes = size, [size], [pointer]
        lib.ptr_memcpy.argtypes = [pointer, size, pointer, size, size]
        self.allocator = backend.CachingAllocator(lib.ptr_malloc, lib.ptr_free, lambda device: None)

    def device_count(self):
        return 1

    def get_device(self):
        return Device(TYPE, 0)

    def set_device(self, device): ...

    def malloc(self, nbytes, stream=None):
        return self.allocator.malloc(nbytes, self.get_device(), stream)

    def memcpy(self, dst, dst_offset, src, src_offset, nbytes, kind, stream=None):
        target = (ctypes.c_char * len(dst)).from_buffer(dst) if kind == backend.D2H else dst.ptr
        source = bytes(src) if kind == backend.H2D else src.ptr  # no address of a read-only view in ctypes
        self.lib.ptr_memcpy(target, dst_offset, source, src_offset, nbytes)

    def shutdown(self):
        self.allocator.close()


def code(dtype):
    if dtype.name not in DTYPES:
        raise UnsupportedDtypeError(f"{dtype.name} is none of {', '.join(DTYPES)}", dtype=dtype)
    return DTYPES.index(dtype.name)


def end(x, whole):  # how many elements repeat along whole's leading axes
    shape = tuple(itertools.dropwhile(lambda n: n == 1, x.shape))
    if shape != whole.shape[whole.ndim - len(shape) :]:
        raise UnsupportedShapeError(f"{x.shape} is no end of {whole.shape}", device=x.device)
    return x.numel


def size(x):
    return prod(x.shape[:-1]), x.shape[-1]


def counts(tensors):
    return len(tensors), tuple(x.numel for x in tensors)


# What the library's function of an op gets after the op's arguments and results.
FLOAT32 = {
    "AccumulateGrad": lambda grad, rate, tensor: (grad.numel,),
    "AddForward": lambda a, b, *, out: (end(a, out), end(b, out), out.numel),
    "AddBackward": lambda grad, a_shape, b_shape, *, out: (grad.numel, end(out[0], grad), end(out[1], grad)),
    "GeluForward": lambda x, approximate, *, out: (x.numel,),
    "GeluBackward": lambda x, grad, approximate, *, out: (x.numel,),
    "LinearForward": lambda x, weight, bias, *, out: (*size(x), out.shape[-1]),
    "LinearBackwardInput": lambda weight, grad, *, out: (*size(out), grad.shape[-1]),
    "LinearBackwardWeight": lambda x, grad, *, out, accumulate=False: (*size(x), out.shape[0], accumulate),
    "LinearBackwardBias": lambda grad, *, out, accumulate=False: (*size(grad), accumulate),
    "LayerNormForward": lambda x, weight, bias, eps, *, out: size(x),
    "LayerNormBackward": lambda x, weight, mean, rstd, grad, *, out, accumulate=False: (*size(x), accumulate),
    "AttentionForward": lambda qkv, n_head, n_kv_head, causal, *, out: qkv.shape,
    "AttentionBackward": lambda qkv, y, lse, grad, n_head, n_kv_head, causal, *, out: qkv.shape,
    "GlobalNorm": lambda tensors, *, out: counts(tensors),
    "ScaleInPlace": lambda tensors, factor: counts(tensors),
    "AdamW": lambda params, grads, ms, vs, lr, beta1, beta2, eps, weight_decay, step: counts(params),
}
BOTH = {
    "Fill": lambda x, value: (x.numel, code(x.dtype), 0 if x.dtype.is_floating else int(value)),
    "Cast": lambda x, dtype, *, out: (x.numel, code(x.dtype)),
    "EmbeddingForward": lambda index, weight, *, out: (index.numel, *weight.shape),
    "EmbeddingBackward": lambda index, grad, rows, *, out, accumulate=False: (*size(grad), accumulate),
    "CrossEntropyForward": (
        lambda logits, target, ignore_index, label_smoothing, reduction, *, out: size(logits)
    ),
    "CrossEntropyBackward": (
        lambda grad, logits, target, lse, ignore_index, label_smoothing, reduction, *, out: size(logits)
    ),
}


def bind(op, sizes, dtypes):
    kinds = [p.kind for p in backend.OPS[op].params]

    def convert(x, kind):
        if isinstance(x, backend.DeviceTensor):
            if x.dtype.name not in dtypes:
                raise UnsupportedDtypeError(f"{op} does not take {x.dtype.name}", op=op, device=x.device)
            x = x.ptr
        elif isinstance(x, tuple):
            return (ctypes.c_int64 * len(x))(*(convert(item, None) for item in x))
        elif x is None or isinstance(x, str):
            return x and x.encode()
        elif isinstance(x, DType):
            x = code(x)
        return ctypes.c_double(x) if kind == "scalar" or isinstance(x, float) else ctypes.c_int64(x)

    @functools.wraps(sizes)  # so that core sees its parameters
    def kernel(*args, **given):
        out = given.get("out", ())
        values = (*args, *(out if isinstance(out, tuple) else (out,)), *sizes(*args, **given))
        if getattr(Runtime.lib, f"ptr_{op}")(
            *itertools.starmap(convert, itertools.zip_longest(values, kinds))
        ):
            raise IndexError(f"{op}: index out of range")

    return kernel


def register_kernels():
    for table, dtypes in ((FLOAT32, ("float32",)), (BOTH, DTYPES)):
        for op, sizes in table.items():
            backend.register_kernel(TYPE, op, bind(op, sizes, dtypes))
    for op, kernel in backend.NO_OP_KERNELS.items():
        backend.register_kernel(TYPE, op, kernel)


def register_runtime():
    backend.register_device_guard_impl(TYPE, Runtime())


def register_backend():
    options = backend.Option("library", default="libptr.so", help="path of the compiled ptr_kernels.c")
    fields = {"register_runtime": register_runtime, "register_kernels": register_kernels}
    fields["capabilities"] = backend.Capabilities(options=(options,))
    registration = backend.PrivateUse1BackendRegistration(name="ptr", contract=(1, 0), **fields)
    backend.register_privateuse1_backend(registration)
