"""Dependencies point one way: a module imports, when it is loaded, nothing from a layer above its own."""

from __future__ import annotations

import ast
from pathlib import Path

import infinitrain

ROOT = Path(infinitrain.__file__).parent
LAYERS = (
    ("errors", "data", "__about__", "philox"),
    ("dtype", "masks"),
    ("device",),
    ("backend",),
    ("_methods", "_repr"),
    ("tensor",),
    ("random",),
    ("autograd",),
    ("kernels", "cpu"),
    ("ops", "creation"),  # ops ends by importing creation, which needs Fill
    ("gradcheck", "testing"),
    ("nn",),
    ("optim",),
    ("cli", "__main__"),
)
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}


def imported(path: Path) -> set[str]:
    """Return the parts of infinitrain that a file imports at module level."""
    package = path.relative_to(ROOT).parent.parts
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            target = (*base, *(node.module or "").split(".")) if node.module else base
            found |= {target[0]} if target else {alias.name for alias in node.names}
    return found


def test_imports_point_downwards() -> None:
    wrong = []
    files = [p for p in ROOT.rglob("*.py") if p.name != "__init__.py" or p.parent != ROOT]
    for path in files:
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert part in HEIGHT, f"{part} has no layer: add it where it belongs"
        wrong += [
            f"{path.relative_to(ROOT)} imports {other}"
            for other in imported(path)
            if HEIGHT.get(other, -1) > HEIGHT[part]
        ]
    assert not wrong
    assert len(files) > 50
