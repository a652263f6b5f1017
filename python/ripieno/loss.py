"""Which rank an error of the group is the consequence of."""
from typing import NamedTuple


class Loss(NamedTuple):
    """The attribute `loss` of a DistBackendError, None where it is not because of a lost rank:

        except torch.distributed.DistBackendError as error:
            if error.loss: print("lost rank", error.loss.rank, error.loss.how)"""

    rank: int
    """Who is lost, by its rank in the group; -1: that is not known."""
    how: str
    """"ended": its process or its connection; "silent": it was waited for in vain; "gave up": it ended with an error of its own."""
    told_by: int | None
    """The rank that has passed it on; None: this rank has seen it."""
