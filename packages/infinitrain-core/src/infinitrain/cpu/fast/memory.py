"""Arrays by their address: lists of tensors, and products of matrices wherever their rows are."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _pointer(typingctx: Any, address: Any) -> Any:
    """pointer(address): an address (int64) as a pointer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), codegen


pointer: Any = intrinsic(_pointer)


def _keep(typingctx: Any, array: Any) -> Any:
    """keep(array): do nothing, after what knows its address alone; Numba would free it after its last use by name."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), codegen


keep: Any = intrinsic(_keep)
