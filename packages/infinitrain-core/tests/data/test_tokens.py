"""Token files: what is written is read back, and each kind of damage is named."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from infinitrain.data import DataError, read_header, read_tokens, write_tokens


def make_file(path: Path, magic: int, count: int, body: bytes, version: int = 1) -> Path:
    path.write_bytes(struct.pack("<3i", magic, version, count).ljust(1024, b"\0") + body)
    return path


@pytest.mark.parametrize(
    ("high", "stored", "magic"), [(50257, np.uint16, 20240520), (128256, np.uint32, 20240801)]
)
def test_round_trip(tmp_path: Path, high: int, stored: type, magic: int) -> None:
    path = tmp_path / "t.bin"
    tokens = np.random.default_rng(7).integers(0, high, size=3001)
    tokens[5] = high - 1
    write_tokens(path, tokens)
    back = read_tokens(path)
    assert back.dtype == stored
    assert np.array_equal(back, tokens)
    assert not back.flags.writeable
    raw = path.read_bytes()
    assert struct.unpack("<3i", raw[:12]) == (magic, 1, 3001)
    assert raw[12:1024] == bytes(1012)
    assert len(raw) == 1024 + 3001 * np.dtype(stored).itemsize


def test_reads_bytes_written_by_hand(tmp_path: Path) -> None:
    path = make_file(tmp_path / "t.bin", 20240520, 3, bytes([0xD0, 0x01, 0x20, 0x0E, 0xFF, 0xFF]))
    assert read_tokens(path).tolist() == [464, 3616, 65535]
    path = make_file(tmp_path / "u.bin", 20240801, 1, bytes([0xD0, 0x01, 0x02, 0x00]), version=7)
    assert read_tokens(path).tolist() == [131536]
    assert read_header(path).version == 7


@pytest.mark.parametrize(("magic", "version"), [(20240520, 0), (20240520, 7), (20240801, 2)])
def test_other_versions_are_refused(tmp_path: Path, magic: int, version: int) -> None:
    path = make_file(tmp_path / "t.bin", magic, 1, bytes(4), version=version)
    with pytest.raises(DataError, match=f"has format version {version}, only 1"):
        read_header(path)


def test_largest_uint16_and_given_dtype(tmp_path: Path) -> None:
    write_tokens(tmp_path / "a", np.array([0, 65535]))
    assert read_header(tmp_path / "a").dtype == np.uint16
    write_tokens(tmp_path / "b", np.array([0, 65536]))
    assert read_header(tmp_path / "b").dtype == np.uint32
    write_tokens(tmp_path / "c", [3, 1, 2], dtype=np.uint32)
    assert read_tokens(tmp_path / "c").tolist() == [3, 1, 2]
    assert read_header(tmp_path / "c").dtype == np.uint32
    write_tokens(tmp_path / "d", np.arange(20, dtype=np.uint16)[::3])
    assert read_tokens(tmp_path / "d").tolist() == [0, 3, 6, 9, 12, 15, 18]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"abc", "cut off: 3 bytes, the header alone takes 1024"),
        (struct.pack("<3i", 20240520, 1, 9), "cut off: 12 bytes, the header alone takes 1024"),
        (b"Once upon a time, there was a file.", "not a token file.*20240520, 20240801"),
        (struct.pack(">3i", 20240520, 1, 1).ljust(1026, b"\0"), "big-endian"),
        (struct.pack("<3i", 20240521, 1, 1).ljust(1026, b"\0"), "starts with the number 20240521"),
        (struct.pack("<3i", 20240520, 1, 0).ljust(1024, b"\0"), "holds 0 tokens"),
        (struct.pack("<3i", 20240801, 1, -4).ljust(1024, b"\0"), "holds -4 tokens"),
        (struct.pack("<3i", 20240520, 1, 5).ljust(1024, b"\0") + bytes(9), "says 5 tokens, it holds 4"),
        (struct.pack("<3i", 20240520, 1, 5).ljust(1024, b"\0") + bytes(12), "2 bytes after its 5 tokens"),
        (struct.pack("<3i", 20240801, 1, 2).ljust(1024, b"\0") + bytes(4), "says 2 tokens, it holds 1"),
    ],
)
def test_damage_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "damaged.bin"
    path.write_bytes(content)
    for read in (read_header, read_tokens):
        with pytest.raises(DataError, match=message) as error:
            read(path)
        assert "damaged.bin" in str(error.value)


def test_missing_folder_and_pipe(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read token file '.*no\.bin': No such file"):
        read_tokens(tmp_path / "no.bin")
    with pytest.raises(DataError, match="is a folder or a device"):
        read_tokens(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is a folder or a device"):
        read_tokens(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("tokens", "dtype", "message"),
    [
        ([], None, "non-empty row"),
        ([[1, 2]], None, r"shape \(1, 2\)"),
        ([1.0, 2.0], None, "float64"),
        ([4, 9, -3, 8], None, "token -3 at position 2 does not fit into uint16"),
        ([4, 70000, 8], np.uint16, "token 70000 at position 1 does not fit into uint16"),
        ([1, 2**32], None, "token 4294967296 at position 1 does not fit into uint32"),
        ([1], np.int32, "uint16 or uint32, not int32"),
    ],
)
def test_what_cannot_be_written(tmp_path: Path, tokens: list, dtype: type | None, message: str) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"precious")
    with pytest.raises(DataError, match=message):
        write_tokens(path, tokens, dtype)
    assert path.read_bytes() == b"precious"
