"""Whole runs of the fast recipes. CIFAR-10 to 94 %: recipes/cifar10-fast.toml against the same recipe in PyTorch
(peers/cifar10_fast.py: bf16 autocast, channels-last), both with all cores, in fp32 where the processor has no bf16 instructions;
seconds of training and the last evaluation, and the accuracy. MNIST: how many seeds of ten recipes/mnist-fast.toml brings to 99 %
in one epoch. Needs real data in RIPIENO_DATA; a seed of CIFAR-10 takes half an hour on two cores with bf16; what was measured is
kept (lib/kept.py)."""

import json
import os
import statistics
import tempfile
from pathlib import Path

from lib import comparison, kept, processes, ranks, ripieno
from lib.alternate import ratio
from lib.table import Row, stated

NAME, PEER = "time_to_accuracy", comparison.ROOT / "bench/peers/cifar10_fast.py"
CIFAR, MNIST = (comparison.ROOT / f"recipes/{name}.toml" for name in ("cifar10-fast", "mnist-fast"))
WANTED_SPEEDUP = 1 / 0.75
WANTED_CIFAR, WANTED_MNIST, SEEDS, WANTED_SEEDS = 93.9, 99.0, 10, 9


def recipe(path, seed, data, more):
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        sets = {"data.folder": data, "run.folder": folder, "seed": seed} | more
        processes.run([ripieno.binary(), "train", path, *ripieno.settings(sets)], timeout=7200)
        found = json.loads(next(Path(folder).glob("*/summary.json")).read_text())
        return {"seconds": found["seconds"]["total"], "accuracy": 100 * found["test"]["accuracy"]}


def pytorch(seed, data, more):
    command = [ranks.PYTHON, PEER, "--data", data, "--seed", seed, "--threads", os.cpu_count()]
    found = json.loads(processes.run([*command, *more], timeout=7200).splitlines()[-1])
    return {"seconds": found["seconds"], "accuracy": 100 * found["accuracy"]}


def rows(options):
    data = comparison.real_data_folder(options)
    small = {"data.train_samples": 2000, "data.test_samples": 500, "train.epochs": 1, "batch.global": 500} if options.quick else {}
    shorter = ["--samples", 2000, "--test-samples", 500, "--epochs", 1, "--batch", 500] if options.quick else []
    precision = {"train.precision": ripieno.precision()}
    cifar, mnist = precision | small | options.sets, precision | ({"data.train_samples": 2000} if options.quick else {})
    seeds = kept.rounds(NAME, options, options.runs, [CIFAR.read_text(), cifar, PEER.read_text()],
                        {"Ripieno": lambda seed: recipe(CIFAR, seed, data, cifar),
                         "PyTorch": lambda seed: pytorch(seed, data, ["--precision", precision["train.precision"], *shorter])})
    mnists = kept.rounds(f"{NAME}-mnist", options, 2 if options.quick else SEEDS, [MNIST.read_text(), mnist],
                         {"Ripieno": lambda seed: recipe(MNIST, seed, data, mnist)})
    ours, theirs = (kept.values(seeds, side, "accuracy") for side in ("Ripieno", "PyTorch"))
    good = sum(accuracy >= WANTED_MNIST for accuracy in kept.values(mnists, "Ripieno", "accuracy"))
    what, count, where = f"CIFAR-10, fast recipe, {precision['train.precision']}", len(seeds), kept.places(seeds)
    return comparison.of_whole_runs(options, [
        Row(NAME, f"{what}, a whole run", "PyTorch",
            ratio(kept.values(seeds, "PyTorch", "seconds"), kept.values(seeds, "Ripieno", "seconds")), "s", count, WANTED_SPEEDUP,
            where=where),
        stated(NAME, f"{what}, mean accuracy", WANTED_CIFAR, statistics.fmean(ours), "%", count, where),
        Row(NAME, f"{what}, accuracy", "PyTorch", ratio(ours, theirs)._replace(
            first=statistics.median(theirs), second=statistics.median(ours)), "%", count, where=where),
        stated(NAME, f"MNIST, seeds of {len(mnists)} at {WANTED_MNIST:g} % after one epoch", WANTED_SEEDS, good, "seeds", 1,
               kept.places(mnists))])


if __name__ == "__main__":
    comparison.main(rows, __doc__)
