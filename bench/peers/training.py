"""Training steps as a user of PyTorch writes them: what step.py and ddp.py share."""

import argparse
import contextlib
import ctypes
import os
import resource
import time
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # compile in this process: no pool of them stays

import torch

import data
import models


class Variant(NamedTuple):
    engine: str          # "eager" or "compile"
    channels_last: bool
    fused: bool          # the optimiser

    def __str__(self):
        return "+".join([self.engine, *["channels-last"] * self.channels_last, *["fused"] * self.fused])


def variants(engine="all", layout="all", optimiser="all"):
    engines = ("eager", "compile") if engine == "all" else (engine,)
    layouts = (False, True) if layout == "all" else (layout == "channels-last",)
    fused = (False, True) if optimiser == "all" else (optimiser == "fused",)
    return [Variant(*choice) for choice in ((e, c, f) for e in engines for c in layouts for f in fused)]


def common_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--model", required=True, choices=models.ZOO)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    parser.add_argument("--batch", type=int, default=64, help="samples a step and worker")
    parser.add_argument("--data", required=True, help="a folder with MNIST's or CIFAR-10's files")
    parser.add_argument("--samples", type=int, default=0, help="train on the first so many; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="a model.pt to begin with; without, those of the seed")
    parser.add_argument("--optimiser", default="sgd", choices=("sgd", "adam", "adamw"))
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0)
    parser.add_argument("--label-smoothing", type=float, default=0)
    parser.add_argument("--nesterov", action="store_true")
    parser.add_argument("--engine", default="all", choices=("eager", "compile", "all"))
    parser.add_argument("--layout", default="all", choices=("plain", "channels-last", "all"))
    parser.add_argument("--optimiser-kind", default="all", choices=("plain", "fused", "all"))


def make_optimiser(arguments, parameters, fused):
    if arguments.optimiser == "sgd":
        return torch.optim.SGD(parameters, arguments.rate, arguments.momentum, weight_decay=arguments.weight_decay,
                               nesterov=arguments.nesterov, fused=fused)
    kind = torch.optim.Adam if arguments.optimiser == "adam" else torch.optim.AdamW
    return kind(parameters, arguments.rate, weight_decay=arguments.weight_decay, fused=fused)


class Trainer:
    """One worker. wrap: what becomes of the model before it is compiled or run (DistributedDataParallel)."""

    def __init__(self, arguments, variant, images, labels, worker=0, workers=1, wrap=lambda model: model):
        self.arguments, self.variant, self.worker = arguments, variant, worker
        self.format = torch.channels_last if variant.channels_last else torch.contiguous_format
        self.model = models.make(arguments.model, arguments.seed, arguments.weights).to(memory_format=self.format)
        self.images, self.labels = images.contiguous(memory_format=self.format), labels
        self.batches = data.Batches(len(labels), arguments.batch * workers, worker, workers, arguments.seed)
        self.stream = self.batches.forever()
        self.wrapped = wrap(self.model)
        self.optimiser = make_optimiser(arguments, self.model.parameters(), variant.fused)
        self.forward = torch.compile(self._loss) if variant.engine == "compile" else self._loss

    def _loss(self, images, labels):
        smoothing = self.arguments.label_smoothing
        return torch.nn.functional.cross_entropy(self.wrapped(images), labels, label_smoothing=smoothing)

    def precision(self):
        if self.arguments.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast("cpu", torch.bfloat16)

    def pass_over(self, images, labels):
        """Forward and backward; the loss."""
        with self.precision():
            loss = self.forward(images, labels)
        loss.backward()
        return loss.detach()

    def step(self, same_dropout=False):
        epoch, step, indices = next(self.stream)
        if same_dropout:
            torch.manual_seed(data.dropout_seed(self.arguments.seed, epoch, step, self.worker))
        images = self.images[indices].contiguous(memory_format=self.format)
        loss = self.pass_over(images, self.labels[indices])
        self.optimiser.step()
        self.optimiser.zero_grad()
        return loss

    def timed(self, steps):
        """Seconds of each step."""
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return times


def keep_freed_memory():
    """What ripieno/core/memory.cpp does: not PyTorch's default, but within a user's reach."""
    libc = ctypes.CDLL(None)
    for option, value in ((-8, 1), (-4, 0), (-1, -1), (-2, 16 << 20)):  # M_ARENA_MAX, M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD
        libc.mallopt(option, value)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def proportional_set_size():
    """Bytes: shared pages count as shares."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
