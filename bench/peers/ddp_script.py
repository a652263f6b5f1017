"""An ordinary script of PyTorch's DistributedDataParallel, one rank: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the
environment (torchrun sets them). Backend ripieno needs the package ripieno in PYTHONPATH. Rank 0 prints JSON: the losses of the steps,
the median seconds of a step, and of one without the exchange (no_sync), which takes turns with it.

    torchrun --nproc-per-node 2 bench/peers/ddp_script.py gloo mlp"""

import argparse
import json
import os
import statistics
import sys
import time

import models
import torch
import torch.distributed as dist
from torch import nn


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))


# name -> the network, an image's sizes
NETS = {"mlp": (mlp, (1, 28, 28)), "resnet18": (models.ZOO["resnet18"], (3, 32, 32)), "vgg11": (models.vgg11, (3, 32, 32))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", choices=("gloo", "ripieno"))
    parser.add_argument("net", choices=NETS)
    parser.add_argument("-b", "--batch", type=int, default=64, help="samples of a rank")
    parser.add_argument("-i", "--steps", type=int, default=20)
    parser.add_argument("-w", "--warmup", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.backend == "ripieno":
        import ripieno  # noqa: F401: makes the backend known
    dist.init_process_group(arguments.backend)
    make, sizes = NETS[arguments.net]
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(make())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    idle = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)  # as long, and without an effect
    torch.manual_seed(2 + dist.get_rank())
    images, labels = torch.randn(arguments.batch, *sizes), torch.randint(0, 10, (arguments.batch,))

    def step():
        loss = nn.functional.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        return loss.item()

    losses, whole, alone = [], [], []
    for i in range(-arguments.warmup, arguments.steps):
        dist.barrier()
        start = time.perf_counter()
        losses.append(step())
        optimiser.step()
        with_exchange = time.perf_counter() - start
        dist.barrier()
        start = time.perf_counter()
        with model.no_sync():
            step()
        idle.step()
        without = time.perf_counter() - start
        if i >= 0:
            whole.append(with_exchange)
            alone.append(without)
    if dist.get_rank() == 0:
        print(json.dumps({"losses": losses, "step": statistics.median(whole), "alone": statistics.median(alone)}), flush=True)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # as all_reduce_gloo.py


if __name__ == "__main__":
    main()
