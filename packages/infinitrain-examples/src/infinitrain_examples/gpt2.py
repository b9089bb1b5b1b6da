"""infinitrain-gpt2: train a GPT-2 style model on text, on any device, and let it write.

`main` reads flags and sets everything up; `train` is the loop. Without flags it trains a small model on
built-in text for about a minute.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # `python -m`: first what must be in place before the imports below
    from infinitrain_examples import cli

    sys.exit(cli.main())

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from infinitrain import (
    Device,
    DeviceType,
    Generator,
    InfiniTrainError,
    from_numpy,
    no_grad,
    set_num_threads,
)
from infinitrain.backend import (
    get_device_guard_impl,
    load_backend_module,
    registrar_path,
    set_backend_options,
    synchronize,
)
from infinitrain.data import BatchLoader, discard_unfinished
from infinitrain.nn import CrossEntropyLoss, TransformerModel
from infinitrain.optim import SGD, AdamW, LRScheduler, Optimizer, Schedule, clip_grad_norm, decay_groups

from .config import PROG, Config, parse
from .console import Memory, say_error
from .errors import UsageError
from .interrupt import Interrupt
from .presets import PRESETS
from .resolve import accumulation_steps, backend_options, resolve
from .run_dir import RunDir
from .sampling import generate
from .sizes import check_size
from .sources import TrainingData, load_data
from .weights import save_weights


def main(argv: Sequence[str] | None = None, register_backend: Callable[[], Any] | None = None) -> int:
    """Train as `argv` says (default: the command line) and return the exit status.

    0: done; 2: something that the user can put right, said in one line on standard error; 130, 143 and 129:
    stopped by Ctrl-C, SIGTERM or SIGHUP, after the weights were saved. `register_backend`, a function at the
    top level of a module, is called before the flags are read, so that `--device` knows the backend that it
    registers.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        if register_backend is not None:
            load_backend_module(registrar_path(register_backend))
        config = resolve(parse(argv))
        device = open_device(config)
        data = load_data(config)
        config = data.complete(config)
        data.prompt(config)  # checked now, not after hours
        loader = data.train_loader(config)
        check_size(config, on_host=device.type is DeviceType.CPU)
        model = build_model(config, device)
        with (
            Interrupt(discard_unfinished) as stop,
            RunDir.create(config, command=shlex.join([PROG, *argv])) as run,
            weights_kept(run, model),
        ):
            run.say(describe(config, model, data, device))
            train(run, model, data, loader, device, stop)
            save(run, model)
            if not stop:
                write_text(run, model, data, device, stop)
            run.draw()
            stop.settle()
            run.finish(interrupted_by=stop.name)
        return stop.exit_code
    except (UsageError, InfiniTrainError, MemoryError) as error:
        say_error(PROG, explained(error))
        return 2


def train(
    run: RunDir,
    model: TransformerModel,
    data: TrainingData,
    loader: BatchLoader,
    device: Device,
    stop: Interrupt,
) -> None:
    """Take the steps that `run.config` asks for, or those until `stop` comes true."""
    config = run.config
    optimizer = build_optimizer(config, model)
    scheduler = LRScheduler(optimizer, build_schedule(config))
    loss_of = CrossEntropyLoss(in_place=True)
    micro_batches = accumulation_steps(config)
    steps, tokens = config.optimisation.num_iteration, config.optimisation.total_batch_size
    assert steps is not None
    assert tokens is not None
    memory = PeakMemory(device)

    for step in range(1, steps + 1):
        start = time.perf_counter()
        memory.reset()
        optimizer.zero_grad()
        losses = []
        for _ in range(micro_batches):
            if stop:
                return  # half a step changes nothing
            if config.debug.overfit_single_batch:
                loader.rewind()
            x, y = next(loader)
            loss = loss_of(model(from_numpy(x, device)), from_numpy(y, device))
            if micro_batches > 1:
                loss = loss / micro_batches
            loss.backward()
            losses.append(loss.detach())
        largest = config.optimisation.grad_clip or math.inf
        grad_norm = clip_grad_norm(model.parameters(), largest, error_if_nonfinite=False)
        lr = scheduler.lr
        if math.isfinite(grad_norm):  # else the weights stay as they are
            optimizer.step()
            scheduler.step()
        train_loss = sum(loss.item() for loss in losses)  # waits for the device
        seconds = time.perf_counter() - start

        every = config.logging.val_loss_every
        due = every and (step == steps or step % every == 0)
        val_loss = validate(model, data, config, device, stop) if due else None
        run.log_step(
            step,
            train_loss=train_loss,
            val_loss=val_loss,
            lr=lr,
            seconds=seconds,
            tokens=tokens,
            memory=memory.peak(),
            grad_norm=grad_norm,
        )
        if not math.isfinite(grad_norm):
            raise UsageError(
                f"the norm of the gradients is {grad_norm} in step {step}: training has diverged; use a lower "
                "--learning_rate, --weight_decay or --momentum"
            )
        every = config.text.freq_generate_txt
        if every and step % every == 0 and step < steps and not stop:
            write_text(run, model, data, device, stop)


def validate(
    model: TransformerModel, data: TrainingData, config: Config, device: Device, stop: Interrupt
) -> float | None:
    """Return the mean loss over the validation batches, in nats per token; None once `stop` is true."""
    loss_of = CrossEntropyLoss(in_place=True)
    losses = []
    model.eval()
    with no_grad():
        for x, y in data.validation_batches(config):
            if stop:
                break
            losses.append(loss_of(model(from_numpy(x, device)), from_numpy(y, device)).item())
    model.train()
    return sum(losses) / len(losses) if losses and not stop else None


def write_text(
    run: RunDir, model: TransformerModel, data: TrainingData, device: Device, stop: Interrupt
) -> None:
    """Let the model continue the prompt, where the data come with a tokenizer."""
    text = run.config.text
    prompt = data.prompt(run.config)
    if data.tokenizer is None or not prompt:
        return
    tokens = generate(
        model,
        prompt,
        text.text_length,
        device=device,
        generator=Generator(seed=run.config.optimisation.seed),
        window=run.config.data.sequence_length,
        temperature=text.temperature,
        top_k=text.top_k,
        stop=lambda: bool(stop),
    )
    run.say(
        f"--- text: the model after {run.step} steps continues [the prompt] ---\n"
        f"[{text.prompt}]{data.tokenizer.decode(tokens)}\n------------"
    )


# What the flags stand for -----------------------------------------------------------------------------------


def open_device(config: Config) -> Device:
    """Return the device of `--device`, started, with `--threads`. Raises UsageError and BackendError."""
    assert config.device.threads is not None
    set_num_threads(config.device.threads)
    if config.device.backend_module:
        load_backend_module(config.device.backend_module)
    options = backend_options(config)
    set_backend_options(options)
    try:
        device = Device.parse(config.device.device)
        if options and device.type is DeviceType.CPU:
            raise UsageError(f"--backend_option {next(iter(options))} is for a backend: cpu has no options")
        synchronize(device)  # the first use starts it, or says why it cannot be had
    except (ValueError, InfiniTrainError) as error:
        text = str(error).replace("backend option ", "--backend_option ")
        raise UsageError(f"--device {config.device.device}: {text}") from error
    return device


def build_model(config: Config, device: Device) -> TransformerModel:
    """Return the model of `--model` and its changes, with weights that depend on `--seed` alone."""
    flags = config.model
    sizes = {name: getattr(flags, name) for name in ("n_layer", "n_head", "n_embd", "vocab_size")}
    shape = replace(PRESETS[flags.model].shape, **sizes)
    return TransformerModel(shape, seed=config.optimisation.seed, device=device)


def build_optimizer(config: Config, model: TransformerModel) -> Optimizer:
    """Return the optimizer of `--optimizer`; only matrices decay."""
    flags = config.optimisation
    groups = decay_groups(model.named_parameters(), flags.weight_decay)
    if flags.optimizer == "sgd":
        return SGD(groups, momentum=flags.momentum)
    return AdamW(groups, betas=(0.9, 0.95))


def build_schedule(config: Config) -> Schedule:
    """Return the learning rate by step."""
    flags = config.optimisation
    assert flags.learning_rate is not None
    assert flags.lr_decay_iters is not None
    assert flags.lr_warmup_iters is not None
    return Schedule(
        flags.learning_rate,
        flags.lr_decay_style,
        decay_iters=flags.lr_decay_iters,
        min_lr=flags.min_lr,
        warmup_iters=flags.lr_warmup_iters,
        # Not from 0: the first step is to learn something already.
        warmup_init=flags.learning_rate / flags.lr_warmup_iters if flags.lr_warmup_iters else 0.0,
    )


def describe(config: Config, model: TransformerModel, data: TrainingData, device: Device) -> str:
    """Return what is about to happen, in two lines."""
    shape, samples = model.config, len(data.train)
    return (
        f"model {config.model.model}: {shape.n_layer} layers x {shape.n_embd}, {shape.n_head} heads, "
        f"{shape.vocab_size} tokens, {model.num_parameters() / 1e6:.2f} million parameters\n"
        f"device {device}: {get_device_guard_impl(device.type).describe(device)}; "
        f"{samples} training samples of {config.data.sequence_length} tokens"
    )


def save(run: RunDir, model: TransformerModel) -> None:
    """Write the weights to the run folder."""
    path = run.path / "model.safetensors"
    try:
        save_weights(model, path)
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror or error}") from error


def explained(error: Exception) -> str:
    """Return what went wrong, and for memory what else may help."""
    text = str(error) or type(error).__name__
    return f"{text}; or a smaller model: --n_layer, --n_embd" if isinstance(error, MemoryError) else text


@contextmanager
def weights_kept(run: RunDir, model: TransformerModel) -> Iterator[None]:
    """Save the weights if the block fails before it did so itself; the error then says where they are."""
    try:
        yield
    except Exception as error:
        text = explained(error)
        path = run.path / "model.safetensors"
        try:
            if run.step and not path.exists():
                save(run, model)
            weights = f"the weights are in '{path}'" if run.step else "there are no weights yet"
        except Exception as second:
            weights = f"the weights are lost ({second})"
        outcome = f"stopped after step {run.step}; {weights}"
        run.fail(f"{text}; {outcome}")
        if not isinstance(error, (UsageError, InfiniTrainError, MemoryError)):
            error.add_note(outcome)
            raise
        raise UsageError(f"{text}; {outcome}") from error


class PeakMemory:
    """The device's memory peaks of one step."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._runtime = get_device_guard_impl(device.type)

    def reset(self) -> None:
        """Start counting anew."""
        self._runtime.reset_peak(self._device)

    def peak(self) -> Memory:
        """Return the peaks since the last reset."""
        stats = self._runtime.memory_stats(self._device)
        return Memory(used=stats.get("peak_used"), reserved=stats.get("peak_reserved"))
