"""The run of a training loop of one's own, in a run folder: `ripieno watch`, `ripieno report` and TensorBoard then show it.

    with ripieno.Run("runs", name="resnet18", module=model, dataset="cifar10", epochs=10) as run:
        for epoch in range(10):
            for inputs, targets in run.batches(loader):
                optimizer.zero_grad()
                with run.stage("forward"):
                    loss = criterion(model(inputs), targets)
                with run.stage("backward"):
                    loss.backward()
                with run.stage("optimise"):
                    optimizer.step()
                run.step(loss=loss.item(), samples=len(inputs))
            run.epoch(accuracy=accuracy_of(model))

It needs no particular backend, nor any: bytes are counted over backend "ripieno"; over another they are not known, and shown so."""
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend
from torch.nn.parallel import DistributedDataParallel

from ripieno import _ripieno
from ripieno.agreement import Agreement
from ripieno.hooks import device_of, unwrapped

__all__ = ["Run"]

Batch = TypeVar("Batch")


class _Stage(AbstractContextManager[None]):
    def __init__(self, core: "_ripieno.RunWriter | _EndedRun", name: str) -> None:
        self._core = core
        self._name = name

    def __enter__(self) -> None:
        self._core.enter(self._name)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        self._core.leave()


class _EndedRun:
    """What is left of a run that an exception has ended."""

    def __init__(self, core: _ripieno.RunWriter) -> None:
        self.folder, self.steps = core.folder, core.steps

    def __getattr__(self, name: str) -> NoReturn:
        raise ValueError("an exception has ended this run: make another")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Run:
    """A run that is being written. All ranks of the group make it, with the same options.

    folder: in which rank 0 makes the run's own folder, with the next free number; name: how that ends, and what reports call the run.
    module: the model that is trained. If it is a DistributedDataParallel, the end of each stage "backward", after the last gradient,
    counts as waiting for the exchange. agreement: of ripieno.agree(); call agreement.step() in a stage "exchange", of which the
    optimiser's time then counts as "optimise". group: None is the default group, or a single process if there is none.
    strategy, codec, model, dataset: names for reports; None: as module and agreement say. settings: of the loop's own (learning rate,
    batch size ..); reports do not take runs that differ in one for the same. seed: runs that differ in it alone are one way, repeated.
    epochs, steps_per_epoch (of a rank): planned, for the time left; 0: not known. first_epoch: a loop that goes on from a checkpoint
    has done so many. sample_s: seconds between samples of CPU, memory and network; 0: never.

    Times are of the CPU's clock: where a GPU computes, synchronise before a stage ends.

    Used in a `with` statement, the run ends with it: finish(), or, after an exception, without a summary, as an unfinished one.

    ValueError: an option or call that cannot be. RuntimeError: a file cannot be written, or ranks differ in their options."""

    def __init__(self, folder: str | PathLike[str] = "runs", *, name: str = "loop", module: torch.nn.Module | None = None,
                 agreement: Agreement | None = None, group: dist.ProcessGroup | None = None, strategy: str | None = None,
                 codec: str | None = None, model: str | None = None, dataset: str = "own", settings: Mapping[str, object] | None = None,
                 seed: int = 0, epochs: int = 0, steps_per_epoch: int = 0, first_epoch: int = 0, sample_s: float = 0.5) -> None:
        inner = module.module if isinstance(module, DistributedDataParallel) else module
        parameters = [] if inner is None else list(inner.parameters())
        if strategy is None:
            strategy = agreement.strategy if agreement else "ddp" if inner is not module else "own"
        if codec is None:
            codec = agreement.codec if agreement else "none"
        options: dict[str, object] = dict(
            folder=folder, name=name, strategy=strategy, codec=codec, dataset=dataset, seed=seed, epochs=epochs,
            model=model or ("own" if inner is None else type(inner).__name__), steps_per_epoch=steps_per_epoch, first_epoch=first_epoch,
            parameters=sum(parameter.numel() for parameter in parameters if parameter.requires_grad), sample_s=sample_s,
            settings={str(key): _text(value) for key, value in (settings or {}).items()})
        self._core: _ripieno.RunWriter | _EndedRun = _ripieno.RunWriter(*self._backend(group), options)
        self._hooks = []
        if inner is not None:
            self._core.keep_digest_of([parameter.detach() for parameter in parameters])
        if inner is not module:
            there = self._core.gradient_is_there
            self._hooks = [parameter.register_post_accumulate_grad_hook(lambda _: there())
                           for parameter in parameters if parameter.requires_grad]
        if agreement:
            self._core.follow(agreement._core)

    @staticmethod
    def _backend(group: dist.ProcessGroup | None) -> tuple[Backend | None, torch.device]:
        """The group's backend for the run's own messages, and where that takes tensors."""
        if group is None and not dist.is_initialized():
            return None, torch.device("cpu")
        group = group or dist.distributed_c10d._get_default_group()
        device = device_of(group)
        return unwrapped(group._get_backend(device)), device

    def stage(self, name: str) -> AbstractContextManager[None]:
        """The time of a `with` block: "read", "forward", "backward", "exchange", "optimise", "evaluate". What no stage has counts as
        "other". A stage within another one counts for itself alone. ValueError: another name."""
        return _Stage(self._core, name)

    def batches(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches; the time until each is there counts as "read"."""
        source = iter(batches)
        while True:
            with self.stage("read"):
                try:
                    batch = next(source)
                except StopIteration:
                    return
            yield batch

    def step(self, *, loss: float | None = None, samples: int = 0, learning_rate: float = 0) -> None:
        """Ends a step. `loss`: the mean over this rank's `samples`. ValueError: within a stage, or after finish()."""
        self._core.step(loss, samples, learning_rate)

    def epoch(self, *, accuracy: float | None = None, loss: float | None = None) -> None:
        """Ends an epoch; `accuracy` (0 to 1) and, with it, `loss` of the test set, as far as they are known."""
        self._core.epoch(accuracy, loss)

    def finish(self) -> None:
        """Ends the run, with an epoch where steps have come since the last: all ranks call it, and rank 0 writes summary.json."""
        self._core.finish()
        self._let_go()

    @property
    def folder(self) -> Path:
        """The run's folder; on a host that does not share it with rank 0, one of this rank's own until finish()."""
        return Path(self._core.folder)

    @property
    def steps(self) -> int:
        """Calls of step() so far."""
        return self._core.steps

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self._let_go()
            self._core = _EndedRun(self._core)  # it ends here, unfinished

    def _let_go(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
