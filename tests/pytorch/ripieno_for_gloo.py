"""The one patch under which PyTorch's own tests judge the backend "ripieno": wherever torch.distributed would make a process group of
Gloo, it makes one of Ripieno. Tests that ask for "gloo" by name then run as they are."""
import datetime

import ripieno
import torch.distributed as dist
from torch.distributed import distributed_c10d


class ProcessGroupGloo(ripieno.ProcessGroupRipieno):
    def __init__(self, store: dist.Store, rank: int, size: int, timeout: datetime.timedelta, enable_reconfigure: bool = False):
        super().__init__(store, rank, size, timeout, backend_name="gloo", enable_reconfigure=enable_reconfigure)


def apply() -> None:
    distributed_c10d.ProcessGroupGloo = dist.ProcessGroupGloo = ProcessGroupGloo
