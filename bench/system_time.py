"""How much of a training step's CPU time is the kernel's, in PyTorch, by the images of a step: VGG-11 (vgg11-bn), one thread.
`scripts/bench system_time`. Report 001 saw the kernel's part fall as workers, and so images a worker, were fewer a step; this shows
the reason: freed memory of large tensors goes back to the kernel, and every step takes it again, page by page.

A line a measurement goes to docs/evidence/001-system-time.jsonl. Each is a process of its own. What else the machine does changes
little: these are shares of CPU time."""

import argparse
import json
import resource
import statistics
import subprocess
import sys

from lib import comparison, machine

KEPT = comparison.ROOT / "docs/evidence/001-system-time.jsonl"
BATCHES = (256, 128, 85, 64)  # 256 images of 1 to 4 workers
IMAGES = 1024


def measure(batch, keeps_memory):
    """Of this process, after two steps to warm up."""
    sys.path.insert(0, str(comparison.ROOT / "bench/peers"))
    import models
    import torch
    import training

    if keeps_memory:
        training.keep_freed_memory()
    torch.set_num_threads(1)
    model = models.make("vgg11-bn")
    optimiser = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=1e-4)
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))

    def step():
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()

    for _ in range(2):
        step()
    before, steps = resource.getrusage(resource.RUSAGE_SELF), IMAGES // batch
    for _ in range(steps):
        step()
    after = resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return {"system_share": 100 * system / (user + system), "page_faults": (after.ru_minflt - before.ru_minflt) / steps}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench system_time", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round; nothing is kept")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--keeps-memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return print(json.dumps(measure(arguments.one, arguments.keeps_memory)))
    ways = [(f"batch{batch}", batch, []) for batch in BATCHES] + [(f"batch{BATCHES[0]}-keeps-memory", BATCHES[0], ["--keeps-memory"])]
    lines = []
    for name, batch, more in ways:
        rounds = []
        for seed in range(1, 2 if arguments.quick else arguments.rounds + 1):
            told = subprocess.run([sys.executable, __file__, "--one", str(batch), *more], capture_output=True, text=True)
            if told.returncode:
                sys.exit(f"bench: {name}: {told.stderr}")
            rounds.append({key: round(value, 2) for key, value in json.loads(told.stdout).items()})
            lines.append({"run": name, "seed": seed, "machine": machine.name(), "date": machine.date(), "launcher": "none",
                          "engine": "PyTorch", "settings": {"batch": batch}, "measures": rounds[-1]})
        median = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        print(f"{name:22} system {median['system_share']:5.1f} % of CPU, {median['page_faults']:7.0f} page faults a step", flush=True)
    if not arguments.quick:
        KEPT.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()
