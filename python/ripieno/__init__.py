"""Ripieno for PyTorch: a backend for torch.distributed over shared memory and TCP.

    import ripieno
    import torch.distributed as dist

    dist.init_process_group("ripieno")  # under torchrun, or with any init_method or store
    model = torch.nn.parallel.DistributedDataParallel(model)

All collectives of torch.distributed work on CPU tensors of every type; CUDA tensors go through the host."""
import contextlib
import datetime
import multiprocessing.util
import os
import sys
import types

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _DistributedBackendOptions

from ripieno import hooks
from ripieno._ripieno import ProcessGroupRipieno, end_groups
from ripieno.agreement import Agreement, agree
from ripieno.loss import Loss
from ripieno.replicas import check_replicas
from ripieno.run import Run

__all__ = ["Agreement", "Loss", "ProcessGroupRipieno", "Run", "agree", "check_replicas", "hooks", "monitored_barrier", "register"]


def _create(group: _DistributedBackendOptions, options: object) -> ProcessGroupRipieno:
    if options is not None:
        raise ValueError(f"pg_options={options!r} has no effect with backend ripieno: leave it out")
    # DistributedDataParallel then keeps its buckets in memory that peers read in place. It asks the groups of its model; others have none.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    timeout = group.timeout if isinstance(group.timeout, datetime.timedelta) else datetime.timedelta(seconds=group.timeout)
    return ProcessGroupRipieno(group.store, group.group_rank, group.group_size, timeout, group.group_id, group.global_ranks_in_group,
                               enable_reconfigure=getattr(group, "enable_reconfigure", False))  # PyTorch 2.14


def monitored_barrier(group: dist.ProcessGroup | None = None, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """As torch.distributed.monitored_barrier, which takes Gloo's groups only: returns when all ranks have come.

    RuntimeError: some have not within `timeout` (the group's, if None); on rank 0 it names the first of them, or with `wait_all_ranks`
    every one; on the others, which get it at the same time, the first."""
    backend = hooks.backend_of(group)
    backend.monitored_barrier(backend.options._timeout if timeout is None else timeout, wait_all_ranks)


def register() -> None:
    """Makes the backend "ripieno" known to torch.distributed. `import ripieno` has done so; a second call does nothing."""
    if "ripieno" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ripieno", _create, extended_api=True, devices=["cpu", "cuda"])


def _tell_other_ranks(error: BaseException) -> None:
    """Of an exception that ends this process: their errors then say what it was, and not only that this rank is lost."""
    with contextlib.suppress(Exception):  # this process ends anyway
        end_groups(f"its process ends with {type(error).__name__}: {error}".splitlines()[0])


def _watch_script() -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        before(kind, error, trace)
        goes_on = hasattr(sys, "ps1") or sys.flags.interactive
        if not goes_on:
            _tell_other_ranks(error)

    sys.excepthook = hook


def _watch_child() -> None:
    """A process of multiprocessing calls no excepthook: it ends by its finalizers, before Python 3.13 while the exception is on its way out."""
    def finish() -> None:
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):  # torch.multiprocessing.spawn() ends so, once it has kept the exception for the parent
            error = error.__context__ if error.code else None
        if error is not None:
            _tell_other_ranks(error)

    multiprocessing.util.Finalize(None, finish, exitpriority=100)


register()
_watch_script()
_watch_child()
multiprocessing.util.register_after_fork(_watch_child, lambda _: _watch_child())  # a child begins without its parent's finalizers
