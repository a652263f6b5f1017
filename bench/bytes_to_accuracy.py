"""Bytes to the same accuracy: recipes/cifar10-fast.toml by two workers, with fp32 gradients averaged around a ring in every step
against what of Ripieno's choices sends least and does little harm (THIN), which goes on for two epochs more. All bytes that all ranks
send are counted, framing, set-up and evaluation included, from the first to the last. Needs real data in RIPIENO_DATA; a seed
takes half an hour on two cores with bf16 instructions, an hour without; what was measured is kept (lib/kept.py)."""

import json
import statistics
import tempfile
from pathlib import Path

from lib import comparison, kept, processes, ripieno
from lib.alternate import ratio
from lib.table import Row, stated

# The workers' mean once an epoch, in 4 bits a number.
THIN = {"strategy": "local-sgd", "local.steps": 25, "exchange.codec": "qsgd", "codec.bits": 4, "train.epochs": 10, "train.evaluate_every": 10}
WANTED_FEWER, WANTED_BASELINE, WANTED_WITHIN = 100, 93.0, -0.5
NAME, RECIPE = "bytes_to_accuracy", comparison.ROOT / "recipes/cifar10-fast.toml"


def trained(seed, data, more):
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        sets = {"data.folder": data, "run.folder": folder, "seed": seed, "workers": 2, "train.precision": ripieno.precision()} | more
        processes.run([ripieno.binary(), "train", RECIPE, *ripieno.settings(sets)],
                      {"RIPIENO_SHARED_MEMORY": "off"}, timeout=7200)
        found = json.loads(next(Path(folder).glob("*/summary.json")).read_text())
        sent = sum(rank["bytes"]["payload_sent"] + rank["bytes"]["framing_sent"] for rank in found["ranks"])
        return {"bytes": sent, "accuracy": 100 * found["test"]["accuracy"]}


def rows(options):
    data = comparison.real_data_folder(options)
    small = {"data.train_samples": 2000, "data.test_samples": 500, "train.epochs": 1, "batch.global": 500} if options.quick else {}
    ring, thin = {"strategy": "ring"} | small, THIN | small | ({"local.steps": 2} if options.quick else {}) | options.sets
    seeds = kept.rounds(NAME, options, options.runs, [RECIPE.read_text(), ring, thin],
                        {"ring": lambda seed: trained(seed, data, ring), "thin": lambda seed: trained(seed, data, thin)})
    accuracy = {side: statistics.fmean(kept.values(seeds, side, "accuracy")) for side in ("ring", "thin")}
    what, count, where = "CIFAR-10, fast recipe, two workers", len(seeds), kept.places(seeds)
    return comparison.of_whole_runs(options, [
        Row(NAME, f"{what}, bytes of a whole run", "fp32 ring",
            ratio(kept.values(seeds, "ring", "bytes"), kept.values(seeds, "thin", "bytes")).times(1e-6), "MB", count, WANTED_FEWER,
            where=where),
        stated(NAME, f"{what}, mean accuracy of the fp32 ring", WANTED_BASELINE, accuracy["ring"], "%", count, where),
        stated(NAME, f"{what}, mean accuracy, difference to the fp32 ring", WANTED_WITHIN, accuracy["thin"] - accuracy["ring"],
               "points", count, where)])


if __name__ == "__main__":
    comparison.main(rows, __doc__)
