"""Two ranks' parts of a padded vocabulary, put together by hand, are cross_entropy of the whole."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend.optable import OPS
from infinitrain.errors import DtypeError, InfiniTrainError, ShapeError

FORWARD, BACKWARD = (OPS[f"VocabParallelCrossEntropy{way}"].call for way in ("Forward", "Backward"))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_together(ranks, smoothing, rng):
    """24 columns for 13 classes: of four ranks, one has nothing but padding."""
    rows, columns, classes = 10, 24, 13
    logits = rng.normal(1, 3, (rows, columns))
    target = rng.integers(0, classes, rows)
    n = columns // ranks
    own = [(r * n, logits[:, r * n : (r + 1) * n]) for r in range(ranks)]
    parts = [
        [a.numpy() for a in FORWARD(it.from_numpy(z), it.from_numpy(target), first, classes)]
        for first, z in own
    ]
    peak, total, picked, sums = (np.stack(a) for a in zip(*parts, strict=True))
    top = peak.max(0)
    lse = top + np.log((total * np.exp(peak - top)).sum(0))
    loss = lse - (1 - smoothing) * picked.sum(0) - smoothing / classes * sums.sum(0)

    whole = it.from_numpy(logits[:, :classes], requires_grad=True)
    want = it.ops.cross_entropy(whole, it.from_numpy(target), label_smoothing=smoothing)
    want.backward()
    np.testing.assert_allclose(loss.mean(), want.item(), rtol=1e-12)

    found = []
    for first, z in own:
        elsewhere = (target < first) | (target >= first + n)
        d = BACKWARD(
            it.tensor(1 / rows, dtype="float64"),
            it.from_numpy(np.exp(z - lse[:, None])),
            it.from_numpy(elsewhere),
            it.from_numpy(np.where(elsewhere, 0, target - first)),
            it.from_numpy((np.arange(first, first + n) < classes)[None]),
            *(n, classes, smoothing),
        )
        found.append(d.numpy())
    got = np.concatenate(found, 1)
    np.testing.assert_allclose(got[:, :classes], whole.grad.numpy(), rtol=1e-10, atol=1e-13)
    assert (got[:, classes:] == 0).all()


def test_ignored_targets_and_targets_out_of_range():
    z = it.ones(2, 4)
    assert FORWARD(z, it.tensor([-100, 5]), 4, 6)[2].tolist() == [0.0, 1.0]
    with pytest.raises(IndexError, match=r"target 6 at position 1 is not in 0..5"):
        FORWARD(z, it.tensor([0, 6]), 4, 6)
    with pytest.raises(ShapeError, match="first=-1, vocab_size_original=6: at least 0 and 1"):
        FORWARD(z, it.tensor([0, 1]), -1, 6)
    with pytest.raises(ShapeError, match=r"target has shape \(1,\), expected \(2,\)"):
        FORWARD(z, it.tensor([0]), 0, 6)


def test_errors_of_backward():
    def call(grad=None, p=None, mask=None, target=None, valid=None, n=4, vocabulary=6, smoothing=0.0):
        given = [
            it.ones(2) if grad is None else grad,
            it.ones(2, 4) if p is None else p,
            it.tensor([False, False]) if mask is None else mask,
            it.tensor([0, 1]) if target is None else target,
            it.tensor([True] * 4) if valid is None else valid,
        ]
        return BACKWARD(*given, n, vocabulary, smoothing)

    assert call().shape == (2, 4)
    for message, wrong in {
        r"softmax_local has shape \(2, 4\), expected \(2, 5\)": {"n": 5},
        r"grad has shape \(3,\), expected \(2,\)": {"grad": it.ones(3)},
        r"target_mask has shape \(1,\)": {"mask": it.tensor([False])},
        r"masked_target has shape \(3,\)": {"target": it.tensor([0, 1, 2])},
        r"valid_mask_local has shape \(3,\), expected \(4,\)": {"valid": it.tensor([True] * 3)},
        "vocab_size_original=0: at least 1": {"vocabulary": 0},
    }.items():
        with pytest.raises(ShapeError, match=message):
            call(**wrong)
    with pytest.raises(DtypeError, match="valid_mask_local has dtype int64, expected bool"):
        call(valid=it.tensor([1] * 4))
    with pytest.raises(InfiniTrainError, match=r"label_smoothing=2.0 is not in 0..1"):
        call(smoothing=2.0)
    with pytest.raises(IndexError, match=r"target 4 at position 1 is not in 0..3"):
        call(target=it.tensor([0, 4]))
