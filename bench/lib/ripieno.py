"""Ripieno's side: its own ranks, pinned and placed, started by `ripieno launch`, and what they report."""

import contextlib
import json
import os
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path

from . import processes, ranks

ROOT = Path(__file__).resolve().parents[2]


def binary():
    path = Path(os.environ.get("RIPIENO_BINARY", ROOT / "build/release/bin/ripieno"))
    if not path.exists():
        raise processes.Failed(f"{path} is not there: scripts/build release ripieno, or set RIPIENO_BINARY")
    return path.resolve()


def knows(command, option):
    """Whether a command of this build has an option."""
    return option in processes.run([binary(), command, "--help"])


def precision():
    """What compute is fastest in: bf16 where the processor has instructions for it."""
    found = json.loads(processes.run([binary(), "doctor", "--format", "json"]))
    return "bf16" if found["bf16"] == "in hardware" else "fp32"


def settings(values):
    arguments = []
    for key, value in values.items():
        arguments += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    return arguments


def launch(command, count, net=None, cores=None, timeout=1800, program=None):
    """Runs `ripieno COMMAND ..` as ranks of one job; a list of messages for each rank. `program`: with other models in its zoo."""
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder, contextlib.ExitStack() as stack:
        control = [f"{folder}/control-{rank}" for rank in range(count)]
        more = {"control": control}
        if net:
            target = Path(folder) / "rendezvous"
            door = stack.enter_context(net.listener())
            stack.enter_context(Relay(door, target))
            more |= {"rendezvous": f"{net.hub_address}:{door.getsockname()[1]}", "rendezvous_file": str(target)}
        plan = ranks.write_plan(folder, count, net, cores, **more)
        try:
            processes.run([binary(), "launch", "-n", count, "--", *ranks.enter(plan), program or binary(), *command], ranks.ONE_THREAD, timeout)
        except processes.Failed as failed:
            told = [text for path in control if Path(path).exists() for text in [Path(path).read_text()] if '"failed"' in text]
            raise processes.Failed(f"{failed}{''.join(told)}") from None
        return [[json.loads(line) for line in Path(path).read_text().splitlines()] for path in control]


class Relay:
    """Passes connections to a door in the links' hub on to the launcher's rendezvous, which is outside of them."""

    def __init__(self, door, target):
        self.door, self.target, self.sockets = door, target, [door]

    def __enter__(self):
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                guest, _ = self.door.accept()
                while not self.target.exists():
                    time.sleep(0.01)
                host, port = self.target.read_text().rsplit(":", 1)
                launcher = socket.create_connection((host, int(port)))
                self.sockets += [guest, launcher]
                for pair in ((guest, launcher), (launcher, guest)):
                    threading.Thread(target=_copy, args=pair, daemon=True).start()


def _copy(source, sink):
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def all_reduce(size, count, iterations, warmup, net=None, cores=None, extra=()):
    """Seconds of an all-reduce of `size` bytes: the median over iterations of the mean over ranks."""
    command = ["bench", "all-reduce", "--rank", "-b", size, "-e", size, "-i", iterations, "-w", warmup, *extra]
    (row,) = [message for message in launch(command, count, net, cores)[0] if message["type"] == "row"]
    if row["wrong"]:
        raise processes.Failed(f"ripieno: {row['wrong']} wrong sums in an all-reduce of {size} bytes by {count} ranks")
    return statistics.median(row["times_us"]) * 1e-6


class Training:
    """What a run left."""

    def __init__(self, folder, count):
        self.steps = []
        for rank in range(count):
            lines = [json.loads(line) for line in (folder / f"metrics-{rank}.jsonl").read_text().splitlines()]
            self.steps.append([line for line in lines if line["type"] == "step"])
        self.model = folder / "model.pt"

    def step_seconds(self, warmup):
        """From the end of a step to the end of the next: the median over steps, the mean over ranks."""
        medians = []
        for steps in self.steps:
            times = [step["time"] for step in steps][warmup:]
            if len(times) < 2:
                raise processes.Failed(f"a run of {len(steps)} steps is too short for {warmup} of warm-up")
            medians.append(statistics.median(b - a for a, b in zip(times, times[1:])))
        return statistics.fmean(medians)

    def mean_step_seconds(self, warmup, end=None):
        """The mean over steps up to number `end`, for strategies that exchange in some of them only."""
        end = end or len(self.steps[0])
        return statistics.fmean((steps[end - 1]["time"] - steps[warmup - 1]["time"]) / (end - warmup) for steps in self.steps)

    def end_seconds(self):
        """What the last step took beyond a usual one, on the slowest rank: an epoch's end waits for what is under way."""
        beyond = []
        for steps in self.steps:
            times = [b["time"] - a["time"] for a, b in zip(steps, steps[1:])]
            beyond.append(times[-1] - statistics.median(times))
        return max(0, *beyond)

    def losses(self):
        """Of each step, the mean over ranks."""
        return [statistics.fmean(step["loss"] for step in steps) for steps in zip(*self.steps)]


@contextlib.contextmanager
def training(values, count, net=None, cores=None, timeout=3600, program=None):
    """Trains with these settings; the run's folder is there as long as the `with` lasts."""
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        folder = Path(folder)
        config = processes.run([program or binary(), "train", *settings({"workers": count} | values), "--print-config"])
        (folder / "config.toml").write_text(config)
        launch(["worker", folder], count, net, cores, timeout, program)
        yield Training(folder, count)


def alone(values, cores, timeout=3600):
    """A lone worker on each of these cores, all going at the same time; their step_seconds come from the list returned."""
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        folders = [Path(folder) / str(core) for core in cores]
        commands = [["taskset", "-c", core, binary(), "train", *settings({"workers": 1, "strategy": "single"} | values),
                     "--set", f"run.folder={place}"] for core, place in zip(cores, folders)]
        processes.run_all(commands, [ranks.ONE_THREAD] * len(commands), timeout)
        return [Training(next(place.iterdir()), 1) for place in folders]
