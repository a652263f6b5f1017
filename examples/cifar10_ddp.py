"""cifar10_ddp.cpp in Python, with PyTorch's DistributedDataParallel: the one word that is Ripieno's is the backend's name.

    torchrun --nproc-per-node 2 cifar10_ddp.py FOLDER [EPOCHS [CHECKPOINT]]

FOLDER holds CIFAR-10's data_batch_1.bin .. test_batch.bin; with "generated" images are made up."""

import contextlib
import datetime
import math
import os
import sys

import numpy as np
import ripieno  # noqa: F401: makes the backend known
import torch
import torch.distributed as dist
from torch import nn

BATCH, ACCUMULATED, TOP_RATE = 32, 2, 0.05  # samples of a worker in a pass, passes of a step


def generated(count):
    labels = torch.randint(0, 10, (count,))
    patterns = torch.sin(torch.arange(10 * 3 * 32 * 32) * 0.37).view(10, 3, 32, 32)
    return patterns[labels] + 0.7 * torch.randn(count, 3, 32, 32), labels


def read(folder, names):
    rows = torch.cat([torch.from_numpy(np.fromfile(os.path.join(folder, name), np.uint8).reshape(10000, 3073)) for name in names])
    return rows[:, 1:].reshape(-1, 3, 32, 32).float() / 127.5 - 1, rows[:, 0].long()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64)
        self.head = nn.Linear(64 * 4 * 4, 10)

    def forward(self, x):
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2), (self.conv3, self.norm3)):
            x = torch.max_pool2d(torch.relu(norm(conv(x))), 2)
        return self.head(x.flatten(1))


def optimiser_for(net):
    """Weights of convolutions and of the head decay; biases and batch norm's parameters do not."""
    decayed = [parameter for parameter in net.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in net.parameters() if parameter.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 5e-4}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=TOP_RATE, momentum=0.9, nesterov=True)


def rate_at(part):  # of training: up for a tenth, then a cosine
    return TOP_RATE * (part / 0.1 if part < 0.1 else (1 + math.cos(math.pi * (part - 0.1) / 0.9)) / 2)


def mean(value):
    tensor = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor.item()


@torch.no_grad()
def accuracy(net, pixels, labels):
    net.eval()
    mine = torch.arange(dist.get_rank(), len(labels), dist.get_world_size())
    correct = sum((net(pixels[part]).argmax(1) == labels[part]).sum().item() for part in mine.split(500))
    net.train()
    return mean(float(correct)) * dist.get_world_size() / len(labels)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: cifar10_ddp.py FOLDER|generated [EPOCHS [CHECKPOINT]]")
    folder, epochs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    checkpoint = sys.argv[3] if len(sys.argv) > 3 else None
    dist.init_process_group("ripieno", timeout=datetime.timedelta(minutes=5))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # the same images and weights everywhere
    if folder == "generated":
        (pixels, labels), test = generated(2048), generated(512)
    else:
        (pixels, labels), test = read(folder, [f"data_batch_{i}.bin" for i in range(1, 6)]), read(folder, ["test_batch.bin"])

    net = Net()
    optimiser, first = optimiser_for(net), 0
    if checkpoint and os.path.exists(checkpoint):
        saved = torch.load(checkpoint)
        net.load_state_dict(saved["net"])
        optimiser.load_state_dict(saved["optimiser"])
        first = saved["epoch"]
    model = nn.parallel.DistributedDataParallel(net)

    steps = len(labels) // (BATCH * ACCUMULATED * world)
    for epoch in range(first, epochs):
        torch.manual_seed(epoch)  # every worker shuffles alike, and takes its part
        order, loss_sum = torch.randperm(len(labels)), 0.0
        for step in range(steps):
            optimiser.zero_grad()
            for part in range(ACCUMULATED):
                with model.no_sync() if part + 1 < ACCUMULATED else contextlib.nullcontext():
                    begin = ((step * ACCUMULATED + part) * world + rank) * BATCH
                    mine = order[begin : begin + BATCH]
                    loss = nn.functional.cross_entropy(model(pixels[mine]), labels[mine]) / ACCUMULATED
                    loss.backward()
                    loss_sum += loss.item()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            for group in optimiser.param_groups:
                group["lr"] = rate_at((epoch + step / steps) / epochs)
            optimiser.step()
        loss, score = mean(loss_sum / steps), accuracy(net, *test)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {score:.4f}", flush=True)
            if checkpoint:
                torch.save({"net": net.state_dict(), "optimiser": optimiser.state_dict(), "epoch": epoch + 1}, checkpoint + ".new")
                os.replace(checkpoint + ".new", checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
