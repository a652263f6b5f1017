"""Ripieno for PyTorch: a backend for torch.distributed over shared memory and TCP.

    import ripieno
    import torch.distributed as dist

    dist.init_process_group("ripieno")  # under torchrun, or with any init_method or store
    model = torch.nn.parallel.DistributedDataParallel(model)

All collectives of torch.distributed work on CPU tensors of every type; CUDA tensors go through the host."""
import contextlib
import datetime
import os
import sys
import types

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _DistributedBackendOptions

from ripieno import hooks
from ripieno._ripieno import ProcessGroupRipieno, end_groups
from ripieno.agreement import Agreement, agree
from ripieno.replicas import check_replicas
from ripieno.run import Run

__all__ = ["Agreement", "ProcessGroupRipieno", "Run", "agree", "check_replicas", "hooks", "monitored_barrier", "register"]


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
    backend.monitored_barrier(timeout or backend.options._timeout, wait_all_ranks)


def register() -> None:
    """Makes the backend "ripieno" known to torch.distributed. `import ripieno` has done so; a second call does nothing."""
    if "ripieno" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ripieno", _create, extended_api=True, devices=["cpu", "cuda"])


def _tell_other_ranks() -> None:
    """Of an exception that ends this process: their errors then say what it was, and not only that this rank is lost."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        before(kind, error, trace)
        goes_on = hasattr(sys, "ps1") or sys.flags.interactive
        if not goes_on:
            with contextlib.suppress(Exception):  # this process ends anyway
                end_groups(f"its process ends with {kind.__name__}: {error}".splitlines()[0])

    sys.excepthook = hook


register()
_tell_other_ranks()
