"""The ops that are compared with PyTorch's, and the processes in which contenders run."""

from __future__ import annotations

import numpy as np
import pytest
from _pairs import EXCUSED, PAIRS, unmeasured
from _pairs_ours import Program
from _pairs_timing import _digest, differ
from _shapes import gpt2
from _worker import Worker, WorkerError

from infinitrain.backend import OPS

NANO = gpt2(1, 8, 2, 16, 2, 4)


def test_every_row_is_measured_or_excused() -> None:
    assert unmeasured((op.name, op.profile) for op in OPS.values()) == []
    assert set(EXCUSED) < set(OPS)
    assert {row for pair in PAIRS.values() for row in pair.rows} < set(OPS)


def test_a_row_without_a_pair_is_named() -> None:
    assert unmeasured([("NewForward", "fused"), ("AddForward", "training"), ("Other", "extra")]) == [
        "NewForward"
    ]


def test_both_programs_know_every_pair() -> None:
    assert set(Program.functions) == set(PAIRS)
    theirs = pytest.importorskip("_pairs_torch", reason="needs PyTorch")
    assert set(theirs.Program.functions) == set(PAIRS)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_run_and_give_gradients(name: str) -> None:
    program = Program(threads=1)
    digests = program.prepare(name, NANO.__dict__)
    assert all(size and np.isfinite(norm) for size, norm, _ in digests)
    times = program.time(1e-4, chain=True)
    assert ("backward" in times) == PAIRS[name].gradient == (len(digests) > 1)


def test_digests_tell_values_and_places_apart() -> None:
    values = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    swapped = values[[1, 0, 2]]
    same, other, moved = (
        [_digest(v)] for v in (values + np.float32(1e-6), values + np.float32(1e-2), swapped)
    )
    assert not differ([_digest(values)], same)
    assert differ([_digest(values)], other)
    assert differ([_digest(values)], moved)
    assert differ([_digest(values)], [_digest(values.reshape(-1)[:-1])])
    assert differ([_digest(values)], [_digest(values * np.float32(np.nan))])
    assert differ([_digest(values)], [])


@pytest.mark.multiproc
def test_a_worker_works_when_told_and_not_before() -> None:
    worker = Worker("_sgemm", {"OPENBLAS_NUM_THREADS": "1"}, {"threads": 1})
    try:
        worker.call("prepare", shape=NANO.__dict__)
        before = worker.cpu
        assert worker.call("seconds") > 0
        assert worker.cpu > before
    finally:
        worker.close()
    assert worker.process.returncode == 0


@pytest.mark.multiproc
def test_a_worker_that_fails_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    worker = Worker("_sgemm", {"OPENBLAS_NUM_THREADS": "1"}, {"threads": 1})
    with pytest.raises(WorkerError, match="_sgemm ended with status 1 in nonsense"):
        worker.call("nonsense")
    worker.close()
    assert "nonsense" in capfd.readouterr().err
