"""The folder of a run, and everything that ends up in it.

    config.toml     all settings, resolved
    metrics.jsonl   one JSON object for each step, there as soon as the step is done
    log.txt         what the terminal showed
    loss.png        drawn at the end

`RunDir` is what a training loop reports to:

    with Interrupt() as stop, RunDir.create(config) as run:
        run.say("...")
        for step in range(1, steps + 1):
            ...
            run.log_step(step, train_loss=..., lr=..., seconds=..., tokens=..., memory=...)
            if stop:
                break
        run.draw()
        run.finish(interrupted_by=stop.name)
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from infinitrain.data import atomic_write

from ._toml import to_toml
from .config import Config
from .console import ALONE, NOT_KNOWN, Console, Memory, Ranks, megabytes, one_line, rate, step_line
from .errors import UsageError
from .plot import plot_loss, read_metrics


class RunDir:
    """An open run folder. Made by `create`; a context manager that closes the files."""

    def __init__(self, path: Path, config: Config, console: Console, log: TextIO, metrics: TextIO) -> None:
        assert config.optimisation.num_iteration is not None, "resolve comes first"
        self.path = path
        self.config = config
        self.step = 0
        """The last step that was reported."""
        self._steps = config.optimisation.num_iteration
        self.console = console
        self._log = log
        self._metrics = metrics
        self._start = time.monotonic()
        self._last: dict[str, Any] = {}
        self._peak: int | None = None
        console.log_to(log)

    @classmethod
    def create(cls, config: Config, *, command: str = "", console: Console | None = None) -> RunDir:
        """Make the folder of a resolved `config` and open its files; config.toml mentions the `command`.

        Call it when everything else is known to be right, the data too: then a run that cannot start leaves
        no folder behind.

        Raises:
            UsageError: the folder exists and is not empty, or cannot be written. Nothing is left behind.
        """
        wanted = config.logging.run_dir
        candidates = iter([Path(wanted)]) if wanted else _default_paths(config.model.model)
        path, made = _make_folder(candidates)
        config = replace(config, logging=replace(config.logging, run_dir=str(path)))
        settings = (f"# {one_line(command)}\n\n" if command else "") + to_toml(config)
        opened = (
            ExitStack()
        )  # undone in reverse; only what this process made, another run may have come first
        try:
            log = _new_file(opened, path / "log.txt")
            metrics = _new_file(opened, path / "metrics.jsonl")
            with atomic_write(path / "config.toml") as file:
                file.write(settings.encode("utf-8", errors="replace"))
        except FileExistsError as error:
            opened.close()
            raise UsageError(
                f"another run uses --run_dir '{path}' since just now; give another one"
            ) from error
        except OSError as error:
            opened.close()
            _remove(made)
            raise UsageError(_cannot_write(path, error)) from error
        return cls(path, config, console or Console(progress=config.logging.progress), log, metrics)

    def say(self, text: str = "") -> None:
        """Print `text` and log it."""
        with self._writing():
            self.console.line(text)

    def log_step(
        self,
        step: int,
        *,
        train_loss: float,
        lr: float,
        seconds: float,
        tokens: int,
        memory: Memory = NOT_KNOWN,
        ranks: Ranks = ALONE,
        val_loss: float | None = None,
        **more: float,
    ) -> None:
        """Report step number `step`, from 1: one line of metrics.jsonl, and what is due on the terminal.

        Args:
            train_loss, val_loss: mean over the tokens, in nats; val_loss only where it was measured.
            lr: the learning rate that this step used.
            seconds: duration of the step, without validation and text.
            tokens: tokens of this step on all ranks together.
            more: further numbers for metrics.jsonl, as in grad_norm=...

        A number that is not finite becomes null in metrics.jsonl: JSON has no NaN.

        Raises:
            UsageError: the run folder can no longer be written (the disk is full, for example).
        """
        row: dict[str, Any] = {"step": step, "train_loss": train_loss}
        if val_loss is not None:
            row["val_loss"] = val_loss
        row |= {"lr": lr, "seconds": seconds, "tokens_per_s": rate(tokens, seconds)}
        row |= {"peak_used_bytes": memory.used, "peak_reserved_bytes": memory.reserved, **more}
        self._last = self._last | row
        self._peak = max(filter(None, (self._peak, memory.used)), default=None)
        self.step = step
        with self._writing():
            self._metrics.write(json.dumps({k: _finite(v) for k, v in row.items()}, allow_nan=False) + "\n")
            self._metrics.flush()
            self._show_step(row, tokens, memory, ranks)

    def draw(self) -> None:
        """Draw loss.png. A run is worth more than its picture: what prevents it is only mentioned."""
        try:
            rows = read_metrics(self.path / "metrics.jsonl")
            plot_loss(rows, self.path / "loss.png", title=self.path.resolve().name)
        except Exception as error:
            self.say(f"loss.png was not drawn: {type(error).__name__}: {error}")

    def fail(self, message: str) -> None:
        """Leave `message` in the log, and draw what there is; never raises."""
        with suppress(OSError, UsageError):
            self._log.write(f"failed: {one_line(message)}\n")
            self.draw()

    def finish(self, *, interrupted_by: str = "") -> None:
        """Print the last lines: how the run ended, and where its files are."""
        with self._writing():
            elapsed = time.monotonic() - self._start
            ending = f"interrupted by {interrupted_by} after" if interrupted_by else "done:"
            parts = [f"{ending} {self.step}/{self._steps} steps in {elapsed:.1f} s"]
            if "train_loss" in self._last:
                parts.append(f"final train loss {self._last['train_loss']:.6f}")
            if "val_loss" in self._last:
                parts.append(f"last val loss {self._last['val_loss']:.6f}")
            if self._peak is not None:
                parts.append(f"peak memory {megabytes(self._peak).strip()} MB")
            self.console.line(" | ".join(parts))
            self.console.line(f"run folder: {self.path}")

    def __enter__(self) -> RunDir:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.console.clear()
        for file in (self._log, self._metrics):
            with suppress(OSError):
                file.close()

    def _show_step(self, row: dict[str, Any], tokens: int, memory: Memory, ranks: Ranks) -> None:
        step, steps = row["step"], self._steps
        if step == 1 or step == steps or step % self.config.logging.log_interval == 0:
            self.console.line(
                step_line(
                    step,
                    steps,
                    loss=row["train_loss"],
                    lr=row["lr"],
                    seconds=row["seconds"],
                    tokens=tokens,
                    memory=memory,
                    ranks=ranks,
                )
            )
        if "val_loss" in row:
            self.console.line(f"step {step:4d}/{steps} | val loss {row['val_loss']:.6f}")
        if step < steps:
            self.console.progress(step, steps, f"loss {row['train_loss']:.3f}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"cannot write run folder '{self.path}': {error.strerror or error}") from error


def _new_file(opened: ExitStack, path: Path) -> TextIO:
    file = opened.enter_context(path.open("x", encoding="utf-8", errors="replace"))
    opened.callback(path.unlink, missing_ok=True)
    return file


def _default_paths(model: str) -> Iterator[Path]:
    """Yield runs/MODEL-DATE-TIME, and the same with -2, -3, ... for runs that start in the same second."""
    base = f"{model}-{time.strftime('%Y%m%d-%H%M%S')}"
    yield Path("runs", base)
    for number in count(2):
        yield Path("runs", f"{base}-{number}")


def _make_folder(candidates: Iterator[Path]) -> tuple[Path, list[Path]]:
    """Return the first candidate that is new (an only one may be empty instead), and the folders made."""
    path = next(candidates)
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError("the working directory was deleted; change to another one") from error
    while True:
        made: list[Path] = []
        try:
            made = [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True)
            return path, made
        except FileExistsError as error:
            following = next(candidates, None)
            if following is None:
                _check_empty(path, error)
                return path, []
            path = following
        except (OSError, ValueError) as error:
            _remove(made)
            raise UsageError(_cannot_write(path, error)) from error


def _check_empty(path: Path, cause: OSError) -> None:
    if not path.is_dir():
        raise UsageError(f"--run_dir '{path}' is a file; give a new or empty folder") from cause
    try:
        empty = next(path.iterdir(), None) is None
    except OSError as error:
        raise UsageError(_cannot_write(path, error)) from error
    if not empty:
        raise UsageError(f"--run_dir '{path}' is not empty; give a new or empty folder, or move it away")


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _cannot_write(path: Path, error: OSError | ValueError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    return f"cannot write run folder '{path}': {reason}; make room or give another one with --run_dir"


def _finite(value: float | None) -> float | None:
    """Make any number, NumPy's too, one that JSON has."""
    if value is None or isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else None
