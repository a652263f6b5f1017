"""Every way to agree, in a training loop of one's own: Ripieno's strategies around a module and an optimiser of PyTorch.

    agreement = ripieno.agree(model, optimizer, "diloco", steps=16)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss(model(inputs), targets).backward()
        agreement.step()    # in place of optimizer.step()
    agreement.finish()      # all ranks now hold the strategy's consensus"""
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist

from ripieno import _ripieno
from ripieno.hooks import backend_of

__all__ = ["Agreement", "agree"]


class _UsersOptimiser:
    """What the library asks of an optimiser."""

    def __init__(self, optimizer: torch.optim.Optimizer, before_update: Callable[[], object] | None) -> None:
        self._optimizer = optimizer
        self._before_update = before_update

    def step(self) -> None:
        if self._before_update is not None:
            self._before_update()
        self._optimizer.step()

    def rates(self) -> list[float]:
        return [float(group["lr"]) for group in self._optimizer.param_groups if "lr" in group]

    def parameters(self) -> list[torch.Tensor]:
        return [parameter for group in self._optimizer.param_groups for parameter in group["params"]]

    def on_servers(self) -> dict[str, object]:
        """The optimiser with which parameter servers do the same."""
        if self._before_update is not None:
            raise ValueError("before_update has no effect with parameter servers, which step in place of your optimiser; leave it out, or "
                             "take a strategy whose workers step themselves")
        names = {torch.optim.SGD: "sgd", torch.optim.Adam: "adam", torch.optim.AdamW: "adamw"}
        kind = type(self._optimizer)
        if kind not in names:
            raise ValueError("parameter servers step in place of your optimiser, and know SGD, Adam and AdamW, not "
                             f"{kind.__name__}; take one of these, or a strategy whose workers step themselves")
        if len(self._optimizer.param_groups) != 1:
            raise ValueError("parameter servers step in place of your optimiser on parts of the model that know no groups, and it has "
                             f"{len(self._optimizer.param_groups)} groups; make it with one")
        group = self._optimizer.param_groups[0]
        for option in ("dampening", "amsgrad", "maximize"):
            if group.get(option):
                raise ValueError(f"parameter servers step in place of your optimiser, and cannot with {option}; leave it off")
        setattr(self._optimizer, "_opt_called", True)  # or schedulers of the learning rate would warn that it never steps
        return {**group, "name": "adamw" if group.get("decoupled_weight_decay") else names[kind]}


class Agreement:
    """A running agreement, made by agree().

    Errors of step() and finish(): DistBackendError (a RuntimeError) that names the rank and its error if another rank gave up, was
    lost, or takes another number of steps; what the optimiser raises; ValueError for a wrong use. The first ends the agreement on all
    ranks. An agreement that goes without finish() ends on all ranks, too."""

    def __init__(self, core: _ripieno.Agreement, strategy: str, codec: str) -> None:
        self._core = core
        self.strategy = strategy
        self.codec = codec

    def step(self, samples: int | None = None) -> None:
        """This rank's gradients are complete; returns when the model holds the weights of the next forward pass.

        All ranks call it, equally often except with ps-async and ps-ssp. Clip gradients in agree()'s before_update: before this call they
        are this rank's own, not yet averaged. `samples`: of this rank's batch, with uneven_batches=True."""
        if samples is None:
            self._core.step()
        else:
            self._core.step(samples)

    def finish(self) -> None:
        """Ends the agreement, on all ranks: the model then holds the strategy's consensus (docs/strategies.md), the same everywhere."""
        self._core.finish()

    @property
    def steps(self) -> int:
        """Calls of step() so far."""
        return self._core.steps


def agree(module: torch.nn.Module, optimizer: torch.optim.Optimizer, strategy: str, *, group: dist.ProcessGroup | None = None,
          steps: int = 8, fragments: int = 1, delay: int = 0, passes: int = 1, servers: int = 1, staleness: int = 2,
          local_epochs: int = 1, deltas: bool = False, batch_norm: str = "mean", outer: Mapping[str, float] | None = None,
          codec: str = "auto", codec_options: Mapping[str, object] | None = None, route: str = "auto", small_route: str = "auto",
          small_kb: int = 0, segment_kb: int = 0, bucket_mb: float = 25, seed: int = 0, steps_per_epoch: int = 0,
          samples_per_epoch: int = 0, uneven_batches: bool = False, own_rates: bool = False,
          before_update: Callable[[], object] | None = None) -> Agreement:
    """Begins to agree: all ranks of the group call it, with the same module, strategy and options.

    All get rank 0's parameters and buffers. The module must be on one device, in fp32 or fp64; its parameters become views of one flat
    block: load weights, and move the module, before. `group` must be one of backend "ripieno"; None: the default group.

    Options are those of recipes (docs/strategies.md), without the table's name:
    steps, fragments, delay: local-sgd, diloco. passes: accumulate, ring-passes, ring-groups. servers: ps-*, each beside a worker.
    staleness: ps-ssp. local_epochs, deltas, batch_norm ("rank0", "mean", "local"): fedavg, fedavgm, fedadam. outer: learning_rate,
    momentum, beta1, beta2, epsilon of diloco's, fedavgm's and fedadam's step on averaged differences. codec, and codec_options:
    error_feedback, block, bits, fraction, rank. route, small_route, small_kb: accumulate, local-sgd, diloco. segment_kb. bucket_mb.
    seed: of partners and random rounding.
    steps_per_epoch: this rank's; needed by federated averaging, whose ranks weigh samples_per_epoch. uneven_batches: step() is told
    each batch's samples, by which batches count; else all batches count alike. own_rates: ranks that step by themselves (local-sgd,
    diloco, gossip-*, ring-passes, ring-groups, fed*) may have learning rates of their own; else those that differ are an error.
    before_update: called whenever the optimizer is about to step, when `.grad` holds what it steps on (the average, with strategies that
    average gradients): clip gradients there. Not with ps-*, whose servers step.

    ValueError: an unknown strategy or option, or what cannot work, with the reason. DistBackendError: ranks differ in model, strategy
    or options, or one was lost."""
    options: dict[str, object] = dict(
        steps=steps, fragments=fragments, delay=delay, passes=passes, servers=servers, staleness=staleness, local_epochs=local_epochs,
        deltas=deltas, batch_norm=batch_norm, route=route, small_route=small_route, small_kb=small_kb, segment_kb=segment_kb,
        bucket_mb=bucket_mb, seed=seed, steps_per_epoch=steps_per_epoch, samples_per_epoch=samples_per_epoch,
        uneven_batches=uneven_batches, own_rates=own_rates)
    options["codec.name"] = codec
    options.update({f"codec.{name}": value for name, value in (codec_options or {}).items()})
    options.update({f"outer.{name}": value for name, value in (outer or {}).items()})
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("the optimiser is LBFGS, which computes the loss again within a step, on gradients that nobody averages; "
                         "take another")
    core = _ripieno.Agreement(backend_of(group), list(module.named_parameters()), list(module.named_buffers()),
                              _UsersOptimiser(optimizer, before_update), strategy, options)
    return Agreement(core, strategy, codec)
