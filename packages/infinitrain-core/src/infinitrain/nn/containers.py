"""Modules that hold modules by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .module import Module


class ModuleList(Module):
    """A list of modules, named "0", "1", ...; what is computed with them is the owner's business."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> None:
        """Add a module at the end."""
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__} holds modules, got {type(module).__name__}")
        setattr(self, str(len(self)), module)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Module]:
        return self.children()

    def __getitem__(self, index: int) -> Module:
        return tuple(self._children.values())[index]


class Sequential(ModuleList):
    """Modules called one after the other, each on the result of the one before."""

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """Return the last module's result."""
        for module in self._children.values():
            x = module(x)
        return x
