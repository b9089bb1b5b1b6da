"""The conformance suite, L0 to L3, on PyTorch's tensors: what core's array kernels need, two libraries have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_conformance() -> None:
    path = os.pathsep.join([str(HERE), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "infinitrain_conformance", "--backend", "torch", "--workers", "2"]
    command += ["--backend_module", "torch_provider:register_backend"]
    command += ["--known_skips", str(HERE.parent / "conformance" / "expected" / "torch.toml")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
