"""Whole runs of the fast recipes. CIFAR-10 to 94 %: recipes/cifar10-fast.toml against the same recipe in PyTorch
(peers/cifar10_fast.py: bf16 autocast, channels-last), both with all cores; seconds of training and the last evaluation, and the
accuracy. MNIST: how many seeds of ten recipes/mnist-fast.toml brings to 99 % in one epoch. Needs real data in RIPIENO_DATA;
a round of CIFAR-10 takes half an hour on two cores."""

import json
import os
import statistics
import tempfile
from pathlib import Path

from lib import comparison, processes, ranks, ripieno
from lib.alternate import alternate, ratio, values
from lib.table import Row, stated

WANTED_SPEEDUP = 1 / 0.75
WANTED_CIFAR, WANTED_MNIST, SEEDS, WANTED_SEEDS = 93.9, 99.0, 10, 9


def recipe(name, seed, data, more):
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        sets = {"data.folder": data, "run.folder": folder, "seed": seed} | more
        processes.run([ripieno.binary(), "train", comparison.ROOT / f"recipes/{name}.toml", *ripieno.settings(sets)], timeout=7200)
        found = json.loads(next(Path(folder).glob("*/summary.json")).read_text())
        return {"seconds": found["seconds"]["total"], "accuracy": 100 * found["test"]["accuracy"]}


def pytorch(seed, data, more):
    command = [ranks.PYTHON, comparison.ROOT / "bench/peers/cifar10_fast.py", "--data", data, "--seed", seed, "--threads", os.cpu_count()]
    found = json.loads(processes.run([*command, *more], timeout=7200).splitlines()[-1])
    return {"seconds": found["seconds"], "accuracy": 100 * found["accuracy"]}


def rows(options):
    data = comparison.real_data_folder(options)
    small = {"data.train_samples": 2000, "data.test_samples": 500, "train.epochs": 1, "batch.global": 500} if options.quick else {}
    shorter = ["--samples", 2000, "--test-samples", 500, "--epochs", 1, "--batch", 500] if options.quick else []
    seeds = {"Ripieno": 0, "PyTorch": 0}

    def next_seed(side):
        seeds[side] += 1
        return seeds[side]

    count = comparison.whole_runs(options)
    rounds = alternate({"Ripieno": lambda: recipe("cifar10-fast", next_seed("Ripieno"), data, small | options.sets),
                        "PyTorch": lambda: pytorch(next_seed("PyTorch"), data, shorter)}, count)
    accuracies = values(rounds, "Ripieno", "accuracy"), values(rounds, "PyTorch", "accuracy")
    mnist = [recipe("mnist-fast", seed, data, {"data.train_samples": 2000} if options.quick else {}) for seed in range(1, 3 if options.quick else SEEDS + 1)]
    good = sum(each["accuracy"] >= WANTED_MNIST for each in mnist)
    comparison.keep("time_to_accuracy", {"cifar10": rounds, "mnist": mnist})
    name, what = "time_to_accuracy", "CIFAR-10, fast recipe"
    return [Row(name, f"{what}, a whole run", "PyTorch",
                ratio(values(rounds, "PyTorch", "seconds"), values(rounds, "Ripieno", "seconds")), "s", count, WANTED_SPEEDUP),
            stated(name, f"{what}, mean accuracy", WANTED_CIFAR, statistics.fmean(accuracies[0]), "%", count),
            Row(name, f"{what}, accuracy", "PyTorch", ratio(accuracies[0], accuracies[1])._replace(
                first=statistics.median(accuracies[1]), second=statistics.median(accuracies[0])), "%", count),
            stated(name, f"MNIST, seeds of {len(mnist)} at {WANTED_MNIST:g} % after one epoch", WANTED_SEEDS, good, "seeds", 1)]


if __name__ == "__main__":
    comparison.main(rows, __doc__)
