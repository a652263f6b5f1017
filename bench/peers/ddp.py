"""One worker of DistributedDataParallel over Gloo: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment,
as torchrun sets them. Either times steps, or with --epochs trains and tests until --until. Rank 0 prints JSON.

    torchrun --nproc-per-node 2 bench/peers/ddp.py --model vgg11 --data FOLDER --hook fp16 --bucket-mb 10"""

import argparse
import json
import math
import os
import statistics
import sys
import time

import data
import models
import training
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel


def gathered(value):
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


class Worker:
    def __init__(self, arguments):
        self.arguments, rank, ranks = arguments, dist.get_rank(), dist.get_world_size()
        images, labels = data.load(models.data_of(arguments.model), "train", arguments.data, arguments.samples)
        (variant,) = training.variants(arguments.engine, arguments.layout, arguments.optimiser_kind)
        self.trainer = training.Trainer(arguments, variant, images, labels, rank, ranks, self._wrap)
        if arguments.hook == "post-local-sgd":
            averager = PeriodicModelAverager(period=arguments.local_steps, warmup_steps=arguments.hook_start)
            self.trainer.optimiser = PostLocalSGDOptimizer(self.trainer.optimiser, averager)

    def _wrap(self, model):
        arguments = self.arguments
        if arguments.hook == "powersgd" and arguments.bucket_mb is None:
            # Its all-reduces start in callbacks: over Gloo those of two buckets meet in different orders, and the job dies.
            arguments.bucket_mb = 4096
        stated = {"gradient_as_bucket_view": True} if arguments.bucket_view else {}
        ddp = DistributedDataParallel(model, bucket_cap_mb=arguments.bucket_mb, broadcast_buffers=arguments.broadcast_buffers,
                                      static_graph=arguments.static_graph, **stated)
        if arguments.hook == "fp16":
            ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
        elif arguments.hook == "powersgd":
            state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=arguments.rank,
                                                start_powerSGD_iter=max(2, arguments.hook_start))
            ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        elif arguments.hook == "post-local-sgd":
            alone, _ = dist.new_subgroups(group_size=1)
            state = post_localSGD_hook.PostLocalSGDState(None, alone, arguments.hook_start, post_local_gradient_allreduce=False)
            ddp.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
        return ddp

    def time_steps(self):
        arguments = self.arguments
        self.trainer.timed(arguments.warmup)
        dist.barrier()
        used = training.cpu_seconds()
        start = time.perf_counter()
        times, losses = [], []
        for _ in range(arguments.steps):
            losses.append(self.trainer.step(arguments.same_dropout).item())
            now = time.perf_counter()
            times.append(now - start)
            start = now
        used = (training.cpu_seconds() - used) / arguments.steps
        all_times, all_losses = gathered(times), gathered(losses)
        return {"step_s": statistics.fmean(map(statistics.median, all_times)), "cpu_s": statistics.fmean(gathered(used)),
                "losses": [statistics.fmean(each) for each in zip(*all_losses)],
                "pss_bytes": max(gathered(training.proportional_set_size())), "times_s": all_times}

    def rate(self, progress):
        """Of --schedule, as Ripieno's learning_rate.cpp has it; progress: 0 to 1."""
        def half_cosine(begin, end, part):
            return begin + (end - begin) * 0.5 * (1 - math.cos(math.pi * part))
        if self.arguments.schedule == "constant":
            return self.arguments.rate
        if self.arguments.schedule == "cosine":
            return self.arguments.rate * half_cosine(1, 0, progress)
        peak = 0.3
        if progress < peak:
            return self.arguments.rate * half_cosine(0.04, 1, progress / peak)
        return self.arguments.rate * half_cosine(1, 0, (progress - peak) / (1 - peak))

    def train(self):
        """Until the accuracy is reached or the epochs are done; seconds of training, without those of tests."""
        arguments, trainer, ranks = self.arguments, self.trainer, dist.get_world_size()
        images, labels = data.load(models.data_of(arguments.model), "test", arguments.data)
        steps, seconds, history, done = trainer.batches.steps, 0.0, [], 0
        for epoch in range(arguments.epochs):
            dist.barrier()
            start = time.perf_counter()
            for indices in trainer.batches.epoch(epoch):
                for group in trainer.optimiser.param_groups:
                    group["lr"] = self.rate(done / (steps * arguments.epochs))
                batch = augment(trainer.images[indices], arguments)
                trainer.pass_over(batch.contiguous(memory_format=trainer.format), trainer.labels[indices])
                trainer.optimiser.step()
                trainer.optimiser.zero_grad()
                done += 1
            dist.barrier()
            seconds += time.perf_counter() - start
            accuracy = sum(gathered(correct(trainer, images, labels, dist.get_rank(), ranks))) / len(labels)
            history.append({"epoch": epoch + 1, "seconds": seconds, "accuracy": accuracy})
            if arguments.until and accuracy >= arguments.until:
                break
        return {"history": history, "reached": bool(arguments.until and history[-1]["accuracy"] >= arguments.until),
                "pss_bytes": max(gathered(training.proportional_set_size()))}


def augment(images, arguments):
    """Random crops of the padded image, and mirrored halves; Ripieno's distribution, with other random numbers."""
    count, _, height, width = images.shape
    if pad := arguments.crop_padding:
        padded = torch.nn.functional.pad(images, [pad] * 4)
        windows = padded.unfold(2, height, 1).unfold(3, width, 1)
        down, right = torch.randint(0, 2 * pad + 1, (2, count))
        images = windows[torch.arange(count), :, down, right]
    if arguments.flip:
        mirrored = torch.rand(count) < 0.5
        images = torch.where(mirrored.view(-1, 1, 1, 1), images.flip(3), images)
    return images


def correct(trainer, images, labels, rank, ranks):
    trainer.model.eval()
    begin, end = len(labels) * rank // ranks, len(labels) * (rank + 1) // ranks
    found = 0
    with torch.no_grad(), trainer.precision():
        for at in range(begin, end, 250):
            until = min(end, at + 250)
            found += (trainer.model(images[at:until]).argmax(1) == labels[at:until]).sum().item()
    trainer.model.train()
    return found


def main():
    parser = argparse.ArgumentParser()
    training.common_arguments(parser)
    parser.set_defaults(engine="eager", layout="plain", optimiser_kind="plain")
    parser.add_argument("--interface", help="for Gloo; else what GLOO_SOCKET_IFNAME says")
    parser.add_argument("--address", help="host:port of rank 0's meeting; else MASTER_ADDR and MASTER_PORT")
    parser.add_argument("--hook", default="none", choices=("none", "fp16", "powersgd", "post-local-sgd"))
    parser.add_argument("--hook-start", type=int, default=2, help="plain all-reduce for so many steps first: powersgd, post-local-sgd")
    parser.add_argument("--rank", type=int, default=2, help="powersgd: of the factors")
    parser.add_argument("--local-steps", type=int, default=8, help="post-local-sgd: between two averages")
    parser.add_argument("--bucket-mb", type=float, help="2^20 bytes; without: DDP's own")
    parser.add_argument("--broadcast-buffers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bucket-view", action="store_true", help="gradient_as_bucket_view")
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--same-dropout", action="store_true", help="as Ripieno seeds it: for comparing losses")
    parser.add_argument("--epochs", type=int, default=0, help="train; 0: time steps")
    parser.add_argument("--until", type=float, help="stop at this accuracy, 0 to 1")
    parser.add_argument("--schedule", default="constant", choices=("constant", "cosine", "one-cycle"))
    parser.add_argument("--crop-padding", type=int, default=0)
    parser.add_argument("--flip", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.interface:
        os.environ["GLOO_SOCKET_IFNAME"] = arguments.interface
    if arguments.address:
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = arguments.address.rsplit(":", 1)
    dist.init_process_group("gloo")
    worker = Worker(arguments)
    result = worker.train() if arguments.epochs else worker.time_steps()
    stated = {key: getattr(arguments, key) for key in ("model", "precision", "batch", "hook", "bucket_mb", "broadcast_buffers")}
    if dist.get_rank() == 0:
        print(json.dumps(stated | {"variant": str(worker.trainer.variant)} | result), flush=True)
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)  # all is done and printed; Gloo's threads now and then abort a process that ends in the usual way


if __name__ == "__main__":
    main()
