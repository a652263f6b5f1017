"""Report 004's ring whose leader dies: `leader-ring` over TCP, the leader's process killed after a third of its epochs, beside the same
without a death. `scripts/bench leader_death DATA`, a minute; DATA holds MNIST. The runs go to docs/evidence/004-leader.jsonl."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lib import comparison, ripieno

sys.path[:0] = [str(comparison.ROOT / "tests/program"), str(comparison.ROOT / "scripts")]
from program import workers_of  # noqa: E402
from reproduction.keep import keep  # noqa: E402

WORKERS, EPOCHS, SEEDS = 4, 12, (1, 2, 3)
# As recipes/seed-004-passes.toml has it.
JOB = {"strategy": "leader-ring", "workers": WORKERS, "model": "mnist-3conv", "data.name": "mnist", "data.train_samples": 2000, "data.test_samples": 2000,
       "batch.per_worker": 32, "train.epochs": EPOCHS, "optimiser.momentum": 0.5, "learning_rate.base": 0.05}


def epochs_of(folder):
    return sum(path.read_text().count('"type":"epoch"') for path in folder.glob("*/metrics-0.jsonl"))


def train(name, seed, data, folder):
    """One run; the highest rank leads, and is killed where the name says that it dies."""
    command = [ripieno.binary(), "train", *ripieno.settings(JOB | {"seed": seed, "run.name": name, "run.folder": folder, "data.folder": data})]
    job = subprocess.Popen(list(map(str, command)), env=os.environ | {"RIPIENO_SHARED_MEMORY": "off"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if name == "leader-dies":
        while epochs_of(folder) < EPOCHS // 3 and job.poll() is None:
            time.sleep(0.01)
        if job.poll() is None:
            os.kill(workers_of(job)[-1], signal.SIGKILL)
    _, said = job.communicate()
    lost = [line for line in said.splitlines() if "ranks go on" in line]
    print(f"{name}, seed {seed}: exit {job.returncode}; {lost[-1] if lost else 'nobody lost'}", flush=True)
    if job.returncode or bool(lost) != (name == "leader-dies"):
        sys.exit(f"bench: {said}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench leader_death", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data.resolve()
    with tempfile.TemporaryDirectory(prefix="leader-death-") as folder:
        for name in ("leader-dies", "nobody-dies"):
            for seed in SEEDS:
                train(name, seed, data, Path(folder) / f"{name}-{seed}")
        keep("004-leader", [folder])


if __name__ == "__main__":
    main()
