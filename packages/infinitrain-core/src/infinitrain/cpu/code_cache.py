"""Compiled code on disk: one file for each function and its types, written at once, checked before it is used.

Numba's own cache keeps an index beside the code. Two processes that compile at once may give one number to two files,
and a damaged file is an exception; it also does not notice that a function of another file changed.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from numba.core import caching


class CodeCache(caching.FunctionCache):
    """The cache of one function, good for one ``version`` of everything that it calls.

    The folder is Numba's choice: NUMBA_CACHE_DIR, or ``__pycache__`` beside the source, or the user's cache.
    """

    def __init__(self, fn: Callable[..., Any], version: str) -> None:
        super().__init__(fn)
        self._cache_file: Any = _Files(Path(self.cache_path), self._impl.filename_base, version)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # The version stands for the bytecode, which python -OO changes.
        types, machine, (_, closure) = super()._index_key(sig, codegen)
        return types, machine, closure

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:  # a full disk: this process has the code, the next one compiles again
            failures.append(error)

    def holds_any(self) -> bool:
        """Tell whether code of this version is there, for whatever types."""
        return bool(self._cache_file.any())


_caches: list[CodeCache] = []
failures: list[OSError] = []
"""Why code could not be kept."""


def folders() -> list[str]:
    """Return where the code of the kernels that were imported is kept."""
    return sorted({cache.cache_path for cache in _caches})


def code_cache(fn: Callable[..., Any], version: str) -> Any:
    """Return the cache of a function; one that keeps nothing where no folder can be written."""
    try:
        _caches.append(CodeCache(fn, version))
    except RuntimeError:  # Numba: no locator available
        return caching.NullCache()
    return _caches[-1]


class _Files:
    """Takes the place of Numba's index and data files; a file is a digest of version and code, then the code."""

    def __init__(self, folder: Path, name: str, version: str) -> None:
        self._folder, self._name = folder, name
        self._version = f"{numba.__version__} {version}".encode()

    def load(self, key: Any) -> Any:
        code = self._read(self._path(key))
        return None if code is None else pickle.loads(code)

    def save(self, key: Any, data: Any) -> None:
        code = caching.dumps(data)
        path = self._path(key)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            new.write_bytes(self._digest(code) + code)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)

    def flush(self) -> None:
        for path in self._folder.glob(f"{self._name}.*.nbc"):
            path.unlink(missing_ok=True)

    def any(self) -> bool:
        return any(self._read(path) is not None for path in self._folder.glob(f"{self._name}.*.nbc"))

    def _path(self, key: Any) -> Path:
        return self._folder / f"{self._name}.{sha256(repr(key).encode()).hexdigest()[:16]}.nbc"

    def _digest(self, code: bytes) -> bytes:
        return sha256(self._version + code).digest()

    def _read(self, path: Path) -> bytes | None:
        """Return the code in a file; None if it is missing, damaged or of another version."""
        try:
            found = path.read_bytes()
        except OSError:
            return None
        digest, code = found[:32], found[32:]
        return code if digest == self._digest(code) else None
