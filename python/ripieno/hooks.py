"""Hooks for DistributedDataParallel: gradients are averaged with one of Ripieno's codecs.

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, ripieno.hooks.powersgd(2))

Each hook averages a bucket's gradients (fp32 or fp64, on the CPU or a GPU) over the ranks of the model's process group, which must be
one of backend "ripieno"; its first argument in register_comm_hook, the state, is that group, or None for the default group. Lossy
codecs keep what a step loses and add it to the next step's gradients, unless error_feedback is False. A hook serves one model.

What a hook keeps of this rank's gradients (residuals, powersgd's factors) is its state_dict(), and is in a pickle of it:

    torch.save(hook.state_dict(), f"hook-{rank}.pt")         # each rank its own, between two backward passes
    hook = ripieno.hooks.powersgd(2)                         # in a later run, with the same options
    hook.load_state_dict(torch.load(f"hook-{rank}.pt"))

Errors: ValueError for an option out of range, when the hook is made; otherwise those of the process group."""
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend, GradBucket, _ProcessGroupWrapper

from ripieno._ripieno import BucketAverages, ProcessGroupRipieno

__all__ = ["fp16", "bf16", "int8", "qsgd", "sign", "topk", "topk_sampled", "powersgd", "Hook"]

def unwrapped(backend: Backend) -> Backend:
    """Without the wrapper of TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    while isinstance(backend, _ProcessGroupWrapper):
        backend = backend.wrapped_pg
    return backend


def device_of(group: dist.ProcessGroup) -> torch.device:
    """Where the group takes tensors."""
    return torch.device("cpu") if torch.device("cpu") in group._device_types else torch.device("cuda", torch.cuda.current_device())


def backend_of(group: dist.ProcessGroup | None) -> ProcessGroupRipieno:
    """The group's backend; None: the default group's. ValueError: it is not one of Ripieno."""
    group = group or dist.group.WORLD
    if group is None:
        raise ValueError("there is no process group: call torch.distributed.init_process_group(\"ripieno\") first")
    backend = unwrapped(group._get_backend(torch.device("cpu")))
    if not isinstance(backend, ProcessGroupRipieno):
        raise ValueError(f"the process group's backend is {backend.name()}, and must be ripieno here: call "
                         "init_process_group(\"ripieno\"), or give a group made with new_group(backend=\"ripieno\")")
    return backend


class Hook:
    """Averages buckets of gradients with a codec: what the functions of this module return."""

    def __init__(self, codec: str, **options: object) -> None:
        self._averages = BucketAverages(codec, options)
        self._codec, self._options = codec, options
        self.__name__ = self.__qualname__ = codec.replace("-", "_")

    def __call__(self, state: dist.ProcessGroup | None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        shapes = [list(gradient.shape) for gradient in bucket.gradients()]
        work = backend_of(state)._average(self._averages, bucket.index(), bucket.buffer(), shapes)
        return work.get_future().then(lambda future: future.value()[0])

    def state_dict(self) -> dict[str, object]:
        """What the hook keeps of this rank's gradients, copied. Not while a backward pass is in flight."""
        return {"codec": self._codec, "options": dict(self._options), "buckets": self._averages.kept()}

    def load_state_dict(self, state: dict) -> None:
        """Goes on from what a hook with the same codec and options has kept; each bucket from when one with its gradients' shapes is
        averaged. ValueError: another codec or other options."""
        saved, own = (state["codec"], state["options"]), (self._codec, self._options)
        if saved != own:
            raise ValueError(f"what {self._described(*saved)} has kept is loaded into {self._described(*own)}: make the hook with the same "
                             "codec and options")
        self._averages.keep(state["buckets"])

    @staticmethod
    def _described(codec: str, options: dict[str, object]) -> str:
        return f"{codec}({', '.join(f'{name}={value}' for name, value in options.items())})"

    def __getstate__(self) -> dict[str, object]:
        return self.state_dict()

    def __setstate__(self, state: dict) -> None:
        self.__init__(state["codec"], **state["options"])
        self.load_state_dict(state)


def fp16() -> Hook:
    """Numbers travel as fp16: half the bytes. Beyond 65504 they become infinite."""
    return Hook("fp16")


def bf16() -> Hook:
    """Numbers travel as bf16: half the bytes, the range of fp32, 8 bits of precision."""
    return Hook("bf16")


def int8(block: int = 256, error_feedback: bool = True) -> Hook:
    """Numbers travel as 8-bit integers; `block` of them (8 .. 2^20, a multiple of 8) share a scale. About a quarter of the bytes."""
    return Hook("int8", block=block, error_feedback=error_feedback)


def qsgd(bits: int = 4, block: int = 256, error_feedback: bool = True) -> Hook:
    """Numbers travel as `bits` bits each (2 .. 8), rounded at random; `block` of them share a scale (Alistarh et al., NeurIPS 2017)."""
    return Hook("qsgd", bits=bits, block=block, error_feedback=error_feedback)


def sign(block: int = 256, error_feedback: bool = True) -> Hook:
    """Signs travel, with a scale for each `block` of numbers: about a 28th of the bytes (Karimireddy et al., ICML 2019)."""
    return Hook("sign", block=block, error_feedback=error_feedback)


def topk(fraction: float = 0.01, error_feedback: bool = True) -> Hook:
    """Each rank sends the `fraction` (0 .. 1] of its numbers that is largest."""
    return Hook("topk", fraction=fraction, error_feedback=error_feedback)


def topk_sampled(fraction: float = 0.01, error_feedback: bool = True) -> Hook:
    """As topk, with the threshold taken from a sample: about that fraction, found in less time."""
    return Hook("topk-sampled", fraction=fraction, error_feedback=error_feedback)


def powersgd(rank: int = 2, error_feedback: bool = True) -> Hook:
    """Matrices travel as two factors of `rank` (1 .. 64) columns (Vogels, Karimireddy and Jaggi, NeurIPS 2019); vectors travel whole."""
    return Hook("powersgd", rank=rank, error_feedback=error_feedback)
