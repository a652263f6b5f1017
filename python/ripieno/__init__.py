"""Ripieno for PyTorch: a backend for torch.distributed over shared memory and TCP.

    import ripieno
    import torch.distributed as dist

    dist.init_process_group("ripieno")  # under torchrun, or with any init_method or store
    model = torch.nn.parallel.DistributedDataParallel(model)

All collectives of torch.distributed work on CPU tensors of every type; CUDA tensors go through the host."""
import datetime

import torch
import torch.distributed as dist

from ripieno import hooks
from ripieno._ripieno import ProcessGroupRipieno

__all__ = ["ProcessGroupRipieno", "hooks", "register"]


def _create(group: dist.distributed_c10d._DistributedBackendOptions, options: object) -> ProcessGroupRipieno:
    if options is not None:
        raise ValueError(f"init_process_group(pg_options={options!r}) has no effect with backend ripieno: leave it out")
    timeout = group.timeout if isinstance(group.timeout, datetime.timedelta) else datetime.timedelta(seconds=group.timeout)
    return ProcessGroupRipieno(group.store, group.group_rank, group.group_size, timeout, group.group_id, group.global_ranks_in_group)


def register() -> None:
    """Makes the backend "ripieno" known to torch.distributed. `import ripieno` has done so; a second call does nothing."""
    if "ripieno" not in dist.Backend.backend_list:
        dist.Backend.register_backend("ripieno", _create, extended_api=True, devices=["cpu", "cuda"])


register()
