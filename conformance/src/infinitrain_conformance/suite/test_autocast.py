"""L3: mixed precision on the device: what each policy computes in, gradients of float32 weights, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.cases import Data
from infinitrain_conformance.check import close, expect, same_bytes
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target

LOWER = ["bfloat16", "float16"]


def place(target: Target, array: Any, dtype: str = "float32", grad: bool = False) -> Any:
    """Return an array on the device under test."""
    import infinitrain as it
    from infinitrain.dtype import as_dtype

    tensor = it.from_numpy(np.asarray(array).astype(as_dtype(dtype).numpy), target.device)
    tensor.requires_grad = grad
    return tensor


def region(target: Target, dtype: str | None) -> Any:
    """Return autocast for the device under test."""
    import infinitrain as it

    return it.autocast(target.device, dtype)


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.contract("5.1", level="L3", op="LinearForward", half=True)
def test_policies(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Lower, float32, widest and keep; float64 and integers are left alone."""
    import infinitrain as it
    from infinitrain import ops

    rng = np.random.default_rng(seed)
    x, weight = place(target, rng.standard_normal((4, 5))), place(target, rng.standard_normal((3, 5)))
    half = place(target, rng.uniform(0.5, 2.0, (4, 3)), dtype)
    single = place(target, rng.standard_normal((4, 3)))
    classes = place(target, [0, 2, 1, 1], "int64")
    with region(target, dtype):
        found = {
            "linear": (ops.linear(x, weight, None), dtype),
            "matmul": (x @ weight.transpose(0, 1), dtype),
            "linear of half": (ops.linear(x, weight) @ half.transpose(0, 1), dtype),
            "exp": (ops.exp(half), "float32"),
            "log": (ops.log(half), "float32"),
            "pow": (half**2.0, "float32"),
            "tanh": (ops.tanh(half), "float32"),
            "cross_entropy": (ops.cross_entropy(half, classes), "float32"),
            "add of unlike": (half + single, "float32"),
            "mul of equals": (half * half, dtype),
            "concat of unlike": (ops.concat([half, single]), "float32"),
            "softmax": (ops.softmax(half), dtype),
            "layer_norm": (ops.layer_norm(half, it.ones(3, device=target.device)), dtype),
            "int64": (classes + classes, "int64"),
        }
    wrong = [
        f"{name} is {t.dtype}, expected {want}" for name, (t, want) in found.items() if t.dtype.name != want
    ]
    expect(heading, not wrong, "; ".join(wrong))
    expect(heading, ops.linear(x, weight).dtype is it.float32, "the region was not left")


@pytest.mark.contract("5.1", level="L3", op="MatmulForward", half=True)
def test_float64_is_not_cast(target: Target, seed: int, heading: str) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((7, 33)), rng.standard_normal((33, 5))
    with region(target, "bfloat16"):
        y = place(target, a, "float64") @ place(target, b, "float64")
    close(heading, "MatmulForward", {"y": y}, {"y": Want(a @ b, np.abs(a) @ np.abs(b), 33)})


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.contract("5.1", level="L3", op="Cast", half=True)
def test_weights_are_rounded_to_nearest(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Each result is a weight's cast minus 1, which is exact: half a unit less would show."""
    from infinitrain import ops

    data = Data(seed, dtype)
    weight = np.stack([data.rng.uniform(1.0, 1.9, 64).astype(np.float32), np.ones(64)], axis=1)
    with region(target, dtype):
        y = ops.linear(place(target, [[1.0, -1.0]]), place(target, weight))
    same_bytes(heading, "y", y.numpy().astype(np.float64), data.round(weight[:, 0])[None] - 1.0)


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.contract("5.3", level="L3", op="LinearBackwardWeight", half=True)
def test_gradients_of_float32_weights(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Sums over three micro-batches in float32 destinations, of half-precision gradients that were never rounded."""
    from infinitrain import ops

    data = Data(seed, dtype)
    weight, bias = place(target, data.normal(5, 33), grad=True), place(target, data.normal(5), grad=True)
    dweight, dbias, sizes = np.zeros((5, 33)), np.zeros(5), [np.zeros((5, 33)), np.zeros(5)]
    for scale in (8.0, 1.0, 0.01):  # what is added last would vanish in half precision
        x, grad = data.normal(4, 16, 33, mean=0.5), data.normal(4, 16, 5, mean=0.3, scale=scale)
        with region(target, dtype):
            y = ops.linear(place(target, x), weight, bias)
        y.backward(place(target, grad, dtype))
        rows, out = x.reshape(-1, 33), grad.reshape(-1, 5)
        dweight, dbias = dweight + out.T @ rows, dbias + out.sum(0)
        sizes = [sizes[0] + np.abs(out).T @ np.abs(rows), sizes[1] + np.abs(out).sum(0)]
    got = {"dweight": weight.grad, "dbias": bias.grad}
    expect(heading, all(g.dtype.name == "float32" for g in got.values()), f"gradients are {got}")
    close(
        heading, "LinearBackwardWeight", got,
        {"dweight": Want(dweight, sizes[0], 192), "dbias": Want(dbias, sizes[1], 192)},
    )  # fmt: skip


@pytest.mark.contract("5.3", level="L3", op="MatmulForward", half=True)
def test_uses_are_summed_in_float32(target: Target, heading: str) -> None:
    """256 + 1 is 256 in bfloat16."""
    import infinitrain as it

    x: Any = it.ones(1, 1, device=target.device)
    x.requires_grad = True
    large, one = (it.full((1, 1), value, device=target.device) for value in (256.0, 1.0))
    with region(target, "bfloat16"):
        h = x * 1.0
        y = (h @ large).float() + (h @ one).float()
    y.sum().backward()
    expect(
        heading, x.grad.item() == 257.0, f"the gradient is {x.grad.item()} in {x.grad.dtype}, expected 257"
    )


@pytest.mark.contract("5.2", level="L3")
def test_default_dtype(target: Target, heading: str) -> None:
    """Without a dtype the device's own: CPU bfloat16, CUDA float16, a provider's what it declared, else an error."""
    import infinitrain as it
    from infinitrain.device import DeviceType
    from infinitrain.errors import DtypeError

    type = target.device.type
    declared = target.record.registration.default_autocast_dtype
    want = {DeviceType.CPU: it.bfloat16, DeviceType.CUDA: it.float16}.get(type, declared)
    if want is None:
        with pytest.raises(DtypeError, match="requires an explicit dtype"):
            it.autocast(target.device)
    else:
        expect(heading, it.autocast(type).dtype is want, f"{it.autocast(type).dtype}, expected {want}")
        with it.autocast(str(target.device)):
            expect(heading, it.is_autocast_enabled(type), "the device's text did not turn autocast on")


@pytest.mark.contract("5.3", level="L3", op="LinearForward", half=True)
def test_nesting_and_exceptions(target: Target, heading: str) -> None:
    import infinitrain as it
    from infinitrain import ops

    x, weight = it.ones(2, 3, device=target.device), it.ones(4, 3, device=target.device)
    seen = []

    def look(error: bool = False) -> None:
        seen.append(ops.linear(x, weight).dtype.name)
        if error:
            raise RuntimeError

    with region(target, "bfloat16"):
        with pytest.raises(RuntimeError), region(target, "float16"):
            look(error=True)
        look()
        with it.autocast(target.device, enabled=False):
            look()
        look()
    look()
    want = ["float16", "bfloat16", "float32", "bfloat16", "float32"]
    expect(heading, seen == want, f"computed in {seen}, expected {want}")


# Training -------------------------------------------------------------------------------------------------


class Learner:
    """A small GPT-2 that learns one batch."""

    def __init__(self, target: Target, seed: int) -> None:
        from infinitrain import nn

        config = nn.TransformerConfig(block_size=32, vocab_size=67, n_layer=2, n_head=2, n_embd=48)
        self.model = nn.TransformerModel(config, seed=seed, device=target.device)
        tokens = np.random.default_rng(seed).zipf(1.3, (4, 33)) % 67
        self.inputs, self.labels = (place(target, t, "int64") for t in (tokens[:, :-1], tokens[:, 1:]))
        self.target = target

    def loss(self, dtype: str | None) -> Any:
        """Return the loss, computed under autocast where there is a dtype."""
        import infinitrain as it
        from infinitrain import ops

        with it.autocast(self.target.device, dtype or "float32", enabled=dtype is not None):
            return ops.cross_entropy(self.model(self.inputs), self.labels)

    def gradients(self) -> np.ndarray:
        """Return all gradients as one vector."""
        grads: list[Any] = [p.grad for p in self.model.parameters()]
        return np.concatenate([g.numpy().astype(np.float64).ravel() for g in grads])


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.contract("5.3", level="L3", op="LinearForward", half=True)
def test_first_gradients(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Loss and gradients of a small GPT-2 are those of float32 but for rounding."""
    learner, found = Learner(target, seed), []
    for kind in (None, dtype):
        for p in learner.model.parameters():
            p.zero_grad()
        loss = learner.loss(kind)
        loss.backward()
        found.append((loss.item(), learner.gradients()))
        expect(heading, loss.dtype.name == "float32", f"the loss is {loss.dtype}")
    (want, exact), (got, grads) = found
    limit = {"bfloat16": 0.03, "float16": 0.02}[
        dtype
    ]  # 8 and 11 bits; float16 loses small gradients unscaled
    error = np.linalg.norm(grads - exact) / np.linalg.norm(exact)
    expect(heading, error < limit, f"gradients differ by {error:.2g} of their norm, allowed {limit}")
    expect(heading, error > 1e-5, f"gradients differ by {error:.2g}: was anything computed in {dtype}?")
    expect(heading, abs(got - want) < limit * want, f"the loss is {got:.6g}, in float32 {want:.6g}")


@pytest.mark.parametrize("dtype", LOWER)
@pytest.mark.contract("5.3", level="L3", op="Cast", half=True)
def test_training(dtype: str, target: Target, seed: int, heading: str) -> None:
    """Twenty steps; float16 with a scaler that starts far too high and comes down."""
    from infinitrain import optim

    learner = Learner(target, seed)
    optimizer = optim.AdamW(learner.model.named_parameters(), lr=3e-3)
    scaler = optim.GradScaler(2.0**40, backoff_factor=2.0**-8, enabled=dtype == "float16")
    losses, made = [], []
    for _ in range(24):
        optimizer.zero_grad()
        loss = learner.loss(dtype)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        optim.clip_grad_norm(learner.model.parameters(), 1.0, error_if_nonfinite=False)
        made.append(scaler.step(optimizer))
        scaler.update()
        losses.append(loss.item())
    expect(heading, all(np.isfinite(losses)), f"losses {losses}")
    expect(heading, losses[-1] < 0.6 * losses[0], f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}")
    if dtype == "float16":
        expect(heading, not made[0] and all(made[4:]), f"steps made: {made}, factor {scaler.scale_factor}")


@pytest.mark.parametrize("bad", ["inf", "-inf", "nan"])
@pytest.mark.contract("5.3", level="L3", op="AllFinite")
def test_scaler_skips(bad: str, target: Target, heading: str) -> None:
    """One element that is not finite, last in the last gradient: the step is skipped and nothing changes."""
    import infinitrain as it
    from infinitrain import nn, optim

    params = [nn.Parameter(it.ones(n, device=target.device)) for n in (7, 1000, 33)]
    optimizer, scaler = optim.AdamW(params, lr=0.1), optim.GradScaler(4.0)
    for i, p in enumerate(params):
        grad = np.ones(p.shape, np.float32)
        grad[-1] = float(bad) if i == 2 else 1.0
        p.backward(place(target, grad))
    stepped = scaler.step(optimizer)
    scaler.update()
    expect(heading, not stepped, "the step was made")
    expect(heading, all((p.numpy() == 1.0).all() for p in params), "parameters changed")
    expect(heading, scaler.scale_factor == 2.0, f"the factor is {scaler.scale_factor}, expected 2")


@pytest.mark.contract("5.3", level="L3", op="AdamW", half=True)
def test_master_weights(target: Target, seed: int, heading: str) -> None:
    """bfloat16 parameters learn by steps below half of their last place, kept in float32 copies."""
    from infinitrain import nn, optim

    start = Data(seed, "bfloat16").normal(4, 9, mean=2.0)
    p = nn.Parameter(place(target, start, "bfloat16"))
    optimizer = optim.SGD([p], lr=1e-4, master_weights=True)
    for _ in range(50):
        optimizer.zero_grad()
        p.backward(place(target, np.full(p.shape, 0.5), "bfloat16"))
        optimizer.step()
    master = optimizer.state_dict()["state"]["param0"]["master"]
    want = Want(start - 50 * 5e-5, np.abs(start) + 50 * 5e-5, 50)
    close(heading, "SGD", {"master": master, "param": p}, {"master": want, "param": want})
