"""Two builds of Ripieno in turns: what a change costs an all-reduce over a link of 1 Gb/s, and a step of two workers over TCP.

    python3 bench/two_builds.py OLD NEW [-r ROUNDS]       # binaries; root, for the link; an idle machine

A figure is the new build's time over the old one's, with its interval; OLD twice (A/A) shows what the machine itself does."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from lib import ripieno
from lib.alternate import alternate, ratio, values
from lib.netns import Network

MB = 1000 * 1000


@contextlib.contextmanager
def build(path):
    os.environ["RIPIENO_BINARY"] = str(Path(path).resolve())
    yield
    del os.environ["RIPIENO_BINARY"]


def all_reduce(path, net, size):
    with build(path):
        drain = ["--drain", 2 * net.burst]
        return {"seconds": ripieno.all_reduce(size, 2, max(20, 200 * MB // size), 2, net, None, drain)}


def step(path):
    """Seconds of a step on images of 3 x 32 x 32; the first twenty are not counted."""
    settings = {"model": "resnet18", "data.name": "shapes", "batch.per_worker": 32, "data.train_samples": 3200, "data.test_samples": 100, "strategy": "ddp",
                "train.epochs": 1, "measure.skip_steps": 20, "run.folder": "runs", "learning_rate.base": 0.01}
    with tempfile.TemporaryDirectory(prefix="ripieno-builds-") as folder:
        environment = os.environ | {"RIPIENO_SHARED_MEMORY": "off", "OMP_NUM_THREADS": "1"}
        subprocess.run([Path(path).resolve(), "train", *map(str, ripieno.settings(settings))], cwd=folder, env=environment, check=True, capture_output=True)
        (summary,) = Path(folder).glob("runs/*/summary.json")
        return {"seconds": 64 / json.loads(summary.read_text())["images_per_second"]}


def say(what, rounds):
    old = values(rounds, "old", "seconds")
    for name in ("new", "A/A"):
        found = ratio(values(rounds, name, "seconds"), old)
        print(f"{what}, {name} / old: {found.value:.4f} [{found.low:.4f}, {found.high:.4f}], old {statistics.median(old) * 1e3:.3f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("-r", "--rounds", type=int, default=11)
    given = parser.parse_args()
    builds = {"old": given.old, "new": given.new, "A/A": given.old}
    for size in (MB, 8 * MB, 64 * MB):
        with Network(2, 1000) as net:
            sides = {name: lambda path=path: all_reduce(path, net, size) for name, path in builds.items()}
            say(f"all-reduce of {size:,} bytes, 2 ranks, 1 Gb/s", alternate(sides, given.rounds))
    sides = {name: lambda path=path: step(path) for name, path in builds.items()}
    say("step of two workers over TCP on one host", alternate(sides, given.rounds))


if __name__ == "__main__":
    main()
