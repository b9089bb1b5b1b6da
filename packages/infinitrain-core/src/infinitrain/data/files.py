"""Files that are either complete or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_unfinished: set[Path] = set()


def discard_unfinished() -> None:
    """Remove the temporary files of all writes that this process has begun: it is about to end at once."""
    for temporary in tuple(_unfinished):
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that takes the place of `path` only when the block ends without an error.

    A reader sees the old content or the whole new one, also after a crash or a power cut: the bytes go to a
    temporary file in the same folder, reach the disk, and are then renamed. After an error the temporary
    file is removed and `path` is as it was.

    Raises:
        OSError: the folder is missing or not writable, or the disk is full.
    """
    target = Path(path)
    # Same folder, because a rename is atomic only within one file system. Opened by hand rather than by
    # tempfile, which would give the final file the mode 0600 instead of what the umask says.
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    _unfinished.add(temporary)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    finally:
        _unfinished.discard(temporary)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can do that (Windows cannot open folders)."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
