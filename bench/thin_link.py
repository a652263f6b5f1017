"""Time to accuracy over a link of 100 Mb/s, two workers with a core each: Ripieno's choice (the sides' settings stand in TASKS)
against DistributedDataParallel with Gloo as it comes, with each of its hooks, and against one lone worker that takes the whole
batch and needs no link.

All sides take the same recipe, that is the same model, precision (bf16 where the processor has it, or --precision), batches, rates
and number of epochs. Time is the number of steps of the recipe times what a step takes over the link, the mean over whole periods
of local steps, and the number of epochs times what an epoch's end waits for an exchange that has just begun. That Ripieno's choice
reaches the accuracy is shown by whole runs, each with a seed of its own (on one host: what is computed does not depend on the link;
kept, see lib/kept.py; "mirrored and moved": test images are seen so too, and their logits averaged); that the other sides do is
taken for granted, to their favour. Needs real data in
RIPIENO_DATA."""

import json
import statistics
import tempfile
from pathlib import Path

from lib import comparison, kept, processes, ranks, ripieno
from lib.alternate import alternate, ratio, values
from lib.netns import Network
from lib.table import Row, stated

NAME, MBIT, DDP = "thin_link", 100, comparison.ROOT / "bench/peers/ddp.py"
WANTED_DEFAULT, WANTED_BEST = 10, 1.5
PERIOD = 16  # local steps of DDP's hook


class Task:
    """An accuracy in per cent, a recipe that reaches it, and how Ripieno's side exchanges. batch: of each worker."""

    def __init__(self, data, model, samples, parameters, wanted, seeds, batch, epochs, rate, optimiser, recipe, thin):
        self.data, self.model, self.parameters, self.wanted, self.seeds = data, model, parameters, wanted, seeds
        self.batch, self.epochs, self.rate, self.optimiser, self.recipe, self.thin = batch, epochs, rate, optimiser, recipe, thin
        self.steps = -(-samples // (2 * batch)) * epochs
        self.period = thin["local.steps"]

    def what(self):
        views = {"flip": ", mirrored", "flip-shift": ", mirrored and moved"}.get(self.recipe.get("evaluate.tta"), "")
        return f"two workers, {self.model}, {MBIT} Mb/s, {self.wanted:g} % of {self.data}{views}"

    def settings(self, folder, precision, more):
        return {"model": self.model, "data.name": self.data, "data.folder": folder, "batch.global": 2 * self.batch,
                "train.epochs": self.epochs, "train.precision": precision, "learning_rate.base": self.rate,
                "learning_rate.schedule": "one-cycle", "optimiser.name": self.optimiser} | self.recipe | more


INT8, FOUR_BITS = {"exchange.codec": "int8"}, {"exchange.codec": "qsgd", "codec.bits": 4}


def thin(steps, delay, codec):
    """Local steps, whose changes are on the way under the first `delay` of the next ones."""
    return {"strategy": "local-sgd", "local.steps": steps, "local.delay": delay} | codec


TASKS = (
    Task("mnist", "mnist-cnn", 60000, 690590, wanted=98.5, seeds=3, batch=48, epochs=2, rate=0.003, optimiser="adam", recipe={}, thin=thin(32, 4, INT8)),
    Task("cifar10", "vgg11-bn", 50000, 9231114, wanted=90.0, seeds=1, batch=32, epochs=13, rate=0.05, optimiser="sgd", thin=thin(32, 16, FOUR_BITS),
         recipe={"data.crop_padding": 2, "data.crop_border": "reflected", "data.flip": True, "data.flip_alternate": True, "evaluate.tta": "flip-shift",
                 "optimiser.momentum": 0.9, "optimiser.nesterov": True, "optimiser.weight_decay": 5e-4, "train.label_smoothing": 0.1}),
)

# DDP's hooks, as their documentation has them, but starting as early as they can (PowerSGD's default are 1,000 plain steps).
HOOKS = {"fp16 hook": ("--hook", "fp16"), "PowerSGD hook": ("--hook", "powersgd", "--rank", 1, "--hook-start", 2),
         "post-local SGD hook": ("--hook", "post-local-sgd", "--hook-start", 2, "--local-steps", PERIOD)}
DEFAULT = ("--layout", "plain", "--optimiser-kind", "plain")
BEST = ("--layout", "channels-last", "--optimiser-kind", "fused")


def precision(options):
    return options.precision or ripieno.precision()


class Sides:
    """What takes turns. Local steps are timed over whole periods, after one; steps that are all alike, over a few."""

    def __init__(self, task, options, net, data):
        self.task, self.options, self.net, self.data, self.precision = task, options, net, data, precision(options)
        self.periods = 1 if options.quick else 3  # of local steps that are timed, after one
        self.alike = (4, 2) if options.quick else (10, 4)

    def ours(self):
        task = self.task
        more = {"train.max_steps": (self.periods + 2) * task.period, "data.test_samples": 10, "seed": 1} | task.thin | self.options.sets
        carried = self.net.must_carry(task.parameters // 2 * self.periods)  # 4 bits a number, at least
        with carried, ripieno.training(task.settings(self.data, self.precision, more), 2, self.net, self.options.cores) as done:
            step, end = done.mean_step_seconds(task.period, (self.periods + 1) * task.period), done.end_seconds()
            return {"step_s": step + task.epochs * end / task.steps, "end_s": end}

    def lone(self):
        steps, warmup = self.alike
        more = {"train.max_steps": warmup + steps, "data.test_samples": 10, "seed": 1, "strategy": "single"}
        (run,) = ripieno.alone(self.task.settings(self.data, self.precision, more), self.options.cores[:1])
        return {"step_s": run.mean_step_seconds(warmup)}

    def ddp(self, hook, kind):
        steps, warmup = (self.periods * PERIOD, PERIOD) if "--local-steps" in hook else self.alike
        command = ["--model", self.task.model, "--data", self.data, "--batch", self.task.batch, "--seed", 1, "--precision", self.precision,
                   "--optimiser", self.task.optimiser, "--steps", steps, "--warmup", warmup, *hook, *kind]
        result = ranks.python_ranks(DDP, command, 2, self.net, self.options.cores)
        return {"step_s": statistics.fmean(map(statistics.fmean, result["times_s"]))}

    def all(self):
        found = {"Ripieno": self.ours, "lone worker": self.lone, "DDP, default": lambda: self.ddp((), DEFAULT)}
        for name, hook in HOOKS.items():
            for layout, kind in (("", DEFAULT), (", channels-last", BEST)):
                found[f"DDP, {name}{layout}"] = lambda hook=hook, kind=kind: self.ddp(hook, kind)
        return found | {"A/A": self.ours}


def accuracy(task, seed, data, precision, more):
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        sets = task.settings(data, precision, {"workers": 2, "seed": seed, "run.folder": folder, "train.evaluate_every": 1000} | task.thin | more)
        processes.run([ripieno.binary(), "train", *ripieno.settings(sets)], timeout=7200)
        return 100 * json.loads(next(Path(folder).glob("*/summary.json")).read_text())["test"]["accuracy"]


def rows(options):
    data, found, raw = comparison.real_data_folder(options), [], {}
    small = {"data.train_samples": 500, "data.test_samples": 100, "train.epochs": 1} if options.quick else {}
    # The long runs first, which are kept: what is timed wants a quiet machine, and can begin again.
    seeds, tasks = {}, [task for task in TASKS if options.takes(task.what())]
    for task in tasks:
        comparison.say(task.what())
        asked = task.settings("", precision(options), {"workers": 2} | task.thin | small | options.sets)
        seeds[task] = kept.rounds(f"{NAME}-{task.model}", options, 1 if options.quick else task.seeds, asked,
                                  {"Ripieno": lambda seed: {"accuracy": accuracy(task, seed, data, precision(options), small | options.sets)}})
    for task in tasks:
        reached = kept.values(seeds[task], "Ripieno", "accuracy")
        comparison.say(f"{task.what()}: reached {reached}; a step's time, side by side")
        with Network(2, MBIT) as net:
            sides = Sides(task, options, net, data).all()
            rounds = alternate(sides, options.repetitions)
        raw[task.model] = {"accuracy": reached, "rounds": rounds}
        own = values(rounds, "Ripieno", "step_s")
        others = [name for name in sides if name not in ("Ripieno", "A/A", "DDP, default")]
        best = min(others, key=lambda name: statistics.median(values(rounds, name, "step_s")))
        for name in ("DDP, default", *others, "A/A"):
            wanted = WANTED_DEFAULT if name == "DDP, default" else WANTED_BEST if name == best else None
            found.append(Row(NAME, task.what(), name + (", the best" if name == best else ""),
                             ratio(values(rounds, name, "step_s"), own).times(task.steps), "s", options.repetitions, wanted))
        found.append(stated(NAME, f"{task.what()}, least of {len(reached)} runs", task.wanted, min(reached), "%", 1,
                            kept.places(seeds[task])))
    comparison.keep(NAME, raw)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
