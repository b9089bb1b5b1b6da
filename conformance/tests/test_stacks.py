"""What is kept of faulthandler's text."""

from __future__ import annotations

from infinitrain_conformance.stacks import SHOWN, split

CRASH = """libchip: lane 3 is on fire
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait

Current thread 0x00007f02 (most recent call first):
  File "/x/my_provider/kernels.py", line 7 in gemm
  File "/x/infinitrain/backend/dispatch.py", line 70 in call
  File "/x/infinitrain_conformance/suite/test_ops.py", line 9 in test_values
  File "/x/site-packages/_pytest/python.py", line 166 in pytest_pyfunc_call
  File "/x/site-packages/pluggy/_callers.py", line 121 in _multicall
  File "/x/infinitrain_conformance/plugin.py", line 210 in loop
  File "<frozen runpy>", line 88 in _run_code

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3", at +0x1234 [0x5678]

Extension modules: numpy._core._multiarray_umath (total: 1)
"""


def test_frames_of_the_test():
    rest, stack = split(CRASH)
    assert rest == "libchip: lane 3 is on fire\n"
    assert stack == [
        "stack, the latest call first:",
        '  File "/x/my_provider/kernels.py", line 7 in gemm',
        '  File "/x/infinitrain/backend/dispatch.py", line 70 in call',
        '  File "/x/infinitrain_conformance/suite/test_ops.py", line 9 in test_values',
        "thread 2:",
        '  File "/usr/lib/python3.11/threading.py", line 320 in wait',
    ]


def test_timeout_and_its_limit():
    frames = "".join(f'  File "/x/deep.py", line {i} in f\n' for i in range(40))
    _, stack = split(f"Timeout (0:00:03)!\nThread 0x01 (most recent call first):\n{frames}")
    assert len(stack) == 1 + SHOWN
    assert stack[1].endswith("line 0 in f")


def test_nothing_to_say():
    assert split("a warning\n") == ("a warning\n", [])
