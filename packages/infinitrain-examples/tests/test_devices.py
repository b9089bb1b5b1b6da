"""The same training on two devices gives the same losses, and every device gives the same losses twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = "import sys; from infinitrain_examples.gpt2 import main; sys.exit(main(sys.argv[1:]))"
SIZE = (
    "--n_layer", "2", "--n_embd", "32", "--n_head", "2", "--batch_size", "4", "--sequence_length", "16",
    "--num_iteration", "20", "--val_loss_every", "10", "--text_length", "0",
)  # fmt: skip


def losses(folder: Path, device: str) -> list[tuple[float, float | None]]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *SIZE, "--device", device, "--run_dir", str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [(row["train_loss"], row.get("val_loss")) for row in rows]


@pytest.mark.multiproc
def test_fake_gives_the_cpus_losses_over_20_steps(tmp_path: Path) -> None:
    """Found by its entry point, like any provider; losses to 1e-5, and the CPU's twice to the bit."""
    cpu = losses(tmp_path / "cpu", "cpu")
    fake = losses(tmp_path / "fake", "fake:1")
    assert len(cpu) == len(fake) == 20
    for (a, va), (b, vb) in zip(cpu, fake, strict=True):
        assert a == pytest.approx(b, abs=1e-5)
        assert (va is None) == (vb is None)
        assert va is None or va == pytest.approx(vb, abs=1e-5)
    assert losses(tmp_path / "again", "cpu") == cpu
