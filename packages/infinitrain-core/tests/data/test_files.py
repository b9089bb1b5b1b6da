"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infinitrain.data import atomic_write, discard_unfinished


def test_replaces_the_file_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")
    with atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"old")

    def interrupted_write() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_write()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


def test_a_process_that_ends_at_once_leaves_nothing(tmp_path: Path) -> None:
    writing = atomic_write(tmp_path / "x.bin")
    writing.__enter__().write(b"half")
    discard_unfinished()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        writing.__exit__(None, None, None)
    with atomic_write(tmp_path / "y.bin"):
        pass
    discard_unfinished()
    assert [p.name for p in tmp_path.iterdir()] == ["y.bin"]


def test_mode_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "x") as file:
            file.write(b"")
    finally:
        os.umask(old)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "no" / "x"):
        pass
