"""Module: parameters, buffers and children by name, in the order of assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..backend import storage
from ..backend.spec import TensorSpec
from ..device import CPU, Device
from ..dtype import DType, as_dtype, float32
from ..tensor import Handle, Tensor
from .init import Distribution, fill_from_generator, is_deferred
from .parameter import Parameter
from .placement import move
from .state import load_state, read_state

Self = TypeVar("Self", bound="Module")
PreHook = Callable[["Module", tuple[Any, ...]], Any]
PostHook = Callable[["Module", tuple[Any, ...], Any], Any]


class Module:
    """Base of all layers and models: define ``forward``, call the module.

    Parameters and modules that are assigned to attributes are registered under the attribute's name, in that
    order, and everything below is named by its path: ``transformer.h.0.attn.c_attn.weight``.

    >>> from infinitrain import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         self.hidden = nn.Linear(2, 3)
    ...         self.out = nn.Linear(3, 1, bias=False)
    >>> [name for name, _ in Net().named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight']
    """

    training: bool
    declared: dict[str, Distribution]
    """Own parameter -> distribution of its first values; see ``infinitrain.nn.init``."""
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _children: dict[str, Module]
    _transient: set[str]
    _pre_hooks: list[PreHook]
    _post_hooks: list[PostHook]
    _path: str | None
    """What ``nn.name_paths`` said; modules that draw random numbers need it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # Here rather than in __init__, so that a subclass need not call super().__init__() before it assigns.
        self = object.__new__(cls)
        self.__dict__.update(
            training=True, declared={}, _parameters={}, _buffers={}, _children={}, _transient=set(),
            _pre_hooks=[], _post_hooks=[], _path=None,
        )  # fmt: skip
        return self

    # Calling ------------------------------------------------------------------------------------------------
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's result."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._pre_hooks and not self._post_hooks:
            return self.forward(*args, **kwargs)
        for pre in tuple(self._pre_hooks):
            changed = pre(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for post in tuple(self._post_hooks):
            changed = post(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(self, hook: PreHook) -> Handle:
        """Call ``hook(module, args)`` before each forward.

        What it returns, unless None, replaces the arguments.
        """
        return Handle(self._pre_hooks, hook)

    def register_forward_hook(self, hook: PostHook) -> Handle:
        """Call ``hook(module, args, result)`` after each forward.

        What it returns, unless None, replaces the result.
        """
        return Handle(self._post_hooks, hook)

    # Registration -------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._register(self._parameters, name, value)
        elif isinstance(value, Module):
            self._register(self._children, name, value)
        elif name in self._buffers and (value is None or isinstance(value, Tensor)):
            self._buffers[name] = value
        elif name in self._parameters and value is None:
            self._parameters[name] = None
        elif name in self._parameters or name in self._children:
            kind = "nn.Parameter" if name in self._parameters else "nn.Module"
            raise TypeError(
                f"{type(self).__name__}.{name} is an {kind}, a {type(value).__name__} is none; "
                f"assign an {kind}, or delete the attribute first"
            )
        else:
            self._forget(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._forget(name)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Assign a parameter under a name that may be computed; None keeps the name's place."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise TypeError(
                f"{name!r} is no Parameter but a {type(parameter).__name__}; wrap it in nn.Parameter"
            )
        self._register(self._parameters, name, parameter)
        object.__setattr__(self, name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Assign a tensor that moves with the module and, if persistent, is in its state dict, but is not
        trained.
        """
        self._register(self._buffers, name, tensor)
        object.__setattr__(self, name, tensor)
        if not persistent:
            self._transient.add(name)

    def declare(
        self,
        name: str,
        shape: Sequence[int],
        distribution: Distribution,
        *,
        device: Device | str = CPU,
        dtype: DType | str = float32,
    ) -> None:
        """Make parameter ``name`` and say how its first values are distributed.

        They are drawn from the device's default generator, or not at all inside ``init.deferred()``.
        """
        made = storage.empty_like_spec(TensorSpec.of(tuple(shape), as_dtype(dtype), Device.parse(device)))
        if not is_deferred():
            fill_from_generator(made, distribution)
        setattr(self, name, Parameter(made))
        self.declared[name] = distribution

    def _register(self, kind: dict[str, Any], name: str, value: Any) -> None:
        if not name or "." in name:
            raise ValueError(f"{type(self).__name__}: {name!r} cannot be a name: it is empty or has a dot")
        if name not in kind:
            if name not in self.__dict__ and hasattr(type(self), name):
                raise ValueError(
                    f"{type(self).__name__}: {name!r} would hide the class's own attribute of that name"
                )
            self._forget(name)
        kind[name] = value

    def _forget(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._children, self.declared):
            kind.pop(name, None)
        self._transient.discard(name)

    # What is inside -----------------------------------------------------------------------------------------
    def named_modules(
        self, prefix: str = "", *, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (path, module) for this module (path "") and all below it, each module once unless told
        otherwise.
        """
        yield from _walk(self, prefix, set() if remove_duplicate else None)

    def modules(self) -> Iterator[Module]:
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the modules directly below."""
        return iter(tuple(self._children.items()))

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below."""
        return iter(tuple(self._children.values()))

    def named_parameters(
        self, prefix: str = "", *, recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (path, parameter).

        A parameter with several paths comes once, under the first, unless told otherwise.
        """
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self) -> Iterator[Parameter]:
        """Yield each parameter once."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(
        self, prefix: str = "", *, recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, buffer), as ``named_parameters``."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self) -> Iterator[Tensor]:
        """Yield each buffer once."""
        return (buffer for _, buffer in self.named_buffers())

    def _named(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = (
            self.named_modules(prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        )
        for path, module in modules:
            for name, tensor in getattr(module, kind).items():
                if tensor is not None and not (remove_duplicate and id(tensor) in seen):
                    seen.add(id(tensor))
                    yield f"{path}.{name}" if path else name, tensor

    # Changing all of it -------------------------------------------------------------------------------------
    def train(self: Self, mode: bool = True) -> Self:
        """Set ``training`` here and below; return the module."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """The same as ``train(False)``."""
        return self.train(False)

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn`` on all modules, children first; return the module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def to(self: Self, *targets: Device | DType | str) -> Self:
        """Move parameters and buffers to a device, a dtype (floating ones only), or both; return the module.

        The parameters stay the same objects, so ties, hooks and optimizers stay valid; gradients move along.
        Nothing changes when the device does not exist or its memory does not suffice.
        """
        move([t for m in self.modules() for t in (*m._parameters.values(), *m._buffers.values())], targets)
        return self

    def requires_grad_(self: Self, value: bool = True) -> Self:
        """Freeze (False) or unfreeze all parameters; return the module."""
        for parameter in self.parameters():
            parameter.requires_grad = value
        return self

    def zero_grad(self) -> None:
        """Mark all gradients stale; no memory is touched [contract 4.5]."""
        for parameter in self.parameters():
            parameter.zero_grad()

    # State --------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Tensor]:
        """Return path -> tensor for parameters and persistent buffers: views of their memory, not copies.

        A tied parameter appears under each of its paths.
        """
        return read_state(self)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Copy ``state`` (path -> Tensor or NumPy array) into parameters and buffers.

        Everything is checked before anything is written. Shapes and dtypes must be equal; with ``strict``
        there may be no missing and no unexpected paths either. One path of a tied parameter is enough; two
        must hold equal values. Raises StateDictError, which lists all problems.
        """
        load_state(self, state, strict)

    # For people ---------------------------------------------------------------------------------------------
    def extra_repr(self) -> str:
        """Return what ``repr`` shows inside the parentheses."""
        return ""

    def __repr__(self) -> str:
        name, extra = type(self).__name__, self.extra_repr()
        if not self._children:
            return f"{name}({extra})"
        lines = [f"  ({key}): " + repr(child).replace("\n", "\n  ") for key, child in self._children.items()]
        return "\n".join([f"{name}({extra}", *lines, ")"])


def _walk(module: Module, prefix: str, seen: set[int] | None) -> Iterator[tuple[str, Module]]:
    if seen is not None:
        if id(module) in seen:
            return
        seen.add(id(module))
    yield prefix, module
    for name, child in module.named_children():
        yield from _walk(child, f"{prefix}.{name}" if prefix else name, seen)
