"""A training step of one worker on one thread in PyTorch: eager and torch.compile, each with and without channels-last
and a fused optimiser. Prints JSON: every variant's step, and the best.

    python bench/peers/step.py --model vgg11 --precision bf16 --data FOLDER

With --serve it reads commands, one a line, and answers each with a line of JSON: "choose STEPS" tries all variants and
keeps the best; "run STEPS" times more steps of that one; "losses STEPS" trains afresh, eagerly, with Ripieno's dropout, in both layouts."""

import argparse
import json
import statistics
import sys

import data
import models
import training
import torch


class Peer:
    def __init__(self, arguments):
        self.arguments = arguments
        self.images, self.labels = data.load(models.data_of(arguments.model), "train", arguments.data, arguments.samples)
        self.best = None

    def trainer(self, variant):
        return training.Trainer(self.arguments, variant, self.images, self.labels)

    def choose(self, steps):
        arguments, tried, least = self.arguments, {}, None
        for variant in training.variants(arguments.engine, arguments.layout, arguments.optimiser_kind):
            trainer = self.trainer(variant)
            trainer.timed(arguments.warmup)
            tried[str(variant)] = took = statistics.median(trainer.timed(steps))
            if least is None or took < least:
                least, self.best = took, trainer
        return {"seconds": tried, "best": str(self.best.variant)}

    def run(self, steps):
        self.best.timed(2)
        return {"step_s": statistics.median(self.best.timed(steps)), "variant": str(self.best.variant)}

    def losses(self, steps):
        found = []
        for channels_last in (False, True):
            trainer = self.trainer(training.Variant("eager", channels_last, False))
            found.append([trainer.step(same_dropout=True).item() for _ in range(steps)])
        return {"losses": found}


def main():
    parser = argparse.ArgumentParser()
    training.common_arguments(parser)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--keep-memory", action="store_true", help="have malloc keep freed memory, as Ripieno's program does")
    arguments = parser.parse_args()
    if arguments.keep_memory:
        training.keep_freed_memory()
    torch.set_num_threads(1)
    peer = Peer(arguments)
    if not arguments.serve:
        print(json.dumps(peer.choose(arguments.steps), indent=2))
        return
    for line in sys.stdin:
        command, steps = line.split()
        work = {"choose": peer.choose, "run": peer.run, "losses": peer.losses}[command]
        print(json.dumps(work(int(steps))), flush=True)


if __name__ == "__main__":
    main()
