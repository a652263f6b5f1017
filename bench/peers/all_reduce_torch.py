"""torch.distributed's all-reduce over Gloo, or another backend, one rank: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, for a link,
GLOO_SOCKET_IFNAME are in the environment (torchrun sets them, and so does bench/). The protocol is that of
`ripieno bench all-reduce` and of nccl-tests: a barrier, then a timed all-reduce, the mean over ranks. Rank 0 prints JSON.

    torchrun --nproc-per-node 2 bench/peers/all_reduce_torch.py 4096 45000000

The backend `fake` does nothing, so its sums are wrong: a bound of what the call itself costs.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist


def mean_over_ranks(value):
    box = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(box)
    return box.item() / dist.get_world_size()


def element(rank, count):
    """What `ripieno bench` gives rank `rank`: 1 at every fourth place. Sums are exact."""
    return ((torch.arange(count) + rank * 7) % 4 == 0).float()


def measure(size, iterations, warmup, drain):
    count, rank, ranks = size // 4, dist.get_rank(), dist.get_world_size()
    mine, times = element(rank, count), []
    buffer, junk = torch.empty(count), torch.zeros(drain // 4)
    for i in range(-warmup, iterations):
        buffer.copy_(mine)
        if drain:
            dist.all_reduce(junk)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(buffer)
        took = mean_over_ranks(time.perf_counter() - start)
        if i >= 0:
            times.append(took * 1e6)
    expected = sum(element(other, count) for other in range(ranks))
    wrong = round(mean_over_ranks((buffer != expected).sum().item()) * ranks)
    return {"bytes": size, "ranks": ranks, "times_us": times, "time_us": sum(times) / len(times), "wrong": wrong}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", type=int, nargs="+", help="bytes")
    parser.add_argument("-i", "--iterations", type=int, nargs="+", default=[20], help="timed: of all sizes, or of each")
    parser.add_argument("-w", "--warmup", type=int, default=3)
    parser.add_argument("--backend", default="gloo", choices=("gloo", "ripieno", "fake"))
    parser.add_argument("--drain", type=int, default=0, help="bytes that are all-reduced untimed before each: they empty a link's bucket")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.backend == "ripieno":
        import ripieno  # noqa: F401: makes the backend known
    if arguments.backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(arguments.backend)
    iterations = arguments.iterations
    if len(iterations) == 1:
        iterations *= len(arguments.sizes)
    rows = [measure(size, i, arguments.warmup, arguments.drain) for size, i in zip(arguments.sizes, iterations, strict=True)]
    if dist.get_rank() == 0:
        print(json.dumps(rows), flush=True)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # all is done and printed; Gloo's threads now and then abort a process that ends in the usual way


if __name__ == "__main__":
    main()
