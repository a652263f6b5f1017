"""Synchronous steps of two workers, a core each, VGG-11 with batches of 64: over a link of 1 Gb/s, Ripieno against
DistributedDataParallel with Gloo and against the bound max(compute alone + the processor time of raw streams of the same
bytes, those streams alone); on one host, against two lone workers that go at the same time; and a worker's memory.

"default" is DDP as it is; "best" is the fastest of bucket sizes, layouts and optimisers in a short measurement before.
broadcast_buffers is on, which costs nothing here: VGG-11 has no buffers. bf16 compute, a section of its own, only where the
processor has instructions for it."""

import contextlib
import itertools
import statistics

from lib import comparison, processes, ranks, ripieno
from lib.alternate import alternate, ratio, values
from lib.netns import Network, streams
from lib.table import Row, section_of

DDP = comparison.ROOT / "bench/peers/ddp.py"
PARAMETERS = 9225610  # of VGG-11
MODEL, MBIT = "vgg11", 1000
BUCKETS = (None, 1, 2, 5, 10, 50, 100)  # 2^20 bytes; None: DDP's own
DEFAULT = ("--layout", "plain", "--optimiser-kind", "plain")

# name -> compute, Ripieno's codec, DDP's hook, bytes a number on the wire, wanted: over the default, over the best
KINDS = {"fp32": ("fp32", "auto", "none", 4, 1.2, 1.05),
         "fp32, 16 bits on the wire": ("fp32", "fp16", "fp16", 2, None, 1.08),
         "bf16 compute": ("bf16", "auto", "none", 4, 1.4, 1.2),
         "bf16 compute, 16 bits on the wire": ("bf16", "fp16", "fp16", 2, None, 1.08)}
WANTED_BOUND, WANTED_HOST = 1.05, 0.95
ON_ONE_HOST, MEMORY = "one host, fp32", "peak memory of each (PSS), fp32"


class Work:
    """What both sides do: the same weights (of one seed), samples, batches and optimiser."""

    def __init__(self, options):
        self.options, self.data = options, comparison.data_folder()
        self.batch = 2 if options.quick else 64
        self.steps, self.warmup = (4, 3) if options.quick else (30, 6)

    def what(self, where):
        return f"two workers, {MODEL}, batch {self.batch}, {where}"

    def settings(self, more, steps=None):
        count = (steps or self.steps) + self.warmup
        return {"model": MODEL, "data.name": "cifar10", "data.folder": self.data, "data.test_samples": 10, "strategy": "ddp",
                "batch.per_worker": self.batch, "train.max_steps": count, "learning_rate.base": 0.01,
                "optimiser.momentum": 0.9, "seed": 1} | more | self.options.sets

    def ours(self, more, net=None, steps=None, width=4):
        carried = net.must_carry(PARAMETERS * width * (steps or self.steps)) if net else contextlib.nullcontext()
        with carried, ripieno.training(self.settings(more, steps), 2, net, self.options.cores) as done:
            return {"step_s": done.step_seconds(self.warmup)}

    def ddp(self, arguments, net=None, steps=None):
        command = ["--model", MODEL, "--data", self.data, "--batch", self.batch, "--seed", 1, "--steps", steps or self.steps,
                   "--warmup", self.warmup, *arguments]
        result = ranks.python_ranks(DDP, command, 2, net, self.options.cores)
        return {"step_s": result["step_s"]}

    def alone(self, more):
        runs = ripieno.alone(self.settings(more | {"strategy": "single"}), self.options.cores[:2])
        return {"step_s": statistics.fmean(run.step_seconds(self.warmup) for run in runs)}


def fastest(candidates, measure):
    timed = {candidate: measure(candidate)["step_s"] for candidate in candidates}
    return min(timed, key=timed.get)


def our_candidates(precision, codec, options):
    layouts, overlaps = ((True,), ("backward",)) if options.quick else ((False, True), ("backward", "forward"))
    return [(("train.precision", precision), ("exchange.codec", codec), ("train.channels_last", layout), ("exchange.overlap", overlap),
             ("exchange.measure", "on"))
            for layout, overlap in itertools.product(layouts, overlaps)]


def ddp_candidates(options):
    layouts, buckets = (("plain",), (None, 5)) if options.quick else (("plain", "channels-last"), BUCKETS)
    found = []
    for layout, optimiser, bucket in itertools.product(layouts, ("fused",), buckets):
        found.append(("--layout", layout, "--optimiser-kind", optimiser, *(("--bucket-mb", bucket) if bucket else ())))
    return [DEFAULT, *found]


def over_link(work, name, net, kept):
    options = work.options
    precision, codec, hook, width, over_default, over_best = KINDS[name]
    tries = 2 if options.quick else 8
    theirs = ("--precision", precision, "--hook", hook)
    comparison.say(f"two workers, {MBIT} Mb/s, {name}")
    best = fastest(ddp_candidates(options), lambda each: work.ddp((*theirs, *each), net, tries))
    chosen = fastest(our_candidates(precision, codec, options), lambda each: work.ours(dict(each), net, tries, width))
    comparison.say(f"  DDP's best: {' '.join(map(str, best))}; Ripieno's: {' '.join(f'{k}={v}' for k, v in chosen)}")
    layout = {"train.precision": precision, "train.channels_last": dict(chosen)["train.channels_last"]}

    def bound():
        raw = streams(net, PARAMETERS * width, tries, options.cores[:2], beside_work=True)
        wire, cpu = (statistics.median(one[key] for one in raw) for key in ("time_s", "cpu_s"))
        alone = work.alone(layout)["step_s"]
        return {"step_s": max(alone + cpu, wire), "alone_s": alone, "stream_cpu_s": cpu, "wire_s": wire}

    sides = {"Ripieno": lambda: work.ours(dict(chosen), net, width=width)}
    if over_default:
        sides["DDP, default"] = lambda: work.ddp((*theirs, *DEFAULT), net)
    sides |= {"DDP, best": lambda: work.ddp((*theirs, *best), net), "bound": bound, "A/A": sides["Ripieno"]}
    rounds = kept[name] = alternate(sides, options.repetitions)
    own = values(rounds, "Ripieno", "step_s")
    section, what = section_of("two_workers", precision), work.what(f"{MBIT:,} Mb/s, {name}")
    found = [Row(section, what, "the bound", ratio(own, values(rounds, "bound", "step_s")).times(1e3), "ms",
                 options.repetitions, WANTED_BOUND, below=True)]
    for side, wanted in (("DDP, default", over_default), ("DDP, best", over_best), ("A/A", None)):
        if side in sides:
            against = side + (f", {hook} hook" if hook != "none" and side != "A/A" else "")
            found.append(Row(section, what, against, ratio(values(rounds, side, "step_s"), own).times(1e3), "ms",
                             options.repetitions, wanted))
    return found


def on_one_host(work, kept):
    options = work.options
    layout = {"train.precision": "fp32", "train.channels_last": True}
    comparison.say("two workers on one host")
    rounds = kept["one host"] = alternate({"Ripieno": lambda: work.ours(layout), "alone": lambda: work.alone(layout),
                                           "A/A": lambda: work.ours(layout)}, options.repetitions)
    own = values(rounds, "Ripieno", "step_s")
    what = work.what(ON_ONE_HOST)
    return [Row("two_workers", what, against, ratio(values(rounds, side, "step_s"), own).times(1e3), "ms", options.repetitions, wanted)
            for side, against, wanted in (("alone", "two lone workers at once", WANTED_HOST), ("A/A", "A/A", None))]


def memory(work, kept):
    options = work.options

    def peak(word, run):
        with processes.PeakMemory(word) as watched:
            run()
        return {"bytes": watched.peak}

    comparison.say("a worker's memory")
    rounds = kept["memory"] = alternate(
        {"Ripieno": lambda: peak(f"{ripieno.binary().name}\0worker", lambda: work.ours({"train.precision": "fp32"})),
         "DDP": lambda: peak("peers/ddp.py", lambda: work.ddp(DEFAULT))}, options.repetitions)
    return [Row("two_workers", work.what(MEMORY), "DDP, default",
                ratio(values(rounds, "Ripieno", "bytes"), values(rounds, "DDP", "bytes")).times(1e-6), "MB",
                options.repetitions, 1.0, below=True)]


def rows(options):
    work, kept, found = Work(options), {}, []
    kinds = [name for name, kind in KINDS.items() if options.quick or kind[0] in ("fp32", ripieno.precision())]
    kinds = [name for name in (kinds[::3] if options.quick else kinds) if options.takes(work.what(f"{MBIT:,} Mb/s, {name}"))]
    with Network(2, MBIT) as net:
        for name in kinds:
            found += over_link(work, name, net, kept)
    for where, measure in ((ON_ONE_HOST, on_one_host), (MEMORY, memory)):
        if options.takes(work.what(where)):
            found += measure(work, kept)
    comparison.keep("two_workers", kept)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
