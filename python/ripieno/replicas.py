"""Whether all ranks hold the same model, which PyTorch's DistributedDataParallel does not look at.

    ripieno.check_replicas(model)    # as often as one likes: after each epoch, after loading"""
import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy

from ripieno.hooks import device_of

__all__ = ["check_replicas"]

Data = TypeVar("Data", bytes, torch.Tensor)

_CODE = 8  # bytes of a hash
_BLOCK = 1 << 16  # bytes: where two tensors differ is looked for by the hashes of their blocks
_RULES = {
    "parameter": "whatever changes parameters (the optimiser, its learning rate, clipping, loading) must be the same on all ranks",
    "buffer": "a buffer is each rank's own unless something makes it the same (DistributedDataParallel by rank 0's before each forward pass, "
              "SyncBatchNorm)",
}


def _code_of(data: bytes | torch.Tensor) -> bytes:
    """A hash. `data`: bytes, or a CPU tensor of them, whose memory is read where it lies."""
    if isinstance(data, torch.Tensor):
        size = data.numel()
        return hashlib.sha256((ctypes.c_char * size).from_address(data.data_ptr()) if size else b"").digest()[:_CODE]
    return hashlib.sha256(data).digest()[:_CODE]


@dataclass
class _Part:
    """A parameter or buffer."""
    kind: str
    name: str
    tensor: torch.Tensor
    is_compared: bool  # its numbers are

    def line(self) -> str:
        """What must be the same on all ranks, beside its numbers."""
        if is_lazy(self.tensor):
            return f"{self.kind} {self.name}, not initialised yet"
        line = f"{self.kind} {self.name} of shape {list(self.tensor.shape)} and type {str(self.tensor.dtype).removeprefix('torch.')}"
        if self.kind == "parameter" and not self.tensor.requires_grad:
            line += ", frozen"
        if self.tensor.is_meta:
            line += ", without numbers"
        return line if self.is_compared else f"{line}, not compared"

    def numbers(self) -> torch.Tensor:
        """Shape [elements], on the CPU. All NaNs are the same one."""
        tensor = self.tensor.detach()
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        tensor = tensor.cpu().resolve_conj().resolve_neg().reshape(-1)
        if (tensor.is_floating_point() or tensor.is_complex()) and tensor.element_size() > 1:
            if tensor.sum().isnan():  # which is so if one of them is, and takes less time
                tensor = tensor.masked_fill(tensor.isnan(), float("nan"))
        return tensor.contiguous()

    def bytes(self) -> torch.Tensor:
        """Of its numbers: uint8, shape [bytes]; none if they are not compared."""
        if not self.is_compared or is_lazy(self.tensor) or self.tensor.is_meta:
            return torch.empty(0, dtype=torch.uint8)
        return self.numbers().view(torch.uint8)


def _parts_of(model: torch.nn.Module) -> Iterator[_Part]:
    ignored: set[str] = set()
    gives_buffers = False
    if isinstance(model, DistributedDataParallel):
        ignored, gives_buffers = set(model.parameters_to_ignore), bool(model.broadcast_buffers)
        model = model.module
    for name, parameter in model.named_parameters():
        if hasattr(parameter, "device_mesh"):
            raise ValueError(f"{name} is a DTensor, of which ranks may hold different parts: check_replicas compares models that each rank has whole")
        yield _Part("parameter", name, parameter, name not in ignored)
    for name, buffer in model.named_buffers():
        yield _Part("buffer", name, buffer, name not in ignored and not gives_buffers)


class _Ranks:
    """What the ranks of a group tell each other. All of them call each of these together."""

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        if dist.get_rank(group) < 0:
            raise ValueError("this process is not in the group: call check_replicas on the group's ranks alone")
        self._group = group or dist.distributed_c10d._get_default_group()
        self._ranks = dist.get_process_group_ranks(self._group)
        self._device = device_of(self._group)

    def name(self, index: int) -> str:
        return f"rank {self._ranks[index]}"

    def all(self, own: bytes) -> list[bytes]:
        """What each rank gives, which has the same length on all: 1 byte or more."""
        mine = torch.frombuffer(bytearray(own), dtype=torch.uint8).to(self._device)
        gathered = [torch.empty_like(mine) for _ in self._ranks]
        dist.all_gather(gathered, mine, group=self._group)
        return [bytes(one.tolist()) for one in gathered]

    def all_lines(self, own: list[str]) -> list[list[str]]:
        text = "\n".join(own).encode()
        sizes = [int.from_bytes(size, "little") for size in self.all(len(text).to_bytes(8, "little"))]
        padded = self.all(text.ljust(max(sizes), b"\0"))
        return [text[:size].decode().split("\n") for text, size in zip(padded, sizes, strict=True)]


def _split(data: Data, size: int) -> list[Data]:
    return [data[begin:begin + size] for begin in range(0, len(data), size)]


def _first_difference(all_codes: list[list[bytes]]) -> tuple[int, int]:
    """Of the ranks' lists, which have one length, the first place where one differs from the first rank's; and the first such rank."""
    return next((place, rank) for place, codes in enumerate(zip(*all_codes, strict=True)) for rank, code in enumerate(codes) if code != codes[0])


def _raise_for_lines(ranks: _Ranks, own: list[str]) -> None:
    first, *others = ranks.all_lines(own)
    differing = [(place, rank, theirs, of_first) for rank, lines in enumerate(others, 1)
                 for place, (theirs, of_first) in enumerate(zip_longest(lines, first, fillvalue="nothing more")) if theirs != of_first]
    _, rank, theirs, of_first = min(differing)
    raise RuntimeError(f"{ranks.name(rank)} has {theirs} where {ranks.name(0)} has {of_first}: all ranks must have the same model")


def _texts_of(first: object, second: object) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as tell them apart."""
    if not isinstance(first, float | complex):
        return str(first), str(second)
    for digits in range(4, 18):
        texts = f"{first:.{digits}g}", f"{second:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _index_of(element: int, shape: torch.Size) -> str:
    """As "[3, 4]", or "" for a number without dimensions."""
    index: list[int] = []
    for size in reversed(shape):
        element, place = divmod(element, size)
        index.insert(0, place)
    return str(index) if index else ""


def _raise_for_numbers(ranks: _Ranks, parts: list[_Part], codes: bytes) -> None:
    place, rank = _first_difference([_split(theirs, _CODE) for theirs in ranks.all(codes)])
    part = parts[place]
    own = part.bytes()
    all_blocks = ranks.all(b"".join(_code_of(block) for block in _split(own, _BLOCK)))
    block, _ = _first_difference([_split(all_blocks[one], _CODE) for one in (0, rank)])
    all_bytes = ranks.all(bytes(own[block * _BLOCK:(block + 1) * _BLOCK].tolist()))
    size = part.tensor.element_size()
    elements = [_split(all_bytes[one], size) for one in (0, rank)]
    element, _ = _first_difference(elements)
    of_first, theirs = _texts_of(*(torch.frombuffer(bytearray(one[element]), dtype=part.tensor.dtype).item() for one in elements))
    where = _index_of(block * _BLOCK // size + element, part.tensor.shape)
    raise RuntimeError(f"{ranks.name(rank)} holds {theirs} in {part.name}{where} where {ranks.name(0)} holds {of_first}: {_RULES[part.kind]}")


def check_replicas(model: torch.nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Returns if all ranks of the group hold the same model, to the bit: a model whose ranks have parted learns something else, without
    an error. All ranks of the group call it, between steps.

    `model`: whole on each rank. Of a DistributedDataParallel the module is compared, without what that is told to ignore, and without the
    numbers of buffers if it broadcasts them: they are each rank's own from one forward pass to the next. (Give `model.module` to compare
    them, too.) `group`: of any backend; None: the model's, if it is a DistributedDataParallel, else the default group. A NaN equals a NaN.

    It costs an exchange of 16 bytes, and about a second for each GB of the model, which is hashed; a GPU's is copied to the host.

    RuntimeError, on all ranks, in one line: the first parameter or buffer that differs, two ranks (of the default group) that differ in
    it, and for both its name, shape and type, or the first number that differs. ValueError: there is no group, this process is not in it,
    or the model is in parts."""
    if group is None and isinstance(model, DistributedDataParallel):
        group = model.process_group
    ranks = _Ranks(group)
    parts = list(_parts_of(model))
    lines = [part.line() for part in parts]
    codes = b"".join(_code_of(part.bytes()) for part in parts)
    first, *others = ranks.all(_code_of("\n".join(lines).encode()) + _code_of(codes))
    if any(code[:_CODE] != first[:_CODE] for code in others):
        _raise_for_lines(ranks, lines)
    if any(code != first for code in others):
        _raise_for_numbers(ranks, parts, codes)
