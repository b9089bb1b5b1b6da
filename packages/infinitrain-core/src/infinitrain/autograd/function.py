"""Function: a differentiable op, and the graph node that remembers one call of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar

from ..backend.optable import Op
from ..backend.runtime import get_device_guard_impl
from ..device import CPU
from ..dtype import DType, float32
from ..errors import AutogradError
from ..tensor import Tensor
from .autocast import CASTING, cast_arguments
from .grad_mode import state
from .saved import keep

_sequence = count().__next__


class _Landed:
    """What a Function's backward returns for a gradient that is in its leaf's destination already."""

    def __repr__(self) -> str:
        return "LANDED"


LANDED: Any = _Landed()


class Node:
    """One recorded call, and the ``ctx`` of its Function: any attribute without a leading underscore is forward's to
    set for backward, and is gone once the graph is freed.

    ``_edges`` has one entry per argument of ``apply``: None where no gradient is wanted, else (node, result index), or
    (leaf tensor, -1); the whole is None once freed. ``_seq`` grows with creation, so that descending order is a
    topological order. ``_stream`` is where forward ran, on a device that has streams. ``_cast`` has, where autocast
    changed arguments, the dtype that each of them had before (None for the others).
    """

    __slots__ = (
        "__dict__", "__weakref__", "_cast", "_edges", "_fn", "_hooks", "_n_results", "_saved", "_seq", "_stream",
        "_unpack", "_versions",
    )  # fmt: skip
    _fn: type[Function]
    _seq: int
    _edges: Any
    _saved: tuple[Any, ...]
    _versions: list[int]
    _n_results: int
    _hooks: list[tuple[int, Callable[..., Any]]] | None
    _unpack: Callable[..., Any] | None
    _stream: tuple[Any, Any] | None
    _cast: list[DType | None] | None

    def __init__(self, edges: Any = None) -> None:
        self._edges = edges
        self._saved = ()
        self._n_results = 1
        self._hooks = self._unpack = self._stream = self._cast = None

    @property
    def name(self) -> str:
        """The name of the Function."""
        return self._fn.__name__

    def save(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward; call once, in forward. Results may be among them."""
        self._saved = tensors

    @property
    def saved(self) -> tuple[Any, ...]:
        """The saved tensors. Raises AutogradError when one was changed in place since [contract 4.10]."""
        if self._edges is None:
            raise AutogradError(FREED.format(self.name))
        saved = self._saved
        if self._unpack is not None:
            return tuple([self.saved_at(i) for i in range(len(saved))])
        for tensor, version in zip(saved, self._versions):  # noqa: B905 - made together in keep
            if tensor is not None:
                now = tensor._version
                if now is not None and now[0] != version >= 0:
                    raise self._changed(tensor, version)
        return saved

    def saved_at(self, index: int) -> Any:
        """One of the saved tensors; those that are made again or unpacked cost nothing before they are asked for."""
        if self._edges is None:
            raise AutogradError(FREED.format(self.name))
        tensor, version = self._saved[index], self._versions[index]
        if tensor is not None and self._unpack is not None:
            tensor = self._unpack(tensor)
        if tensor is not None and tensor._version is not None and tensor._version[0] != version >= 0:
            raise self._changed(tensor, version)
        return tensor

    def _changed(self, tensor: Tensor, version: int) -> AutogradError:
        now: Any = tensor._version
        return AutogradError(
            f"{self.name} saved {tensor.name or 'a tensor'} {list(tensor.shape)} for backward at "
            f"version {version}; {now[1]} has changed it since (version {now[0]}). "
            "Run backward before changing it, or change a copy [contract 4.10]"
        )

    def free(self) -> None:
        """Drop what the call kept."""
        self._saved, self._edges = (), None
        self.__dict__.clear()

    def needs(self, index: int) -> bool:
        """Tell whether argument ``index`` of ``apply`` wants a gradient."""
        return self._edges[index] is not None

    def into(self, index: int, op: Callable[..., Any], *args: Any) -> Any:
        """Run a one-result gradient op for argument ``index``, straight into a leaf's destination where there is one.

        Returns what backward returns for that argument: the gradient, LANDED, or None without running the op when no
        gradient is wanted [contract 4.5].
        """
        edge = self._edges[index]
        if edge is None:
            return None
        leaf, result = edge
        if result >= 0 or leaf._hooks is not None:
            return op(*args)
        destination = leaf._grad
        if destination is None:
            destination = leaf._new_grad()
        accumulates = bool(op.op.accumulates)  # type: ignore[attr-defined]
        if self._cast is not None and not self._lands(index, accumulates, destination):
            return op(*args)
        if leaf._stale and destination.spec is leaf.spec:
            op(*args, out=destination)
            leaf._stale = False
        elif accumulates:
            op(*args, out=destination, accumulate=not leaf._stale)
            leaf._stale = False
        else:
            return op(*args)
        return LANDED

    def into_all(self, indices: tuple[int, ...], op: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
        """As ``into`` for an op with several results, result k being the gradient of argument ``indices[k]``."""
        edges, accumulates = self._edges, op.op.accumulates_index  # type: ignore[attr-defined]
        outs: list[Tensor | None] = []
        flags: list[bool] = []
        leaves: list[Tensor] = []
        for k, index in enumerate(indices):
            edge = edges[index]
            if edge is not None and edge[1] < 0 and k in accumulates and edge[0]._hooks is None:
                leaf = edge[0]
                destination = leaf._grad if leaf._grad is not None else leaf._new_grad()
                # A leaf that is two arguments takes one result; the engine adds the other.
                if not any(taken is leaf for taken in leaves) and (
                    self._cast is None or self._lands(index, True, destination)
                ):
                    outs.append(destination)
                    flags.append(not leaf._stale)
                    leaves.append(leaf)
                    continue
            outs.append(None)
            flags.append(False)
        if not leaves:
            return op(*args)
        got = op(*args, out=tuple(outs), accumulate=tuple(flags))
        for leaf in leaves:
            leaf._stale = False
        return tuple([g if out is None else LANDED for g, out in zip(got, outs, strict=True)])

    def _lands(self, index: int, accumulates: bool, destination: Any) -> bool:
        """Tell whether the gradient of an argument that autocast may have cast can be written into a destination.

        It is in the lower dtype: an op that accumulates adds it to float32 unrounded, others are the engine's to cast.
        """
        cast = self._cast
        return cast is None or cast[index] is None or (accumulates and destination.dtype is float32)


FREED = (
    "{}: the graph was freed by an earlier backward; give retain_graph=True there to walk it again, "
    "or run the forward again"
)


class _NoGraph(Node):
    """The ctx of calls that are not recorded: saving costs nothing and keeps nothing."""

    __slots__ = ()

    def save(self, *tensors: Tensor | None) -> None:
        pass

    def needs(self, index: int) -> bool:
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        pass


_NO_GRAPH: Node = _NoGraph()


_POLICIES = ("keep", *CASTING, "inside")


class Function:
    """A differentiable op: ``forward(ctx, *args)`` returns a tensor or a tuple, ``backward(ctx, *grads)`` one gradient
    (or None) per argument of forward.

    Tensors are passed flat, never inside lists. Forward calls ops of the table and saves what backward needs with
    ``ctx.save``; both run without recording. A gradient may be shared with other nodes: backward does not change it in
    place. Call a Function with ``apply``.

    >>> import infinitrain as it
    >>> class Double(it.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x + x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2.0
    >>> x = it.tensor([1.0, 3.0], requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 2.0]

    A Function of an op of the table names its forward row, ``class Linear(Function, op=LinearForward)``, which says how
    autocast treats it [contract 5.1].

    Autocast is off inside forward, as it is inside backward, so that ops in both see the dtypes that forward was given.
    In a region a Function of yours gets its arguments as they are; ``class Mine(Function, autocast="lower")`` gets
    floating tensors in the region's dtype, and ``autocast="float32"`` in float32, while gradients keep the dtypes of
    what ``apply`` was given. ``autocast="inside"`` leaves autocast on in forward, arguments as they are, for a Function
    that runs its forward again in backward: see ``ComputeContext``, which brings the region back there [contract 5.3].
    """

    row: ClassVar[Op | None] = None
    _policy: ClassVar[str | None] = "keep"  # of autocast's; None leaves it on in forward

    def __init_subclass__(
        cls, *, op: Callable[..., Any] | None = None, autocast: str | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if op is not None:
            cls.row = op.op  # type: ignore[attr-defined]
            cls._policy = cls.row.autocast
        if autocast is not None:
            if autocast not in _POLICIES or cls.row is not None:
                raise ValueError(
                    f"{cls.__name__}: autocast= is one of {', '.join(_POLICIES)}, for a Function without op=, got "
                    f"{autocast!r} [contract 5.3]"
                )
            cls._policy = None if autocast == "inside" else autocast

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        raise NotImplementedError("a Function defines forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError("a Function defines backward(ctx, *grads)")

    rebuild: ClassVar[Any] = None
    """A static method ``rebuild(ctx, index)`` that makes result ``index`` again from what forward saved, cheaply. Where
    another call saves a large result, it keeps this node instead, and the result's memory goes after its last use.
    """
    rebuilt_from: ClassVar[int] = 0
    """Which of the saved tensors that takes; it must be there, not to be made again itself."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward and, when grad mode is on and an argument requires grad, record it."""
        given, cast, region = args, None, None
        if state.autocast is not None and cls._policy is not None:
            region = state.autocast
            if cls._policy in CASTING:
                given, cast = cast_arguments(region, cls._policy, args)
        if not state.enabled:
            try:
                if region is not None:
                    state.autocast = None
                return cls.forward(_NO_GRAPH, *given)
            except AttributeError as error:
                raise cls._misuse(given) or error from None
            finally:
                if region is not None:
                    state.autocast = region
        edges = [
            None
            if not isinstance(a, Tensor) or not a._requires_grad
            else ((a, -1) if a._node is None else (a._node, a._index))
            for a in args
        ]
        recorded = any(edges)
        ctx = Node(edges) if recorded else _NO_GRAPH
        state.enabled = False
        try:
            if region is not None:
                state.autocast = None
            result = cls.forward(ctx, *given)
        except AttributeError as error:
            raise cls._misuse(given) or error from None
        finally:
            state.enabled = True
            if region is not None:
                state.autocast = region
        if not recorded:
            return result
        if cast is not None:
            ctx._cast = cast
        ctx._fn = cls
        ctx._seq = _sequence()
        if result.__class__ is tuple:
            result = tuple([_own(r, given) for r in result])
            ctx._n_results = len(result)
            keep(ctx, result)
            for index, r in enumerate(result):
                _attach(r, ctx, index)
            return result
        for a in given:
            if a is result:  # an argument must not become this call's result
                result = _own(result, given)
        if ctx._saved:
            keep(ctx, (result,))
        spec = result.spec
        if spec.is_floating:
            result._node = ctx
            result._requires_grad = True
        if spec.device is not CPU:  # which has no streams
            ctx._stream = _stream_of(spec.device)
        return result

    @classmethod
    def _misuse(cls, args: tuple[Any, ...]) -> TypeError | None:
        """Return the error that names the argument that should have been a tensor, if there is one."""
        for p, a in zip(cls.row.params if cls.row else (), args, strict=False):
            if p.kind == "tensor" and not isinstance(a, Tensor):
                return TypeError(f"{cls.__name__}: {p.name} is a Tensor, got {type(a).__name__} {a!r:.60}")
        return None


def _own(result: Any, args: tuple[Any, ...]) -> Any:
    """Return a result of forward, or an alias where it is an argument."""
    return result.view_as(result.spec) if any(result is a for a in args) else result


def _attach(result: Any, ctx: Node, index: int) -> None:
    """Make a tensor one of several results of the call."""
    if result.spec.is_floating:
        result._node, result._index, result._requires_grad = ctx, index, True
    if result.spec.device is not CPU:
        ctx._stream = _stream_of(result.spec.device)


def _stream_of(device: Any) -> tuple[Any, Any] | None:
    runtime = get_device_guard_impl(device.type)
    return (device, runtime.current_stream(device)) if runtime.has_streams else None
