"""L2, L3: NaN, infinities, zeros of both signs, subnormal and largest numbers go where IEEE arithmetic has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitrain_conformance import checks, special
from infinitrain_conformance.cases import Data, OpCase
from infinitrain_conformance.check import expect
from infinitrain_conformance.families import level_of
from infinitrain_conformance.oracles.attention import attention, attention_backward
from infinitrain_conformance.target import Target
from infinitrain_conformance.tolerances import allowed


def _params(check: str) -> list[Any]:
    """Return the first case of each op in each floating dtype that it is tested in."""
    return [
        pytest.param(
            case,
            dtype,
            id=f"{case}-{dtype}",
            marks=pytest.mark.contract("4.7", level=level_of(case.op), op=case.op),
        )
        for case, dtype in checks.planned(check)
    ]


@pytest.mark.parametrize(("case", "dtype"), _params("nan"))
def test_nan(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """A NaN reaches exactly the results that depend on it."""
    special.check("nan", checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("infinity"))
def test_infinity(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    special.check("infinity", checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("ends"))
def test_ends(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """Zeros, a subnormal number and the largest: results beyond the dtype are infinite."""
    special.check("ends", checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.contract("4.7", level="L2", op="Cast")
def test_rounding_keeps_nan(dtype: str, target: Target, heading: str) -> None:
    """NaNs whose only mantissa bits are among those that rounding cuts off: adding to the bits makes infinity of some,
    cutting them off of others.
    """
    import infinitrain as it
    from infinitrain.dtype import as_dtype

    bits = np.array(
        [0x7F800001, 0xFF800001, 0x7F80FFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F801000], np.uint32
    )
    x = it.from_numpy(
        np.tile(bits, 43).view(np.float32), target.device
    )  # long enough for vector instructions
    got = it.backend.OPS["Cast"].call(x, as_dtype(dtype)).numpy().astype(np.float64)
    expect(heading, np.isnan(got).all(), f"NaNs with bits {[hex(b) for b in bits]} became {got[:7].tolist()}")


@pytest.mark.contract("4.7", level="L2", op="Cast", half=True)
def test_rounding_to_infinity(target: Target, heading: str) -> None:
    """Half way beyond the largest number and above is infinity; below is the largest number."""
    import infinitrain as it
    from infinitrain.dtype import float16

    x = np.array([65504.0, 65519.0, 65520.0, -65519.0, -65520.0, 1e30], np.float32)
    got = it.backend.OPS["Cast"].call(it.from_numpy(x, target.device), float16).numpy().astype(np.float64)
    want = [65504.0, 65504.0, np.inf, -65504.0, -np.inf, np.inf]
    expect(heading, got.tolist() == want, f"{x.tolist()} became {got.tolist()}, expected {want}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.contract("4.7", level="L3", op="AttentionBackward")
def test_attention_after_a_value_that_is_nan(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Queries from the NaN on have a gradient of NaN, those before it are what they are without the rest."""
    import infinitrain as it

    data, (heads, kv, d, t, bad) = Data(seed, dtype), (4, 2, 16, 150, 70)
    qkv = data.normal(1, t, (heads + 2 * kv) * d)
    grad = data.normal(1, t, heads * d)
    qkv[0, bad, -1] = np.nan  # the last value head, which serves the last two query heads
    with np.errstate(invalid="ignore"):
        saved = {name: want.value for name, want in attention(qkv, heads, kv, True).items()}
    kept = data.dtype.numpy
    given = (qkv.astype(kept), saved["y"].astype(kept), saved["lse"].astype(np.float32), grad.astype(kept))
    tensors = [it.from_numpy(array, target.device) for array in given]
    got = it.backend.OPS["AttentionBackward"].call(*tensors, heads, kv, True).numpy().astype(np.float64)
    y, lse = data.round(saved["y"])[:, :bad], saved["lse"][..., :bad]
    want = attention_backward(qkv[:, :bad], y, lse, grad[:, :bad], heads, kv, True)["dqkv"]
    size = heads * d
    bound = allowed("AttentionBackward", data.dtype, want.value, want.magnitude, want.terms)[..., :size]
    error = np.abs(got[:, :bad, :size] - want.value[..., :size])
    expect(
        heading, (error <= bound).all(), f"queries before position {bad} are off by up to {error.max():.3g}"
    )
    spoilt = got[:, bad:, size // 2 : size]
    expect(heading, np.isnan(spoilt).all(), f"{np.isfinite(spoilt).sum()} elements after a NaN are numbers")


@pytest.mark.contract("4.7", level="L2", op="LinearForward", half=True)
def test_a_sum_beyond_float16(target: Target, heading: str) -> None:
    """Eight products of 40,000 are 320,000: infinite in float16, whatever the accumulator. Sums that come back are
    not, as they are made in float32.
    """
    import infinitrain as it

    x = np.full((2, 8), 200.0)
    x[1, 4:] = -200.0
    given = [it.from_numpy(a.astype(np.float16), target.device) for a in (x, np.full((1, 8), 200.0))]
    got = it.backend.OPS["LinearForward"].call(*given, None).numpy().astype(np.float64).reshape(-1).tolist()
    expect(heading, got == [np.inf, 0.0], f"got {got}, expected [inf, 0.0]")
