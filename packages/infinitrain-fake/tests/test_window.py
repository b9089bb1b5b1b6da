"""The window: what a kernel may reach, and what is left of an array that it kept."""

import numpy as np
import pytest

import infinitrain as it
import infinitrain_fake
from infinitrain.backend import OPS, from_array, register_kernel
from infinitrain.device import DeviceType
from infinitrain.errors import KernelError
from infinitrain.testing import temporary_backend
from infinitrain_fake.errors import DeviceMemoryError
from infinitrain_fake.memory import GUARD


@pytest.fixture
def kernel():
    """``kernel(op, fn)`` registers the fake with ``fn`` as the explicit kernel of ``op``."""
    from contextlib import ExitStack

    from infinitrain_fake import registration

    with ExitStack() as stack:

        def start(op, fn):
            right = registration.register_kernels

            def kernels():
                right()
                register_kernel(DeviceType.PRIVATEUSE1, op, fn)

            def register():
                patch = pytest.MonkeyPatch()
                with patch.context() as m:
                    m.setattr(registration, "register_kernels", kernels)
                    infinitrain_fake.register_backend()

            stack.enter_context(temporary_backend(register))

        yield start


kept = []


@pytest.fixture(autouse=True)
def forget_arrays():
    kept.clear()
    yield
    kept.clear()


def values(*shape):
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


def test_arrays_are_out_of_reach_outside_kernels(fake):
    fake()
    x = it.tensor(values(2, 3), device="fake")
    with pytest.raises(
        KernelError, match=r"native_array of buffer #\d+ \(24 bytes on fake:0.*use .numpy.*contract 3.9"
    ):
        _ = x.array
    with pytest.raises(KernelError, match="adopt outside a kernel"):
        from_array(values(2), x.device)


def test_a_kernel_reads_its_arguments_and_fills_its_destination(kernel):
    def LinearForward(x, weight, bias, *, out):
        out.array[...] = x.array @ weight.array.T + 2.0

    kernel("LinearForward", LinearForward)
    a, b = values(3, 4), values(5, 4)
    y = it.ops.linear(it.tensor(a, device="fake"), it.tensor(b, device="fake"))
    np.testing.assert_allclose(y.numpy(), a @ b.T + 2.0, rtol=1e-6)


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[1:].T, lambda a: a.reshape(-1).view(np.uint8)])
def test_an_array_kept_beyond_the_window_is_an_error_and_shows_poison(kernel, view):
    def LinearForward(x, weight, bias, *, out):
        kept.append(view(x.array))
        out.array[...] = x.array @ weight.array.T

    kernel("LinearForward", LinearForward)
    a = values(3, 4)
    x = it.tensor(a, device="fake")
    with pytest.raises(KernelError, match=r"LinearForward kept an array of buffer #\d+ \(48 bytes on fake:0"):
        it.ops.linear(x, it.tensor(values(2, 4), device="fake"))
    assert (
        (kept[0].reshape(-1).view(np.uint16) == 0x7FFF).all()
        if kept[0].flags.c_contiguous
        else np.isnan(kept[0]).all()
    )
    np.testing.assert_array_equal(x.numpy(), a)


def test_a_kept_destination_can_no_longer_change_the_device(kernel):
    def Fill(x, value):
        x.array[...] = value
        kept.append(x.array)

    kernel("Fill", Fill)
    x = it.tensor(values(6), device="fake")
    with pytest.raises(KernelError, match="Fill kept an array"):
        OPS["Fill"].call(x, 3.0)
    kept[0][...] = 99.0
    np.testing.assert_array_equal(x.numpy(), np.full(6, 3.0, np.float32))


def test_a_copy_may_be_kept(kernel):
    def Fill(x, value):
        kept.append(x.array.copy())
        x.array[...] = value

    kernel("Fill", Fill)
    a = values(6)
    OPS["Fill"].call(it.tensor(a, device="fake"), 3.0)
    np.testing.assert_array_equal(kept[0], a)


def test_a_kept_adopted_array_is_the_kernels_own(kernel):
    def LinearForward(x, weight, bias):
        result = x.array @ weight.array.T
        kept.append(result)
        return from_array(result, x.device)

    kernel("LinearForward", LinearForward)
    y = it.ops.linear(it.tensor(values(3, 4), device="fake"), it.tensor(values(2, 4), device="fake"))
    before = y.numpy()
    kept[0][...] = 0.0
    np.testing.assert_array_equal(y.numpy(), before)
    assert before.any()


def test_writing_to_an_argument_that_is_only_read_names_the_op(kernel):
    def LinearForward(x, weight, bias, *, out):
        x.array[...] = 0.0

    kernel("LinearForward", LinearForward)
    a = values(3, 4)
    x = it.tensor(a, device="fake")
    with pytest.raises(
        KernelError, match=r"LinearForward wrote to a tensor that it may only read.*contract 4.4"
    ):
        it.ops.linear(x, it.tensor(values(2, 4), device="fake"))
    np.testing.assert_array_equal(x.numpy(), a)


def test_memory_that_is_no_argument_is_out_of_reach(kernel):
    def Fill(x, value):
        kept[0].array[...] = value

    kernel("Fill", Fill)
    secret = it.tensor(values(4), device="fake")
    kept.append(secret)
    with pytest.raises(
        KernelError, match=r"Fill reaches for bytes 0 to 16 of buffer .* none of its arguments"
    ):
        OPS["Fill"].call(it.tensor(values(4), device="fake"), 1.0)


def test_a_read_behind_a_view_is_out_of_reach(kernel):
    from infinitrain.backend import TensorSpec, get_device_guard_impl

    def Fill(x, value):
        get_device_guard_impl(x.device.type).native_array(x.buffer, 0, (8,), x.dtype)[...] = value

    kernel("Fill", Fill)
    x = it.tensor(values(8), device="fake")
    half = x.view_as(TensorSpec.of((4,), x.dtype, x.device), 16)
    with pytest.raises(KernelError, match="none of its arguments"):
        OPS["Fill"].call(half, 1.0)


def test_beyond_the_buffer_is_out_of_bounds(kernel):
    from infinitrain.backend import get_device_guard_impl

    def Fill(x, value):
        get_device_guard_impl(x.device.type).native_array(x.buffer, 0, (9,), x.dtype)

    kernel("Fill", Fill)
    with pytest.raises(
        DeviceMemoryError, match=r"Fill is out of bounds: bytes 0 to 36 of buffer #\d+ \(32 bytes"
    ):
        OPS["Fill"].call(it.tensor(values(8), device="fake"), 1.0)


def test_a_kernel_that_strides_over_the_end_is_found_at_once(kernel):
    def Fill(x, value):
        x.array[...] = value
        np.lib.stride_tricks.as_strided(x.array, (9,), (4,))[8] = value

    kernel("Fill", Fill)
    with pytest.raises(DeviceMemoryError, match=r"Fill wrote outside buffer #\d+ \(32 bytes on fake:0"):
        OPS["Fill"].call(it.tensor(values(8), device="fake"), 1.0)
    assert len(GUARD) == 64


def test_an_unaligned_view_is_refused(kernel):
    from infinitrain.backend import get_device_guard_impl

    def Fill(x, value):
        get_device_guard_impl(x.device.type).native_array(x.buffer, 2, (1,), x.dtype)

    kernel("Fill", Fill)
    with pytest.raises(KernelError, match=r"offset 2 .* not aligned to float32"):
        OPS["Fill"].call(it.tensor(values(8), device="fake"), 1.0)


def test_an_exception_in_a_kernel_passes_and_closes_the_window(kernel):
    def Fill(x, value):
        array = x.array
        raise RuntimeError(f"kernel broke at {array[0]}")

    kernel("Fill", Fill)
    a = values(8)
    x = it.tensor(a, device="fake")
    with pytest.raises(RuntimeError, match="kernel broke"):
        OPS["Fill"].call(x, 1.0)
    np.testing.assert_array_equal(x.numpy(), a)
    with pytest.raises(KernelError, match="outside a kernel"):
        _ = x.array


def test_statistics_count_kernels_and_copies(fake):
    fake()
    x = it.tensor(values(2, 3), device="fake")
    infinitrain_fake.reset_statistics()
    y = it.ops.linear(x, x)
    y = it.ops.linear(x, x)
    _ = y.numpy()
    _ = y.to("fake:1")
    it.tensor(values(5), device="fake")
    counts = infinitrain_fake.statistics()
    assert counts.kernels == {"LinearForward": 2}
    assert counts.kernel_calls == 2
    assert (counts.h2d, counts.h2d_bytes) == (1, 20)
    assert (counts.d2h, counts.d2h_bytes) == (1, 16)
    assert (counts.d2d, counts.d2d_bytes, counts.peer) == (1, 16, 1)
    assert counts.mallocs == 4
    infinitrain_fake.reset_statistics()
    assert counts.mallocs == 4
    assert infinitrain_fake.statistics().mallocs == 0
