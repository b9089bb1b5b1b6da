"""Token files in llm.c's format.

    offset 0     int32   magic: 20240520 (uint16 tokens) or 20240801 (uint32 tokens)
    offset 4     int32   version
    offset 8     int32   number of tokens
    ...                  zeros up to byte 1024
    offset 1024          the tokens

All numbers are little-endian. Files are mapped, not read: a file larger than memory works.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DataError
from .files import atomic_write

HEADER_BYTES = 1024
_VERSION = 1
_VERSIONS = {20240520: (1,), 20240801: (1, 7)}  # llm.c writes 7 for the second, in the same format
_DTYPES: dict[int, np.dtype[Any]] = {20240520: np.dtype("<u2"), 20240801: np.dtype("<u4")}
_MAGICS = {dtype: magic for magic, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class TokenHeader:
    """The first 1024 bytes of a token file: `dtype` is uint16 or uint32, `count` the number of tokens."""

    dtype: np.dtype[Any]
    version: int
    count: int


def read_header(path: str | os.PathLike[str]) -> TokenHeader:
    """Return the header of a token file after checking it against the size of the file.

    Raises:
        DataError: the file cannot be read, is no token file, or is shorter or longer than its header says.
    """
    try:
        # Looked at before it is opened: opening a pipe would wait for a writer.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise DataError(f"{_show(path)} is a folder or a device, not a file")
        with Path(path).open("rb") as file:
            raw = file.read(HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DataError(f"cannot read token file {_show(path)}: {error.strerror or error}") from error
    if size == 0:
        raise DataError(f"token file {_show(path)} is empty")
    if len(raw) >= 4 and _magic(raw) not in _DTYPES:
        raise DataError(
            f"{_show(path)} is not a token file: it starts with the number {_magic(raw)}, expected one of "
            f"{', '.join(map(str, _DTYPES))}{_swapped_hint(raw)}"
        )
    if len(raw) < HEADER_BYTES:
        raise DataError(
            f"token file {_show(path)} is cut off: {size} bytes, the header alone takes {HEADER_BYTES}"
        )
    magic, version, count = np.frombuffer(raw, dtype="<i4", count=3).tolist()
    if version not in _VERSIONS[magic]:
        known = " or ".join(map(str, _VERSIONS[magic]))
        raise DataError(f"token file {_show(path)} has format version {version}, only {known} is known")
    header = TokenHeader(_DTYPES[magic], version, count)
    _check_size(path, header, size)
    return header


def read_tokens(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Return the tokens of a file, shape (count,), uint16 or uint32, mapped read-only into memory.

    Raises:
        DataError: as `read_header`.
    """
    header = read_header(path)
    return np.memmap(path, dtype=header.dtype, mode="r", offset=HEADER_BYTES, shape=(header.count,))


def write_tokens(
    path: str | os.PathLike[str], tokens: npt.ArrayLike, dtype: npt.DTypeLike | None = None
) -> None:
    """Write `tokens`, shape (n,) of any integer type, as a token file. `path` is complete or not changed.

    Without a `dtype` the tokens are stored as uint16 where they fit, else as uint32. Tell it to get the same
    type for several files of one data set, whatever their largest token is.

    Raises:
        DataError: no tokens, not one-dimensional, not integers, a token that does not fit, or too many.
        OSError: the folder is missing or not writable, or the disk is full.
    """
    values = np.asarray(tokens)
    if values.ndim != 1 or values.size == 0 or values.dtype.kind not in "iu":
        raise DataError(
            f"tokens must be a non-empty row of integers, got shape {values.shape}, {values.dtype}"
        )
    if values.size > np.iinfo(np.int32).max:
        raise DataError(
            f"{values.size} tokens do not fit into one token file (at most 2**31 - 1); write several"
        )
    low, high = int(values.min()), int(values.max())
    stored = np.dtype(dtype if dtype is not None else (np.uint16 if high <= 0xFFFF else np.uint32))
    stored = stored.newbyteorder("<")
    if stored not in _MAGICS:
        raise DataError(f"token files hold uint16 or uint32, not {stored}")
    if low < 0 or high > np.iinfo(stored).max:
        bad = low if low < 0 else high
        position = int(np.argmax(values == bad))
        raise DataError(f"token {bad} at position {position} does not fit into {stored.name}")
    header = np.zeros(HEADER_BYTES // 4, dtype="<i4")
    header[:3] = _MAGICS[stored], _VERSION, values.size
    with atomic_write(path) as file:
        file.write(header.tobytes())
        file.write(np.ascontiguousarray(values, dtype=stored).data)


def _check_size(path: str | os.PathLike[str], header: TokenHeader, size: int) -> None:
    if header.count <= 0:
        raise DataError(f"token file {_show(path)} says that it holds {header.count} tokens; write it again")
    expected = HEADER_BYTES + header.count * header.dtype.itemsize
    if size < expected:
        present = (size - HEADER_BYTES) // header.dtype.itemsize
        raise DataError(
            f"token file {_show(path)} is cut off: its header says {header.count} tokens, "
            f"it holds {present}; copy or write it again"
        )
    if size > expected:
        raise DataError(
            f"token file {_show(path)} has {size - expected} bytes after its {header.count} tokens of "
            f"{header.dtype.itemsize} bytes; it is damaged or its header is wrong"
        )


def _magic(raw: bytes) -> int:
    return int.from_bytes(raw[:4], "little", signed=True)


def _swapped_hint(raw: bytes) -> str:
    return " (its bytes are in big-endian order)" if int.from_bytes(raw[:4], "big") in _DTYPES else ""


def _show(path: str | os.PathLike[str]) -> str:
    return f"'{Path(path)}'"
