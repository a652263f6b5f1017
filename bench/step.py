"""A training step of one worker on one core: Ripieno against the best of PyTorch's eager and torch.compile, with and
without channels-last and fused optimisers, same precision, weights, samples and batch. Each side's layout is chosen by a
short measurement first; bf16, a section of its own, only where the processor has instructions for it. The losses of both sides' first steps must agree,
in both of Ripieno's layouts, within TOLERANCE or four times the difference between PyTorch's own two layouts: batch norm makes
much of a rounding within a few steps, and Winograd's filtering rounds three times as much as direct sums."""

from lib import comparison, processes, ranks, ripieno
from lib.alternate import alternate, geometric_mean, ratio, values
from lib.table import Row, section_of

MODELS = {"mnist-cnn": 128, "vgg11": 64, "vgg11-bn": 64, "resnet18": 64, "alexnet": 64}  # batch
WANTED = {"mnist-cnn": 1.3}  # else 1.0
WANTED_MEAN = 1.1
LOSS_STEPS = 8
TOLERANCE = {"fp32": 1e-3, "bf16": 2e-2}  # of a loss, relative, over LOSS_STEPS steps


def ripieno_settings(model, precision, batch, steps, data, layout, more):
    return {"model": model, "data.name": "mnist" if model.startswith("mnist") else "cifar10", "data.folder": data,
            "data.test_samples": 10, "strategy": "single", "batch.per_worker": batch, "train.max_steps": steps,
            "train.precision": precision, "train.channels_last": layout, "learning_rate.base": 0.01,
            "optimiser.momentum": 0.9, "seed": 1} | more


def train(settings, core, warmup):
    with ripieno.training(settings, 1, cores=[core]) as done:
        return {"step_s": done.step_seconds(warmup)}, done.losses()


def farthest(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def agree(model, precision, ours, theirs):
    """Losses of both sides, a list for each layout."""
    far = max(farthest(each, theirs[0]) for each in ours)
    allowed = max(TOLERANCE[precision], 4 * farthest(theirs[1], theirs[0]))
    comparison.say(f"  losses of {LOSS_STEPS} steps agree within {far:.1e} (allowed {allowed:.1e})")
    if far > allowed:
        raise processes.Failed(f"{model} in {precision}: the losses differ by {far:.1e}, at most {allowed:.1e} are allowed: {ours} and {theirs}")


def rows(options):
    models = {"mnist-cnn": 8, "vgg11": 2} if options.quick else MODELS
    steps, warmup, tries = (4, 1, 1) if options.quick else (30, 5, 5)
    data, core = comparison.data_folder(), options.cores[-1]
    found, kept = [], {}
    for precision in dict.fromkeys(("fp32", ripieno.precision())):
        section, pairs = section_of("step", precision), []
        for model, batch in models.items():
            what = f"step, {model}, batch {batch}, {precision}"
            if not options.takes(what):
                continue
            comparison.say(what)

            def settings(count, layout):
                return ripieno_settings(model, precision, batch, count, data, layout, options.sets)

            command = ["taskset", "-c", core, ranks.PYTHON, comparison.ROOT / "bench/peers/step.py", "--model", model, "--precision",
                       precision, "--batch", batch, "--data", data, "--seed", 1, "--serve", *["--keep-memory"] * options.peer_keeps_memory]
            with processes.Served(command, ranks.ONE_THREAD) as peer:
                agree(model, precision, [train(settings(LOSS_STEPS, layout), core, 1)[1] for layout in (False, True)],
                      peer.ask(f"losses {LOSS_STEPS}")["losses"])
                chosen = peer.ask(f"choose {tries}")
                layout = min((False, True), key=lambda each: train(settings(tries + warmup, each), core, warmup - 1)[0]["step_s"])
                comparison.say(f"  PyTorch's best is {chosen['best']}, Ripieno's layout is {'channels-last' if layout else 'plain'}")

                def ours():
                    return train(settings(steps + warmup, layout), core, warmup)[0]

                def theirs():
                    return {"step_s": peer.ask(f"run {steps}")["step_s"]}

                rounds = kept[f"{model} {precision}"] = alternate({"Ripieno": ours, "PyTorch": theirs, "A/A": ours}, options.repetitions)
            own, other = values(rounds, "Ripieno", "step_s"), values(rounds, "PyTorch", "step_s")
            pairs.append((other, own))
            found.append(Row(section, what, f"PyTorch, {chosen['best']}", ratio(other, own).times(1e3), "ms", options.repetitions,
                             WANTED.get(model, 1.0)))
            found.append(Row(section, what, "A/A", ratio(values(rounds, "A/A", "step_s"), own).times(1e3), "ms", options.repetitions))
        if not options.only:
            found.append(Row(section, "step, geometric mean of the above", "PyTorch, best of each", geometric_mean(pairs).times(1e3), "ms",
                             options.repetitions, WANTED_MEAN))
    comparison.keep("step", kept)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
