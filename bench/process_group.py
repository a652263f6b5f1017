"""PyTorch over backend ripieno and over Gloo, on one host, a core to each rank (with 4 ranks two share one): all-reduces, and an
ordinary DistributedDataParallel script, whose models (of the MLP one with ripieno.agree, too) take turns, step by step; their losses
must be the same. "exposed" is what a step takes longer than one without the exchange, in the same processes. In C++
(ripieno::DistributedDataParallel) the MLP's net and steps beside Gloo's, and an own loop over nets of the zoo beside the program's own
learner, which also reads its batches, and whose SGD is a fused one."""

import json
import statistics
import tempfile

from lib import comparison, processes, ranks, ripieno
from lib.alternate import Ratio, alternate, ratio, values
from lib.table import Row

MB = 1000 * 1000
PEERS = comparison.ROOT / "bench/peers"
PACKAGE = {"PYTHONPATH": f"{comparison.ROOT / 'build/release/python'}:{PEERS}"}
ITERATIONS = {4096: 1000, MB: 50, 45 * MB: 7}
WANTED = {4096: 100, 45 * MB: 5}
MORE_US = 10  # at 4 KB, over a backend that does nothing
NETS = {"mlp": 30, "resnet18": 6, "vgg11": 12}  # steps; PyTorch's scripts take 4 of mlp and 2 of the others before, C++ 4 of all
STEP_WANTED = {("mlp", 2): 1.5}
NEVER_SLOWER, GONE, BESIDE_LEARNER = 0.99, 0.7, 0.97
PROGRAM = comparison.ROOT / "build/release/bin/ddp_step"  # `ripieno` with the MLP in its zoo, and the own loop


def all_reduces(backend, count, sizes, options):
    iterations = [5 if options.quick else ITERATIONS[size] for size in sizes]
    rows = ranks.python_ranks(PEERS / "all_reduce_torch.py", [*sizes, "-i", *iterations, "-w", 3, "--backend", backend], count,
                              cores=options.cores, **PACKAGE)
    if backend != "fake" and any(row["wrong"] for row in rows):
        raise processes.Failed(f"wrong sums with {backend}: {rows}")
    return {str(row["bytes"]): statistics.median(row["times_us"]) * 1e-6 for row in rows}


def steps(net, count, options, bucket_views):
    """Of models that take turns, step by step, in the same processes."""
    names = {"gloo": "Gloo", "ripieno": "Ripieno"} | ({"agree": "ripieno.agree"} if net == "mlp" and not bucket_views else {})
    found = ranks.python_ranks(PEERS / "ddp_script.py", [net, *names, "-i", 2 if options.quick else NETS[net], "-w", 4 if net == "mlp" else 2,
                                                         *["--bucket-views"] * bucket_views], count, cores=options.cores, **PACKAGE)
    for name, one in found.items():
        apart = max(abs(a - b) for a, b in zip(found["gloo"]["losses"], one["losses"], strict=True))
        if apart > 1e-4 * max(one["losses"]):
            raise processes.Failed(f"{net}, {count} ranks, {name}: the losses are not Gloo's, but differ by {apart}")
    alone = statistics.mean(one["alone"] for one in found.values() if "alone" in one)  # all do the same
    return {f"{side}{what}": value for name, side in names.items()
            for what, value in (("", found[name]["step"]), (" exposed", exposed(found[name]["step"], alone)))}


def exposed(step, alone):
    return max(step - alone, 1e-9)


def steps_in_cpp(net, count, options, optimiser="sgd"):
    """ddp_step prints no losses, since other weights are drawn; its own tests show them right (tests/loop/)."""
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        place = ranks.enter(ranks.write_plan(folder, count, cores=options.cores))
        command = [ripieno.binary(), "launch", "-n", count, "--", *place, PROGRAM, "loop", net, 2 if options.quick else NETS[net], optimiser]
        found = json.loads(processes.run([str(part) for part in command], env=ranks.ONE_THREAD))
    return {"step": found["step"], "exposed": exposed(found["step"], found["alone"])}


def steps_of_learner(net, count, options):
    """In the same layout as the loop's images."""
    warmup = 2 if options.quick else 4
    values = {"model": net, "data.name": "mnist" if net == "mlp" else "cifar10", "data.folder": comparison.data_folder(),
              "data.test_samples": 10, "strategy": "ddp", "batch.per_worker": 64, "learning_rate.base": 0.01, "optimiser.momentum": 0.9,
              "train.channels_last": False, "train.max_steps": warmup + (2 if options.quick else NETS[net])}
    with ripieno.training(values, count, cores=options.cores, program=PROGRAM) as done:
        return {"step": done.step_seconds(warmup)}


def of_all_reduces(options, kept):
    found = []
    for count in (2, 4):
        sizes = [size for size in ITERATIONS if options.takes(f"all_reduce of {size:,} bytes, {count} ranks")]
        if not sizes:
            continue
        comparison.say(f"all_reduce of {count} ranks")
        sides = {"Ripieno": lambda: all_reduces("ripieno", count, sizes, options), "Gloo": lambda: all_reduces("gloo", count, sizes, options)}
        if count == 2 and 4096 in sizes:
            sides["nothing"] = lambda: all_reduces("fake", 1, [4096], options)
        rounds = kept[f"all_reduce {count}"] = alternate(sides, options.repetitions)
        for size in sizes:
            what = f"all_reduce of {size:,} bytes, {count} ranks"
            own = values(rounds, "Ripieno", str(size))
            wanted = WANTED.get(size) if count == 2 else None
            found.append(Row("process_group", what, "Gloo", ratio(values(rounds, "Gloo", str(size)), own).times(1e6), "µs", options.repetitions, wanted))
            if "nothing" in sides and size == 4096:
                more = statistics.median(a - b for a, b in zip(own, values(rounds, "nothing", "4096"))) * 1e6
                found.append(Row("process_group", f"{what}: more than a backend that does nothing", "wanted", Ratio(more, MORE_US, more, more, more),
                                 "µs", options.repetitions, MORE_US, below=True))
    return found


def of_steps(options, kept):
    found = []
    for net, bucket_views in [(net, False) for net in NETS] + [("mlp", True)]:
        for count in (2, 4):
            what = f"DDP{' with gradient_as_bucket_view' if bucket_views else ''}, {net}, batch 64, {count} ranks"
            if not options.takes(what):
                continue
            comparison.say(what)
            sides = {"PyTorch": lambda: steps(net, count, options, bucket_views)}
            if net == "mlp" and not bucket_views:
                sides["in C++"] = lambda: steps_in_cpp(net, count, options)
            rounds = kept[what] = alternate(sides, options.repetitions)
            gloo, gloo_exposed = values(rounds, "PyTorch", "Gloo"), values(rounds, "PyTorch", "Gloo exposed")
            own = {"": ("PyTorch", "Ripieno", "Ripieno exposed")}
            if len(sides) > 1:
                own |= {", ripieno.agree": ("PyTorch", "ripieno.agree", "ripieno.agree exposed"), ", in C++": ("in C++", "step", "exposed")}
            for more, (side, step, its_exposed) in own.items():
                found += rows_of_steps(what + more, gloo, values(rounds, side, step), gloo_exposed, values(rounds, side, its_exposed),
                                       STEP_WANTED.get((net, count), NEVER_SLOWER))
    return found


def rows_of_steps(what, gloo, own, gloo_exposed, own_exposed, wanted):
    gone = [1 - ours / theirs for theirs, ours in zip(gloo_exposed, own_exposed, strict=True)]
    middle = statistics.median(gone)
    return [Row("process_group", f"{what}: a step", "Gloo", ratio(gloo, own).times(1e3), "ms", len(own), wanted),
            Row("process_group", f"{what}: part of Gloo's exposed exchange that is gone", "wanted", Ratio(GONE, middle, middle, min(gone), max(gone)), "",
                len(own), GONE)]


def beside_learner(options, kept):
    found = []
    for net in NETS:
        what = f"own loop in C++, {net}, batch 64, 2 ranks"
        if not options.takes(what):
            continue
        comparison.say(what)
        sides = {"fused SGD": lambda net=net: steps_in_cpp(net, 2, options, "fused"), "learner": lambda net=net: steps_of_learner(net, 2, options)}
        if net == "mlp":  # its step is short, and its parameters many
            sides["torch::optim::SGD"] = lambda: steps_in_cpp("mlp", 2, options)
        rounds = kept[what] = alternate(sides, options.repetitions)
        for side in [side for side in sides if side != "learner"]:
            found.append(Row("process_group", f"{what}, {side}: a step", "the program's learner",
                             ratio(values(rounds, "learner", "step"), values(rounds, side, "step")).times(1e3), "ms", options.repetitions, BESIDE_LEARNER))
    return found


def rows(options):
    kept = {}
    found = of_all_reduces(options, kept) + of_steps(options, kept) + beside_learner(options, kept)
    comparison.keep("process_group", kept)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
