"""`infinitrain ops` on a terminal: the table fits its width."""

from __future__ import annotations

import pytest

from infinitrain.cli import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *argv: str) -> str:
    """Return what a command line prints."""
    assert main(argv) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 140, 200, 300])
@pytest.mark.parametrize("backends", [(), ("--backend", "cpu")])
def test_on_a_terminal_the_table_fits(
    columns: int, backends: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documentation is shortened, columns are left out, ops never; piped or with --wide it is whole."""
    whole = run(capsys, "ops", *backends).splitlines()
    assert max(map(len, whole)) > 300
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(capsys, "ops", *backends).splitlines() == whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(capsys, "ops", *backends, "--wide").splitlines() == whole
    header, *lines, note = run(capsys, "ops", *backends).splitlines()
    assert max(map(len, [header, *lines])) <= columns
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in whole[1:]]
    assert note.startswith("--wide adds ")
    assert note.endswith("all of doc")
    left_out = note.removeprefix("--wide adds ").split(", ")
    if columns >= 100:
        assert sorted([*header.split(), *left_out[:-1]]) == sorted(whole[0].split())
        at = header.index("doc")
        shown = [line[at:].removesuffix("…") for line in lines]
        assert all(len(text) >= 3 and text in full for text, full in zip(shown, whole[1:], strict=True))


def test_a_terminal_that_is_wide_enough_gets_it_all(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(capsys, "ops")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "5000")
    assert run(capsys, "ops") == whole
