"""The links at which verdicts of docs/reproduction.md turn: where one way becomes as fast as another, by bisection over the rate of all
links, each time projected in virtual time, with one worker's step as long as in the runs that are kept (`--match`).
`scripts/bench turning_links`, a quarter of an hour; RIPIENO_DATA names CIFAR-10.

A line a question goes to docs/evidence/links.jsonl. A rank of virtual time sends its messages one after the other; over TCP they take
turns (docs/lab.md)."""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lib import comparison, machine, ripieno

sys.path.insert(0, str(comparison.ROOT / "scripts"))
from reproduction.kept import Kept  # noqa: E402

KEPT = comparison.ROOT / "docs/evidence/links.jsonl"
SLOWEST, FASTEST = 1e6, 1e11  # bits a second; above, latency decides
# As recipes/seed-003-models.toml at quick has one of its models; --match and its grid of simulated.slow_all do not go together.
OF_A_MODEL = """model = "{model}"
seed = 1
[data]
name = "cifar10"
train_samples = 3840
[batch]
per_worker = 32
[measure]
skip_steps = 2
[scale.quick]
[grid]
strategy = ["ring", "ps-sync"]
workers = [1, 6]
"""


@dataclass(frozen=True)
class Question:
    name: str
    recipe: str  # its text
    cells: tuple
    faster: object  # f({cell: images a second}): how many times as fast the first side is as the second
    match: str  # one worker's step

    def at(self, bits_s, folder):
        folder.mkdir(parents=True)
        recipe = folder / "recipe.toml"
        recipe.write_text(self.recipe)
        command = [ripieno.binary(), "compare", recipe, "--scale", "quick", "--only", ",".join(self.cells), "--match", f"step={self.match}", "--format", "json"]
        sets = {"seeds": 1, "transport.kind": "simulated", "train.compute": "replay", "exchange.measure": "off", "simulated.mbit_s": f"{bits_s / 1e6:.9g}",
                "run.folder": folder, "data.cache": folder.parent / "cache", "data.test_samples": 10}
        for key, value in sets.items():
            command += ["--set", f"{key}={value}"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"bench: {self.name}: {done.stderr}")
        return self.faster({run["name"]: run["images_per_second"] for run in json.loads(done.stdout)})

    def turns_at(self, precision, folder):
        """The rate above which the first side is faster; None: there is none between them."""
        low, high = SLOWEST, FASTEST
        if self.at(low, folder / "low") > 1 or self.at(high, folder / "high") < 1:
            return None
        round_ = 0
        while high / low > 1 + precision:
            round_ += 1
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.at(middle, folder / str(round_)) > 1 else (middle, high)
        return math.sqrt(low * high)


def questions():
    runs = Kept()
    ours, theirs = runs.mean("001", "task1", "s_step"), float(runs.published("001", "task1", "s_epoch")) * 256 / 50_000
    scaling = (comparison.ROOT / "recipes/seed-001-scaling.toml").read_text()
    for whose, step in (("our", ours), ("their", theirs)):
        for task in ("task2a", "task2b", "task3"):
            yield Question(f"001: {task} = task1, {whose} compute", scaling, ("task1", task), lambda rate, task=task: rate[task] / rate["task1"], f"{step:.4g}s")

    yield Question("001: a fourth machine gains a tenth, our compute", scaling, ("task3-3w", "task3"), lambda rate: rate["task3"] / rate["task3-3w"] / 1.1, f"{ours:.4g}s")

    def speed_up(rate, way):
        return rate[f"{way}-workers6"] / rate[f"{way}-workers1"]

    ring, both = (tuple(f"{way}-workers{workers}" for way in ways for workers in (1, 6)) for ways in (("ring",), ("ring", "ps-sync")))
    for model in ("alexnet", "vgg16", "vgg19", "resnet50", "resnet152"):
        recipe, step = OF_A_MODEL.format(model=model), f"{runs.mean('003', f'{model}-ring-workers1', 's_step'):.4g}s"
        yield Question(f"003: {model} ring-6 = ring-1", recipe, ring, lambda rate: speed_up(rate, "ring"), step)
        yield Question(f"003: {model} ring = ps-sync, 6 over 1", recipe, both, lambda rate: speed_up(rate, "ring") / speed_up(rate, "ps-sync"), step)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench turning_links", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="questions that begin so, as 001; the others stay as they are kept")
    parser.add_argument("--quick", action="store_true", help="one question, roughly; nothing is kept")
    arguments = parser.parse_args()
    kept = {one["run"]: one for one in map(json.loads, KEPT.read_text().splitlines())} if KEPT.exists() else {}
    with tempfile.TemporaryDirectory(prefix="turning-links-") as folder:
        for number, one in enumerate(one for one in questions() if one.name.startswith(arguments.only)):
            bits_s = one.turns_at(0.5 if arguments.quick else 0.01, Path(folder) / str(number))
            print(f"{one.name}: {f'{bits_s / 1e9:.3f} Gb/s' if bits_s else 'nowhere'}", flush=True)
            if arguments.quick:
                return
            kept.pop(one.name, None)
            if bits_s:
                kept[one.name] = {"run": one.name, "seed": 1, "machine": machine.name(), "date": machine.date(), "launcher": "ripieno", "engine": "simulated",
                                  "settings": {"cells": list(one.cells), "match": one.match}, "measures": {"gbit_s": float(f"{bits_s / 1e9:.4g}")}}
            KEPT.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in kept.values()))


if __name__ == "__main__":
    main()
