"""The catalogue: complete entries, names, several faults at once, and no cost without them."""

import re
import subprocess
import sys

import pytest

from infinitrain.errors import BackendInitError
from infinitrain_fake.faults import FAULTS, parse


def test_entries_are_complete():
    assert len(FAULTS) >= 24
    for name, fault in FAULTS.items():
        assert fault.name == name
        assert re.fullmatch(r"[a-z0-9_]+", name)
        assert re.fullmatch(r"[1-9]\.[0-9]+", fault.clause)
        assert fault.level in ("L0", "L1", "L2", "L3")
        assert fault.description.endswith(".")
        assert (fault.op is None) is (fault.kind != "kernels")


def test_a_list_of_names():
    assert parse(" wait_no_effect, h2d_truncated,") == ("wait_no_effect", "h2d_truncated")
    assert parse("") == ()
    with pytest.raises(BackendInitError, match="Known: accumulate_ignores_rate, "):
        parse("wait_no_effect,zzz")


def test_two_faults_at_once(fake):
    import infinitrain as it

    runtime = fake("fill_skips_last,ptr_misaligned")
    x = it.full((3,), 2.0, device="fake")
    assert x.ptr % 64 == 4
    assert str(x.tolist()) == "[2.0, 2.0, nan]"
    assert runtime.describe(x.device).endswith("with planted faults fill_skips_last, ptr_misaligned")


def test_without_a_fault_nothing_of_it_is_loaded():
    code = (
        "import sys, infinitrain as it, infinitrain_fake\n"
        "infinitrain_fake.register_backend()\n"
        "it.ones(2, device='fake')\n"
        "print([m for m in sys.modules if m.startswith('infinitrain_fake.faults')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
