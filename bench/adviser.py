"""How far `ripieno advise` is from what was measured: scripts/bench adviser RUNS [RUNS ..], each a folder of the runs of
a recipe over one link, as `ripieno compare recipes/slow-link.toml --set run.folder=RUNS` leaves them. For each of the
recipe's cells (a way to agree, of several seeds) there is what `ripieno advise RECIPE --grid --mbit-s LINK` projects.

Stated are, for each link: which place the measured fastest has among the projected ones; Kendall's tau of the two
orders, over the pairs of which seeds say the faster (the 95 % interval of their ratios, seed by seed); and the measured over the
projected seconds of an epoch. The error that advise itself states (apps/ripieno/adviser_fit.h) comes from one half of
the first link's cells, the second, fourth, .. in the order of their names: the 95 % prediction interval of a further
one, of log(measured / projected) taken as normal. How many of the other half's cells lie in it, and of all other
links', is said. The same half says how much longer a pass takes in a run than alone, where advise measures it: the
median over its cells; and how much passes vary, by how much longer the slowest worker's of each step takes than the
mean. Change these two in adviser_fit.h first, build, and run this again. --write puts the tables into
docs/adviser.md."""

import argparse
import json
import math
import statistics
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from lib import comparison, machine, processes, ripieno

MARKERS = ("<!-- measured -->", "<!-- /measured -->")
PAGE = comparison.ROOT / "docs/adviser.md"
T95 = (
    math.nan,
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
)  # by degrees of freedom


class Cell(NamedTuple):
    name: str
    measured: float  # mean over seeds, seconds an epoch without evaluation
    half_width: float  # of its 95 % interval
    projected: float
    epochs: dict = {}  # seed -> seconds
    passes: float = 1  # a pass in the runs over one alone
    slowest: float = 1  # the slowest worker's pass of a step over the mean

    @property
    def ratio(self):
        return self.measured / self.projected

    def meets(self, other):
        """Whether seeds do not say which of the two is faster."""
        ratios = [math.log(self.epochs[seed] / other.epochs[seed]) for seed in self.epochs if seed in other.epochs]
        return len(ratios) < 2 or abs(statistics.fmean(ratios)) <= half_width(ratios)


def t95(freedom):
    return T95[freedom] if freedom < len(T95) else 1.96 + 2.5 / freedom


def half_width(values):
    return t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0


class Run(NamedTuple):
    seed: int
    epoch: float  # seconds, the mean
    one_pass: float
    slowest: float  # the greatest of a step's passes, the mean over steps


def run_of(folder, summary):
    passes = []  # of each worker
    for rank in summary["ranks"]:
        if rank["seconds"]["epoch"]:
            lines = map(json.loads, (folder / f"metrics-{rank['rank']}.jsonl").read_text().splitlines())
            passes.append(
                [
                    sum(line["seconds"][stage] for stage in ("read", "forward", "backward"))
                    for line in lines
                    if line["type"] == "step"
                ]
            )
    return Run(
        summary["seed"],
        statistics.fmean(summary["seconds"]["epoch"]),
        statistics.fmean(map(statistics.fmean, passes)),
        statistics.fmean(map(max, zip(*passes))),
    )


def measured_runs(folder):
    """name -> its runs, of those that computed."""
    found = {}
    for path in sorted(folder.glob("*/summary.json")):
        summary = json.loads(path.read_text())
        if summary["kind"] == "computed":
            found.setdefault(summary["name"], []).append(run_of(path.parent, summary))
    if not found:
        raise processes.Failed(f"{folder}: no finished run that computed")
    return found


def link_of(folder):
    settings = tomllib.loads((next(folder.glob("*/summary.json")).parent / "config.toml").read_text())
    return settings["lab"]["mbit_s"] or settings["transport"]["mbit_s"]


def projected(recipe, link):
    return json.loads(
        processes.run([ripieno.binary(), "advise", recipe, "--grid", "--mbit-s", link, "--format", "json"])
    )


def alone(advice):
    """Seconds of a pass."""
    return sum(advice["pass"][part] for part in ("read_s", "forward_s", "backward_s"))


def cells_of(folder, recipe):
    """In the order of their names; and the advice."""
    measured, advice = measured_runs(folder), projected(recipe, link_of(folder))
    own = {way["name"]: way["s_epoch"] for way in advice["ways"]}
    missing = sorted(set(measured) - set(own))
    if missing:
        raise processes.Failed(f"{folder}: runs of {', '.join(missing)}, which are no cells of {recipe}")
    cells = []
    for name, runs in sorted(measured.items()):
        epochs, one_pass = [run.epoch for run in runs], statistics.fmean(run.one_pass for run in runs)
        cells.append(
            Cell(
                name,
                statistics.fmean(epochs),
                half_width(epochs),
                own[name],
                {run.seed: run.epoch for run in runs},
                one_pass / alone(advice),
                statistics.fmean(run.slowest for run in runs) / one_pass,
            )
        )
    return cells, advice


def tau(cells):
    """Kendall's, over the pairs of which the faster was measured; and how many these are."""
    agree = pairs = 0
    for i, a in enumerate(cells):
        for b in cells[:i]:
            if a.meets(b):
                continue
            pairs += 1
            agree += (a.measured < b.measured) == (a.projected < b.projected)
    return ((2 * agree - pairs) / pairs if pairs else math.nan), pairs


def winners_place(cells):
    """Of the fastest that was measured among the projected, from 1."""
    best = min(cells, key=lambda cell: cell.measured)
    return best.name, 1 + sum(cell.projected < best.projected for cell in cells)


def halves(cells):
    """Every second one, and the others."""
    return cells[1::2], cells[::2]


def prediction(cells):
    """The 95 % interval of measured / projected of one further cell."""
    logs = [math.log(cell.ratio) for cell in cells]
    middle, reach = statistics.fmean(logs), t95(len(logs) - 1) * statistics.stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return math.exp(middle - reach), math.exp(middle + reach)


def held(cells, interval):
    return sum(interval[0] <= cell.ratio <= interval[1] for cell in cells)


def rounded(interval):
    """Outwards, as it is stated."""
    return math.floor(interval[0] * 100) / 100, math.ceil(interval[1] * 100) / 100


def section(link, cells, interval, is_first):
    best, place = winners_place(cells)
    found, pairs = tau(cells)
    fit, other = halves(cells)
    lines = [
        f"### {link:g} Mb/s",
        "",
        f"The measured fastest, {best}, is projected number {place}. Kendall's tau {found:.3f} over the {pairs} pairs of "
        f"{len(cells) * (len(cells) - 1) // 2} of which seeds say the faster.",
    ]
    if is_first:
        lines.append(
            f"The stated error, {interval[0]:.2f} to {interval[1]:.2f}, comes from the {len(fit)} cells marked •; of the other "
            f"{len(other)}, {held(other, interval)} lie in it."
        )
    else:
        lines.append(f"Of the {len(cells)} cells, {held(cells, interval)} lie in the stated error.")
    lines += ["", "| cell | measured, s an epoch | projected | measured / projected |", "|---|---|---|---|"]
    for cell in cells:
        mark = " •" if is_first and cell in fit else ""
        lines.append(
            f"| {cell.name}{mark} | {cell.measured:.3f} ± {cell.half_width:.3f} | {cell.projected:.3f} | {cell.ratio:.3f} |"
        )
    return "\n".join(lines) + "\n"


def report(folders, recipe):
    measured = [(link_of(folder), *cells_of(folder, recipe)) for folder in folders]
    _, first, advice = measured[0]
    fit, _ = halves(first)
    interval, times, spread = rounded(prediction(fit)), advice["pass"]["times"], advice["pass"]["spread"]
    needed = statistics.median(cell.passes for cell in fit)
    workers = sum(
        1 / (i + 1) for i in range(1, advice["workers"])
    )  # of exponential times the greatest is so much above the mean
    spread_needed = (statistics.median(cell.slowest for cell in fit) - 1) / workers
    if abs(needed - times) > 0.05 or abs(spread_needed - spread) > 0.02:
        comparison.say(
            f"advise takes a pass {times:.2f} times and a spread of {spread:.2f}; the runs say {needed:.2f} and {spread_needed:.2f}: "
            "change them in apps/ripieno/adviser_fit.h, build, and run this again"
        )
    head = (
        f"{machine.name()}, {machine.date()}. A pass of {advice['pass']['images']} images took {1e3 * alone(advice):.2f} ms alone; in these runs passes "
        f"take {times:.2f} times that and vary by {spread:.2f} (predict/projection.h), as advise has it from the cells marked •.\n\n"
    )
    return (
        head + "\n".join(section(link, cells, interval, i == 0) for i, (link, cells, _) in enumerate(measured)),
        interval,
    )


def write(path, text):
    before, found, rest = path.read_text().partition(MARKERS[0])
    _, closed, after = rest.partition(MARKERS[1])
    if not found or not closed:
        raise processes.Failed(f"{path}: the markers {MARKERS[0]} and {MARKERS[1]} are not there")
    path.write_text(before + MARKERS[0] + "\n" + text + MARKERS[1] + after)


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/bench adviser", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUNS",
        help="folders of measured runs, one a link; the error is fitted to the first's",
    )
    parser.add_argument(
        "--recipe", type=Path, default=comparison.ROOT / "recipes/slow-link.toml", help="that they are runs of"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/adviser.md")
    arguments = parser.parse_args()
    try:
        text, interval = comparison.guarded(lambda: report(arguments.runs, arguments.recipe))
        if arguments.write:
            write(PAGE, text)
    except processes.Failed as failed:
        sys.exit(f"bench: {failed}")
    print(text + f"\nadviser_fit: {interval[0]:.2f}, {interval[1]:.2f} (apps/ripieno/adviser_fit.h)")


if __name__ == "__main__":
    main()
