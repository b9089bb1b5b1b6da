"""Exit and fork, each in a process of its own [contract 3.8, 3.11]."""

from infinitrain.testing import run_python

STREAMS = """
import atexit, os, sys, threading
import infinitrain as it
from infinitrain.backend import *
from infinitrain.backend.guard_impl import GROUPS
from infinitrain.device import Device, DeviceType
from infinitrain.errors import *
from infinitrain.testing import HostRuntime, host_backend
ONE = DeviceType.PRIVATEUSE1
class Stream:
    handle = 1
class Streams(HostRuntime):
    fail = False
    def current_stream(self, device): return Stream
    def synchronize(self, target):
        if closing: print("drained", target)
        if self.fail: raise RuntimeError("lost device")
    def shutdown(self): print("shut down", not sys.is_finalizing())
for name in GROUPS["streams"][1:-1]:
    setattr(Streams, name, lambda self, *args: None)
closing = False
def close():
    global closing
    closing = True
impl = Streams(4)
"""


def test_exit_drains_what_was_used_and_shuts_down() -> None:
    """[contract 3.11]"""
    code = """
host_backend(impl)()
x = it.zeros(2, device="testdev:2")
y = it.zeros(2, device="testdev:2") + x
atexit.register(close)
"""
    assert run_python(STREAMS + code).splitlines() == ["drained testdev:2", "shut down True"]


def test_exit_of_an_unused_device_touches_nothing() -> None:
    """[contract 3.2, 3.11]"""
    assert run_python(STREAMS + "host_backend(impl)(); Device.parse('testdev:1')") == ""


def test_exit_shuts_down_after_a_failed_drain() -> None:
    """[contract 3.11]"""
    code = """
sys.stderr = sys.stdout
host_backend(impl)()
it.zeros(2, device="testdev:2")
impl.fail = True
"""
    assert run_python(STREAMS + code).splitlines() == [
        "infinitrain: draining backend 'testdev' failed at exit: lost device",
        "shut down True",
    ]


def test_use_after_shutdown_is_a_clear_error() -> None:
    """[contract 3.11] Exit handlers that were registered earlier run later. The CPU still serves them."""
    code = """
def late():
    print(it.zeros(1).tolist())
    for use in (lambda: it.zeros(1, device="testdev"), lambda: x + x):
        try:
            use()
        except BackendNotAvailableError as error:
            print(error)
atexit.register(late)
host_backend(impl)()
x = it.zeros(2, device="testdev")
x + x
"""
    assert run_python(STREAMS + code).splitlines() == [
        "shut down True",
        "[0.0]",
        *["device 'testdev' was shut down, as the process is exiting [contract 3.11]"] * 2,
    ]


FORK = """
def child(*uses):
    pid = os.fork()
    if pid == 0:
        for use in uses:
            try:
                print("ok", use())
            except Exception as error:
                print(type(error).__name__, str(error)[-14:])
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_fork_after_initialisation_is_detected_at_every_entry() -> None:
    """[contract 3.8] Cached plans, the current device and old tensors included."""
    code = """
host_backend(impl)()
x = it.full((2,), 1.5, device="testdev:1")
x + x
sys.stdout.flush()
child(lambda: x + x, lambda: x.tolist(), lambda: it.zeros(2, device="testdev"), lambda: current_device(ONE),
      lambda: synchronize("testdev"), lambda: DeviceGuard("testdev:1").__enter__(),
      lambda: it.zeros(1).tolist())
print((x + x).tolist())
"""
    assert run_python(STREAMS + FORK + code).splitlines() == [
        *["ForkError [contract 3.8]"] * 6,
        "ok [0.0]",
        "[3.0, 3.0]",
        "shut down True",
    ]


def test_a_fork_before_initialisation_is_fine() -> None:
    """[contract 3.8]"""
    code = """
host_backend(impl)()
sys.stdout.flush()
child(lambda: it.full((2,), 1.5, device="testdev").tolist())
"""
    assert run_python(STREAMS + FORK + code).splitlines() == ["ok [1.5, 1.5]"]


def test_host_memory_survives_a_fork() -> None:
    """[contract 3.8]"""
    code = """
host_backend(HostRuntime(), capabilities=Capabilities(host_visible=True))()
x, y = it.full((2,), 1.5, device="testdev:1"), it.full((2,), 2.5)
x + x, y + y
sys.stdout.flush()
child(lambda: (x + x).tolist(), lambda: (y + y).tolist())
"""
    assert run_python(STREAMS + FORK + code).splitlines() == ["ok [3.0, 3.0]", "ok [5.0, 5.0]"]


def test_a_fork_during_initialisation_leaves_no_lock() -> None:
    """[contract 3.8] The child has no thread that would release it."""
    code = """
entered, leave = threading.Event(), threading.Event()
class Slow(HostRuntime):
    def initialize(self, launch):
        entered.set()
        leave.wait(10)
host_backend(Slow())()
thread = threading.Thread(target=lambda: get_device_guard_impl(ONE))
thread.start()
entered.wait(10)
sys.stdout.flush()
child(lambda: get_device_guard_impl(ONE), lambda: it.zeros(1).tolist())
leave.set()
thread.join()
"""
    assert run_python(STREAMS + FORK + code).splitlines() == ["ForkError [contract 3.8]", "ok [0.0]"]
