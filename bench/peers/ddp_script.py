"""An ordinary script of PyTorch's DistributedDataParallel, one rank: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the
environment (torchrun sets them). Backend ripieno needs the package ripieno in PYTHONPATH; "agree" is ripieno.agree(.., "ring") in
DistributedDataParallel's place. Of several there is a model for each, all of the same weights, and their steps take turns. Rank 0
prints JSON: for each the losses of its steps and the median seconds of a step; for DistributedDataParallel those of one without the
exchange (no_sync), too, which take turns as well.

    torchrun --nproc-per-node 2 bench/peers/ddp_script.py mlp gloo ripieno agree"""

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


class Training:
    """A model whose gradients one backend averages, over a group of its own."""

    def __init__(self, backend, make, options):
        torch.manual_seed(1)
        self.model = make()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.idle = torch.optim.SGD(self.model.parameters(), lr=0.0, momentum=0.9)  # as long, and without an effect
        self.is_ddp, self.update = backend != "agree", self.optimiser
        group = dist.new_group(backend="gloo" if backend == "gloo" else "ripieno")
        if self.is_ddp:
            self.model = nn.parallel.DistributedDataParallel(self.model, process_group=group, **options)
        else:
            import ripieno
            self.update = ripieno.agree(self.model, self.optimiser, "ring", group=group)
        self.losses, self.whole, self.alone = [], [], []

    def forward_and_back(self, images, labels):
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.optimiser.zero_grad()
        loss.backward()
        return loss.item()

    def step(self, images, labels):
        dist.barrier()
        start = time.perf_counter()
        self.losses.append(self.forward_and_back(images, labels))
        self.update.step()
        self.whole.append(time.perf_counter() - start)

    def step_alone(self, images, labels):
        dist.barrier()
        start = time.perf_counter()
        with self.model.no_sync():
            self.forward_and_back(images, labels)
        self.idle.step()
        self.alone.append(time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("net", choices=NETS)
    parser.add_argument("backends", choices=("gloo", "ripieno", "agree"), nargs="+", metavar="backend")
    parser.add_argument("-b", "--batch", type=int, default=64, help="samples of a rank")
    parser.add_argument("-i", "--steps", type=int, default=20)
    parser.add_argument("-w", "--warmup", type=int, default=4)
    parser.add_argument("--bucket-views", action="store_true", help="gradient_as_bucket_view=True, which is DDP's option to copy nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.backends != ["gloo"]:
        import ripieno  # noqa: F401: makes the backend known
    dist.init_process_group("gloo")
    make, sizes = NETS[arguments.net]
    trainings = {backend: Training(backend, make, {"gradient_as_bucket_view": arguments.bucket_views}) for backend in arguments.backends}
    torch.manual_seed(2 + dist.get_rank())
    batch = torch.randn(arguments.batch, *sizes), torch.randint(0, 10, (arguments.batch,))
    turns = list(trainings.values())
    for _ in range(arguments.warmup + arguments.steps):
        for training in turns:
            training.step(*batch)
        for training in filter(lambda one: one.is_ddp, turns):
            training.step_alone(*batch)
        turns.reverse()
    if dist.get_rank() == 0:
        def median(times):
            return statistics.median(times[arguments.warmup:])

        print(json.dumps({backend: {"losses": one.losses, "step": median(one.whole)} | ({"alone": median(one.alone)} if one.is_ddp else {})
                          for backend, one in trainings.items()}), flush=True)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # as all_reduce_gloo.py


if __name__ == "__main__":
    main()
