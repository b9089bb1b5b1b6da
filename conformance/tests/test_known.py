"""Known skips: the list has to be what did not run, neither more nor less."""

from __future__ import annotations

import pytest

from infinitrain_conformance import cli, known
from infinitrain_conformance.report import Case, Report, Result


def run(*more: tuple[str, str, str]) -> Report:
    made = Report()
    declined = [
        ("ops::test_values[Erf-odd-bfloat16]", "unsupported", "UnsupportedDtypeError: Erf: no bfloat16"),
        ("ops::test_values[Exp-odd-bfloat16]", "unsupported", "UnsupportedDtypeError: Exp: no bfloat16"),
        ("ops::test_values[Exp-odd-float32]", "passed", ""),
        ("streams::test_elapsed", "unsupported", "not offered: streams"),
        ("devices::test_guard_switches", "skipped", "needs two devices"),
    ]
    for ident, outcome, message in [*declined, *more]:
        op = ident.partition("[")[2].partition("-")[0] or None
        dtype = ident.rpartition("-")[2].rstrip("]") if op else None
        made.cases[ident] = Case(ident, "L2", "4.1", op, dtype=dtype)
        made.results[ident] = Result(ident, outcome, 0.0, message)
    return made


def test_written_list_is_right_and_grouped(tmp_path):
    path = tmp_path / "skips.toml"
    assert known.write(path, run()) == 4
    assert known.check(path, run()) == []
    text = path.read_text()
    assert text.count("[[skip]]") == 3
    assert 'reason = "UnsupportedDtypeError: the op: no bfloat16"' in text
    assert '"ops::test_values" = 2' in text


def test_growth_is_seen(tmp_path):
    path = tmp_path / "skips.toml"
    known.write(path, run())
    grown = run(("streams::test_wait", "unsupported", "not offered: streams"))
    assert known.check(path, grown) == [
        f"{path}: total = 4, 5 tests were unsupported or skipped",
        f"{path}: line 20, entry 3: streams::test_wait: 0 listed, 1 were unsupported",
    ]
    other = run(("streams::test_wait", "unsupported", "a driver without events"))
    assert known.check(path, other)[1] == (
        f"{path}: not listed: 1 unsupported: a driver without events (streams::test_wait)"
    )
    grown = run(
        ("ops::test_values[Sin-odd-bfloat16]", "unsupported", "UnsupportedDtypeError: Sin: no bfloat16")
    )
    assert "entry 1: ops::test_values: 2 listed, 3 were unsupported" in known.check(path, grown)[1]


def test_shrinking_is_seen(tmp_path):
    path = tmp_path / "skips.toml"
    known.write(path, run(("streams::test_wait", "skipped", "needs two devices")))
    problems = known.check(path, run())
    assert len(problems) == 2
    assert "streams::test_wait: 1 listed, 0 were skipped" in problems[1]


def test_a_count_that_is_not_the_sum_of_its_tests(tmp_path):
    path = tmp_path / "skips.toml"
    known.write(path, run())
    path.write_text(path.read_text().replace("count = 2", "count = 3"))
    assert known.check(path, run()) == [f"{path}: line 4, entry 1: count = 3, but its tests are 2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[skip]]\nreason = 'a'\noutcome = 'skipped'\ncount = 1\n", "entry 1: 'tests' is missing"),
        (
            "[[skip]]\nreason = 'a'\noutcome = 'skipped'\ncount = 0\ntests = {'b' = 1}\n",
            "count = 0 is no whole number from 1",
        ),
        ("totl = 3", "unknown key 'totl'; did you mean 'total'?"),
    ],
)
def test_wrong_list(tmp_path, text, said):
    path = tmp_path / "skips.toml"
    path.write_text(text)
    assert said in known.check(path, run())[0]


def test_command(tmp_path, monkeypatch, capsys):
    """Written, checked, and changed behind its back; the message ends with the command that writes it anew."""
    path = tmp_path / "skips.toml"
    monkeypatch.setattr(cli, "run", lambda *args, **kwargs: run())
    assert cli.main(["--backend", "toy", "--write_known_skips", str(path)]) == 0
    assert f"{path}: 4 tests that do not run" in capsys.readouterr().out
    assert cli.main(["--backend", "toy", "--known_skips", str(path)]) == 0
    path.write_text(path.read_text().replace("total = 4", "total = 5"))
    assert cli.main(["--backend", "toy", "--known_skips", str(path)]) == 1
    out = capsys.readouterr().out
    assert "total = 5, 4 tests were unsupported or skipped" in out
    assert f"if that is right: infinitrain-conformance --backend toy --write_known_skips {path}" in out


def test_nothing_is_compared_or_written_without_a_device(tmp_path, monkeypatch):
    made, path = run(), tmp_path / "skips.toml"
    made.no_device = "none"
    path.write_text("total = 1\n")
    monkeypatch.setattr(cli, "run", lambda *args, **kwargs: made)
    for flag in ("--known_skips", "--write_known_skips"):
        assert cli.main(["--backend", "toy", flag, str(path)]) == 6
    assert path.read_text() == "total = 1\n"
