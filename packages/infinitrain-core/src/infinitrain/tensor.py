"""Tensor: device memory with a spec, gradients, and the methods that Python users expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import _methods
from . import dtype as dtypes
from ._methods import Scalar, TensorMethods
from .backend import storage
from .backend.arguments import check_shape
from .backend.spec import TensorSpec
from .backend.storage import DeviceTensor, empty_like_spec
from .device import CPU, Device, DeviceType
from .dtype import DType, as_dtype
from .errors import AutogradError, ShapeError

# infinitrain.autograd.backward, which is above this module; the package installs it.
run_backward: Any = None


class Tensor(TensorMethods, DeviceTensor):
    """A dense n-dimensional array on a device, with automatic differentiation.

    Make one with ``infinitrain.tensor``, ``zeros``, ``from_numpy``, ...; arithmetic, comparison, indexing and
    reductions follow NumPy (full broadcasting, several axes). Indexing copies. ``grad`` is None until a
    backward pass wrote it.

    >>> import infinitrain as it
    >>> x = it.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).mean().backward()
    >>> x.grad.tolist()
    [[0.5, 1.0], [1.5, 2.0]]
    """

    # Class-level defaults keep creation cheap: the dispatcher sets spec and array only.
    name: str | None = None
    _requires_grad = False
    _grad: Tensor | None = None  # the destination; its content counts only when not stale [contract 4.5]
    # False once it was written, by backward or assignment; None once GradScaler has unscaled what was written.
    _stale: bool | None = True
    _pinned = False  # somebody gave the destination: it is not moved
    _node: Any = None
    _index = 0
    _hooks: list[Callable[[Tensor], Tensor | None]] | None = None
    _post_hooks: list[Callable[[Tensor], None]] | None = None
    _hooked_leaves = (
        0  # how often a post-accumulate hook was registered; 0 spares backward the counting of edges
    )
    __array_priority__ = 1000  # np.float32(2) * tensor asks the tensor

    # Autograd -----------------------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._node is not None:
            raise AutogradError("requires_grad of a result cannot be set; use detach()")
        if value and not self.dtype.is_floating:
            raise AutogradError(f"only floating tensors can require grad, this one is {self.dtype}")
        self._requires_grad = bool(value)

    @property
    def is_leaf(self) -> bool:
        """True for tensors that no recorded op made."""
        return self._node is None

    @property
    def grad_fn(self) -> Any:
        """The graph node that made this tensor, or None."""
        return self._node

    @property
    def grad(self) -> Tensor | None:
        """The gradient: None before the first backward and after ``zero_grad``. Its memory is reused."""
        return None if self._stale else self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        """None marks the gradient stale, as ``zero_grad`` does; a tensor becomes the gradient and its destination."""
        if value is None:
            self._stale = True
            return
        if not isinstance(value, Tensor):
            raise TypeError(f"grad is a Tensor or None, got {type(value).__name__} {value!r:.60}")
        if value.shape != self.shape or value.device is not self.device or not value.dtype.is_floating:
            raise ShapeError(
                f"grad is {value.spec}, the tensor {self.spec}: shape and device are to be equal"
            )
        self._grad, self._stale = value, False

    def set_grad_destination(self, destination: Tensor) -> None:
        """Let gradients land in ``destination`` (same shape and device), such as a view of a flat buffer.

        It is stale at first, and stays the destination: ``grad = None`` and optimizers leave it where it is.
        """
        self.grad = destination
        self._stale = True
        self._pinned = True

    def _new_grad(self) -> Tensor:
        self._grad = empty_like_spec(self.spec)
        self._stale = True
        return self._grad

    def zero_grad(self) -> None:
        """Mark the gradient stale; no memory is touched [contract 4.5]."""
        self._stale = True

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add this tensor's gradients to the leaves it depends on; see ``autograd.backward``."""
        if create_graph:
            raise AutogradError(
                "create_graph=True is not supported yet: gradients of gradients need differentiable backwards"
            )
        run_backward(self, gradient, retain_graph)

    def detach(self) -> Tensor:
        """Return a tensor over the same memory, outside the graph."""
        view: Tensor = self.view_as(self.spec)
        return view

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call ``hook(grad)`` once per backward, when this tensor's whole gradient is there.

        What it returns, unless None, replaces the gradient. The gradient may be shared with other tensors: a hook
        does not change it in place.
        """
        if not self._requires_grad:
            raise AutogradError("register_hook on a tensor that does not require grad")
        if self._node is None:
            self._hooks = self._hooks or []
            Tensor._hooked_leaves += 1
            return Handle(self._hooks, hook, lambda: setattr(self, "_hooks", self._hooks or None))
        self._node._hooks = self._node._hooks or []
        return Handle(self._node._hooks, (self._index, hook))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call ``hook(tensor)`` once per backward, after the last contribution to this leaf's gradient."""
        if not self._requires_grad or self._node is not None:
            raise AutogradError("a post-accumulate hook is for leaves that require grad")
        self._post_hooks = self._post_hooks or []
        Tensor._hooked_leaves += 1
        return Handle(self._post_hooks, hook)

    # Host interchange ---------------------------------------------------------------------------------------
    def numpy(self) -> np.ndarray:
        """Return a NumPy copy (bfloat16 by ml_dtypes)."""
        if self.device.type is DeviceType.CPU:
            return np.array(self.array)
        raw = bytearray(self.nbytes)
        storage.read_bytes(self, memoryview(raw))
        return np.frombuffer(raw, self.dtype.numpy, self.numel).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a Tensor cannot be seen as a NumPy array without a copy; use numpy()")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def item(self) -> Scalar:
        """Return the only element as a Python number; waits for the device."""
        if self.numel != 1:
            raise ShapeError(f"item() needs one element, the tensor has shape {list(self.shape)}")
        value: Scalar = self.numpy().reshape(()).item()
        return value

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.numel != 1:
            raise ValueError(
                "the truth of a tensor with several elements is ambiguous; compare an item or a reduction"
            )
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating:
            raise TypeError(f"a {self.dtype} tensor is no index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        from ._repr import tensor_repr

        return tensor_repr(self)

    __hash__ = object.__hash__

    def __reduce__(self) -> Any:
        raise TypeError("tensors are not pickled; save them with safetensors, or send .numpy()")

    # Placement ----------------------------------------------------------------------------------------------
    def to(self, target: Device | DType | str) -> Tensor:
        """Return this tensor on another device or in another dtype; itself when nothing changes.

        Differentiable.
        """
        if isinstance(target, DType) or (isinstance(target, str) and target in _DTYPE_NAMES):
            return self.astype(target)
        device = Device.parse(target)
        moved: Tensor = self if device is self.device else _methods.ops.to_device(self, device)
        return moved

    def astype(self, dtype: DType | str) -> Tensor:
        """Return this tensor in another dtype; itself when nothing changes. Differentiable."""
        wanted = as_dtype(dtype)
        return self if wanted is self.dtype else _methods.ops.cast(self, wanted)

    def cpu(self) -> Tensor:
        """Return this tensor on the CPU."""
        return self.to(CPU)

    def float(self) -> Tensor:
        """Return this tensor as float32."""
        return self.astype("float32")

    def clone(self) -> Tensor:
        """Return a copy. Differentiable."""
        return _methods.ops.clone(self)

    def contiguous(self) -> Tensor:
        """Return itself: tensors are always dense."""
        return self

    def new_full(self, shape: Sequence[int], value: Scalar) -> Tensor:
        """Return a tensor of this dtype and device filled with ``value``."""
        sizes = _methods.shape_of((shape,), "new_full")
        check_shape("new_full", sizes, self.dtype)
        made: Tensor = empty_like_spec(TensorSpec.of(sizes, self.dtype, self.device))
        _methods.ops.Fill(made, _methods.ops.element("new_full: value", value, made))
        return made

    # In place: outside the graph only -----------------------------------------------------------------------
    def _writable(self, what: str, source: Any = None) -> None:
        recording = _methods.ops.is_grad_enabled()
        instead = "the op without _"
        if what.startswith("x["):
            instead = "x.masked_fill(mask, value) or ops.where(mask, value, x), which return a new tensor"
        if self._node is not None:
            raise AutogradError(f"{what} changes a tensor that the graph needs; use {instead}, or detach()")
        if self._requires_grad and recording:
            raise AutogradError(
                f"{what} changes a tensor that the graph needs; use no_grad(), detach(), or {instead}"
            )
        if recording and isinstance(source, Tensor) and source._requires_grad:
            raise AutogradError(
                f"{what} would drop the graph of what it reads; use no_grad(), detach(), or {instead}"
            )

    def fill_(self, value: Scalar) -> Tensor:
        """Set every element."""
        self._writable("fill_")
        _methods.ops.Fill(self, _methods.ops.element("fill_: value", value, self))
        return self

    def zero_(self) -> Tensor:
        """Set every element to 0."""
        return self.fill_(0)

    def copy_(self, source: Tensor | np.ndarray) -> Tensor:
        """Copy elements of equal shape from any device and dtype."""
        self._writable("copy_", source)
        source = source if isinstance(source, Tensor) else _methods.ops.from_numpy(np.asarray(source))
        if source.shape != self.shape:
            raise ShapeError(f"copy_: source has shape {list(source.shape)}, the tensor {list(self.shape)}")
        with _methods.ops.no_grad():
            storage.copy_between(self, source.astype(self.dtype))
        return self

    def add_(self, other: Tensor, alpha: Scalar = 1.0) -> Tensor:
        """Add ``alpha * other`` (equal shape)."""
        self._writable("add_", other)
        _methods.ops.AccumulateGrad(other, _methods.ops.real("add_: alpha", alpha), self)
        return self


class Handle:
    """What registering a hook returns; ``remove()`` takes the hook away (again: nothing happens)."""

    def __init__(self, hooks: list[Any], hook: Any, after: Callable[[], Any] | None = None) -> None:
        self._hooks, self._hook, self._after = hooks, hook, after
        hooks.append(hook)

    def remove(self) -> None:
        for i, hook in enumerate(self._hooks):
            if hook is self._hook:
                del self._hooks[i]
                break
        if self._after is not None:
            self._after()


_DTYPE_NAMES = frozenset(d.name for d in dtypes.ALL)


storage.tensor_class = Tensor
