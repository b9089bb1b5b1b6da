"""Lines that scripts can read, and a bar only where a person looks on."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infinitrain_examples.console import Console, Memory, Ranks, printable, say_error, step_line

# What InfiniTrain's scripts look for in a log.
LOSS = re.compile(r"step\s+(\d+)/\d+\s+\|\s+train loss\s+([\d.]+)")
SPEED = re.compile(r"\|\s+(\d+)\s+tok/s")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_step_line_is_the_reference_line() -> None:
    line = step_line(
        1,
        10,
        loss=5.3574218,
        lr=1e-4,
        seconds=0.52311,
        tokens=256,
        memory=Memory(used=1890 * 2**20, reserved=2016 * 2**20 + 5),
    )
    assert line == (
        "step    1/10 | train loss 5.357422 | lr 1.00e-04 | (523.11 ms | 489 tok/s | peak used:  1890 MB | "
        "peak reserved:  2016 MB, DP=1, TP=1, SP=1, PP=1)"
    )
    match = LOSS.search(line)
    assert match is not None
    assert match.groups() == ("1", "5.357422")
    assert SPEED.findall(line) == ["489"]


def test_step_line_with_what_is_not_known() -> None:
    line = step_line(12345, 99999, loss=float("nan"), lr=0.0, seconds=0.0, tokens=7, ranks=Ranks(2, 3, 4, 5))
    assert line == (
        "step 12345/99999 | train loss nan | lr 0.00e+00 | (0.00 ms | 0 tok/s | peak used:   n/a MB | "
        "peak reserved:   n/a MB, DP=2, TP=3, SP=4, PP=5)"
    )


def test_piped_output_is_plain() -> None:
    stream, log = io.StringIO(), io.StringIO()
    console = Console(stream, environ={})
    console.line("before the log")
    console.log_to(log)
    console.progress(1, 10, "loss 3")
    console.line("one\ntwo\tthree")
    assert stream.getvalue() == "before the log\none\ntwo\tthree\n"
    assert log.getvalue() == "one\ntwo\tthree\n"


def test_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream, log = Terminal(), io.StringIO()
    console = Console(stream, environ={"TERM": "xterm"})
    console.log_to(log)
    console.progress(3, 10, "loss 3.141")
    shown = stream.getvalue()
    assert shown.startswith("\r\x1b[K[\x1b[36m#########\x1b[0m.....................] 3/10 loss 3.141")
    assert "\n" not in shown
    console.line("line")
    assert stream.getvalue() == shown + "\r\x1b[K" + "line\n"
    assert log.getvalue() == "line\n"


@pytest.mark.parametrize("columns", [40, 20, 8, 1])
def test_bar_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    Console(stream, environ={"NO_COLOR": "1"}).progress(3, 10, "loss 3.141")
    assert len(stream.getvalue().removeprefix("\r\x1b[K")) <= columns
    assert (stream.getvalue() == "") == (columns < 20)


def test_bar_is_not_drawn_too_often() -> None:
    stream = Terminal()
    console = Console(stream, environ={"NO_COLOR": "1"})
    for step in range(1, 1001):
        console.progress(step, 1000)
    assert "\x1b[3" not in stream.getvalue()
    assert 2 <= stream.getvalue().count("\r") < 20
    assert "] 1000/1000" in stream.getvalue()


@pytest.mark.parametrize(("progress", "environ"), [(False, {}), (True, {"TERM": "dumb"})])
def test_bar_can_be_turned_off(progress: bool, environ: dict[str, str]) -> None:
    stream = Terminal()
    Console(stream, progress=progress, environ=environ).progress(5, 10)
    assert stream.getvalue() == ""


def test_made_up_text_cannot_command_the_terminal() -> None:
    assert printable("a\x1b[2J\x07\r\x00\x7f\x9bb\n\tc é€") == r"a\x1b[2J\x07\x0d\x00\x7f\x9bb" + "\n\tc é€"
    stream = Terminal()
    Console(stream, environ={}).line("\x1b]0;title\x07")
    assert stream.getvalue() == "\\x1b]0;title\\x07\n"


def test_an_error_is_one_line_without_clauses(capsys: pytest.CaptureFixture[str]) -> None:
    say_error("prog", "not registered:\n  - one [contract 2.3]\n  - two [contract 3.1, 4.2]; a\nb\tc\x1b")
    assert capsys.readouterr().err == "prog: error: not registered: - one - two; a\\nb\\tc\\x1b\n"


def test_a_full_disk_behind_the_output_is_no_error(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full, (tmp_path / "log").open("w") as log:
        console = Console(full, environ={})
        console.log_to(log)
        console.line("one")
        console.line("two")
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_stream_that_lacks_characters() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Console(stream, environ={}).line("é\udc80x")
    assert raw.getvalue() == b"??x\n"


@pytest.mark.multiproc
def test_a_reader_that_leaves_does_not_end_the_run(tmp_path: Path) -> None:
    code = (
        "import sys; from infinitrain_examples.console import Console\n"
        "console = Console(); console.log_to(open(sys.argv[1], 'w'))\n"
        "sys.stdin.read()\n"
        "for i in range(5): console.line(str(i))\n"
    )
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", code, str(tmp_path / "log")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(os.environ)) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    assert (tmp_path / "log").read_text().split() == ["0", "1", "2", "3", "4"]
