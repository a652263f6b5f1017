"""Bytes to the same accuracy: recipes/cifar10-fast.toml by two workers, with fp32 gradients averaged around a ring in every step
against what of Ripieno's choices sends least and does little harm (THIN), which goes on for two epochs more. All bytes that all ranks
send are counted, framing, set-up and evaluation included, from the first to the last. Needs real data in RIPIENO_DATA; a round
takes half an hour on two cores with bf16 instructions."""

import json
import statistics
import tempfile
from pathlib import Path

from lib import comparison, processes, ripieno
from lib.alternate import alternate, ratio, values
from lib.table import Row, stated

# The workers' mean once an epoch, in 4 bits a number.
THIN = {"strategy": "local-sgd", "local.steps": 25, "exchange.codec": "qsgd", "codec.bits": 4, "train.epochs": 10, "train.evaluate_every": 10}
WANTED_FEWER, WANTED_BASELINE, WANTED_WITHIN = 100, 93.0, -0.5


def trained(seed, data, more):
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        sets = {"data.folder": data, "run.folder": folder, "seed": seed, "workers": 2, "train.precision": ripieno.precision()} | more
        processes.run([ripieno.binary(), "train", comparison.ROOT / "recipes/cifar10-fast.toml", *ripieno.settings(sets)],
                      {"RIPIENO_SHARED_MEMORY": "off"}, timeout=7200)
        found = json.loads(next(Path(folder).glob("*/summary.json")).read_text())
        sent = sum(rank["bytes"]["payload_sent"] + rank["bytes"]["framing_sent"] for rank in found["ranks"])
        return {"bytes": sent, "accuracy": 100 * found["test"]["accuracy"]}


def rows(options):
    data = comparison.real_data_folder(options)
    small = {"data.train_samples": 2000, "data.test_samples": 500, "train.epochs": 1, "batch.global": 500, "local.steps": 2} if options.quick else {}
    seeds = {}

    def next_seed(side):
        seeds[side] = seeds.get(side, 0) + 1
        return seeds[side]

    sides = {"ring": lambda: trained(next_seed("ring"), data, {"strategy": "ring"} | small),
             "thin": lambda: trained(next_seed("thin"), data, THIN | small | options.sets)}
    count, name = comparison.whole_runs(options), "bytes_to_accuracy"
    rounds = alternate(sides, count)
    comparison.keep(name, rounds)
    accuracy = {side: statistics.fmean(values(rounds, side, "accuracy")) for side in sides}
    what = "CIFAR-10, fast recipe, two workers"
    return [Row(name, f"{what}, bytes of a whole run", "fp32 ring",
                ratio(values(rounds, "ring", "bytes"), values(rounds, "thin", "bytes")).times(1e-6), "MB", count, WANTED_FEWER),
            stated(name, f"{what}, mean accuracy of the fp32 ring", WANTED_BASELINE, accuracy["ring"], "%", count),
            stated(name, f"{what}, mean accuracy, difference to the fp32 ring", WANTED_WITHIN, accuracy["thin"] - accuracy["ring"],
                   "points", count)]


if __name__ == "__main__":
    comparison.main(rows, __doc__)
