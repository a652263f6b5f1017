"""What kept runs and the reports have: numbers, as text or to compare."""

import json
import math
import statistics
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs/evidence"
# Student's t for intervals of 95 %, by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# What may be shown of a run (`ripieno list measures`; keep.py; bench/{system_time,reading,spark_table,turning_links}.py), and with how
# many digits after the point.
MEASURES = {"accuracy": 2, "accuracy_own": 2, "loss": 4, "s_total": 1, "s_epoch": 2, "s_step": 3, "s_iteration": 1, "s_read": 3, "ms_read": 1,
            "s_forward": 3, "s_backward": 3, "s_gradient": 3, "s_exchange": 3, "images_s": 1, "cpu_user": 1, "cpu_system": 1, "mb_s_sent": 1,
            "mb_sent": 1, "mb_upload": 1, "mb_read": 1, "mb_memory": 0, "mb_s_sent_0": 1, "packets_s_sent": 0, "packets_s_sent_0": 0, "variation_sent": 2, "system_share": 1,
            "page_faults": 0, "mb_counted": 2, "mb_workers": 2, "mb_driver": 2, "mb_master": 2, "gbit_s": 2}


def half_interval(values):
    """Of 95 %."""
    return T95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def estimate(values, digits):
    """The mean with its interval of 95 %; a single value, or one that all share, alone."""
    shown = f"{statistics.mean(values):.{digits}f}"
    return shown if len(set(values)) < 2 else f"{shown} ± {half_interval(values):.{digits}f}"


def spans(values, number):
    """Whether the interval of 95 % holds a number: whether these seeds leave open on which side of it the mean is."""
    return abs(statistics.mean(values) - number) <= half_interval(values)


def spans_zero(values):
    return spans(values, 0)


class Kept:
    def __init__(self):
        self.runs = {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in sorted(KEPT.glob("*.jsonl"))}
        self.recipes = {path.name[5:8]: tomllib.loads(path.read_text()) for path in sorted((ROOT / "recipes").glob("seed-*.toml"))}
        self.published_besides = tomllib.loads((KEPT / "published.toml").read_text())

    def of(self, report, run, **settings):
        """All seeds of a run; settings tell apart runs of the same name."""
        found = [one for one in self.runs.get(report, []) if one["run"] == run
                 and all(one["settings"].get(key.replace("__", ".")) == value for key, value in settings.items())]
        if not found:
            raise KeyError(f"docs/evidence/{report}.jsonl has no run {run} {settings or ''}: scripts/evidence keep {report} FOLDER")
        return found

    def values(self, report, run, measure, **settings):
        return [one["measures"][measure] for one in self.of(report, run, **settings)]

    def mean(self, report, run, measure, **settings):
        return statistics.mean(self.values(report, run, measure, **settings))

    def number(self, report, run, measure, digits=None, **settings):
        """The mean over seeds with its interval of 95 %: "97.31 ± 0.42"; one seed's value alone."""
        return estimate(self.values(report, run, measure, **settings), MEASURES[measure] if digits is None else digits)

    def at_epoch(self, report, run, epoch, digits=2, **settings):
        """The accuracy after so many epochs; "" where a seed was not evaluated then."""
        found = [[100 * one for one in run["epochs"]["accuracy"][epoch - 1:epoch] if one is not None] for run in self.of(report, run, **settings)]
        return estimate([one[0] for one in found], digits) if all(found) else ""

    def accuracies_by(self, report, run, megabytes, **settings):
        """Each seed's accuracy after the last evaluated epoch by whose end all ranks had sent no more than so many MB; [] where the first
        sent more."""
        found = [[100 * one for one, sent in zip(run["epochs"]["accuracy"], run["epochs"]["sent"]) if one is not None and sent <= 1e6 * megabytes]
                 for run in self.of(report, run, **settings)]
        return [one[-1] for one in found] if all(found) else []

    def at_megabytes(self, report, run, megabytes, digits=2, **settings):
        """Their mean with its interval, "" where there is none."""
        found = self.accuracies_by(report, run, megabytes, **settings)
        return estimate(found, digits) if found else ""

    def seeds(self, report, run, measure, digits=None, **settings):
        """Each seed's value: "96.4, 97.0, 97.6"."""
        digits = MEASURES[measure] if digits is None else digits
        return ", ".join(f"{value:.{digits}f}" for value in self.values(report, run, measure, **settings))

    def differences(self, report, run, to, measure, **settings):
        """What a run has more than another, seed by seed."""
        of, others = ({one["seed"]: one["measures"][measure] for one in self.of(report, name, **settings)} for name in (run, to))
        return [of[seed] - others[seed] for seed in sorted(of.keys() & others.keys())]

    def pairs(self, report, run, to, measure, digits=None, **settings):
        """Their mean with its interval of 95 %."""
        return estimate(self.differences(report, run, to, measure, **settings), MEASURES[measure] if digits is None else digits)

    def difference(self, report, run, to, measure, digits=None):
        """What a run's mean is more than another's."""
        return f"{self.mean(report, run, measure) - self.mean(report, to, measure):.{MEASURES[measure] if digits is None else digits}f}"

    def added_mean(self, report, run, *measures):
        return sum(self.mean(report, run, measure) for measure in measures)

    def added(self, report, run, *measures, digits=1):
        """The sum of several measures' means."""
        return f"{self.added_mean(report, run, *measures):.{digits}f}"

    def added_ratio(self, report, run, to, first, *more, digits=2):
        """The sum of several measures' means over another run's first of them."""
        return f"{self.added_mean(report, run, first, *more) / self.mean(report, to, first):.{digits}f}"

    def part(self, report, run, measure, parts, digits=None):
        """One of so many equal parts of a mean."""
        return f"{self.mean(report, run, measure) / parts:.{MEASURES[measure] if digits is None else digits}f}"

    def percent(self, report, run, measure, digits=0):
        """A measure that is a part of one, in per cent."""
        return f"{100 * self.mean(report, run, measure):.{digits}f}"

    def count(self, report, run, measure):
        return f"{self.mean(report, run, measure):.0f}"

    def steps(self, report, run, **settings):
        return f"{self.of(report, run, **settings)[0]['summary']['steps']:,}"

    def megabytes(self, report, run, **settings):
        """The size of the model in fp32."""
        return f"{4e-6 * self.of(report, run, **settings)[0]['summary']['parameters']:.1f}"

    def given(self, report, run, key, times=1, **settings):
        """A setting of a run, as it was given; a number times `times`."""
        value = self.of(report, run, **settings)[0]["settings"][key]
        return f"{value * times:,.6g}" if isinstance(value, (int, float)) else str(value)

    def spread_of_epochs(self, report, run, **settings):
        """By how much of its shortest epoch a run's longest is longer, at most over seeds."""
        return max(max(one["epochs"]["seconds"]) / min(one["epochs"]["seconds"]) - 1 for one in self.of(report, run, **settings))

    def mb_list(self, report, workers):
        """Report 004: what one pass has sent when it reaches all-reduce's accuracy, seed by seed."""
        return ", ".join(f"{one:.1f}" for one in self.megabytes_to(report, f"workers{workers}-passes1-epochs{9 + 3 * workers}-ring-passes",
                                                                   f"workers{workers}-passes{workers}-epochs12-ring-passes"))

    def megabytes_to(self, report, run, to):
        """What all ranks had sent when a run first had as much accuracy as another at its end, seed by seed; None: it never had."""
        goals = {one["seed"]: one["measures"]["accuracy"] / 100 for one in self.of(report, to)}
        return [next((1e-6 * sent for accuracy, sent in zip(one["epochs"]["accuracy"], one["epochs"]["sent"])
                      if accuracy is not None and accuracy >= goals[one["seed"]] - 1e-9), None) for one in self.of(report, run)]

    def per_epoch(self, report, run, measure, digits=1):
        return f"{statistics.mean(one['measures'][measure] / one['summary']['epochs'] for one in self.of(report, run)):.{digits}f}"

    def per_step(self, report, run, measure, parts, digits=1):
        """One of so many equal parts of what a step has."""
        return f"{statistics.mean(one['measures'][measure] / one['summary']['steps'] for one in self.of(report, run)) / parts:.{digits}f}"

    def to_published(self, report, run, measure, digits=2):
        """A run's mean over what was published."""
        return f"{statistics.mean(self.values(report, run, measure)) / float(self.published(report, run, measure)):.{digits}f}"

    def published(self, report, run, measure, digits=None, table=""):
        """`table`: how its title begins; "": the first that has the measure."""
        for one in self.recipes[report]["published"]:
            row = one["rows"].get(run)
            if row is not None and measure in one["measures"] and one["title"].startswith(table):
                value = row[one["measures"].index(measure)] if isinstance(row, list) else row
                return f"{value:g}" if digits is None else f"{value:.{digits}f}"
        raise KeyError(f"recipes/seed-{report}-*.toml has no published {measure} of {run}")

    def said(self, report, name):
        """A number of a report that no recipe's table has (docs/evidence/published.toml)."""
        return self.published_besides[report][name]["value"]

    def ratio(self, report, run, to, measure, digits=2, **settings):
        """A run's mean over another's; of "MEASURE / MEASURE" the first's mean over the other's second."""
        measure, _, other = measure.partition(" / ")
        return f"{self.mean(report, run, measure, **settings) / self.mean(report, to, other or measure, **settings):.{digits}f}"

    def share(self, report, run, part, whole, digits=0, **settings):
        """A measure's part of another of the same runs, in per cent: "63"."""
        parts, wholes = (statistics.mean(self.values(report, run, measure, **settings)) for measure in (part, whole))
        return f"{100 * parts / wholes:.{digits}f}"

    def published_share(self, report, run, part, rest, digits=1):
        """A published measure's part of itself and another together, in per cent."""
        parts, rests = (float(self.published(report, run, measure)) for measure in (part, rest))
        return f"{100 * parts / (parts + rests):.{digits}f}"

    def published_difference(self, report, run, to, measure, digits=1):
        return f"{float(self.published(report, run, measure)) - float(self.published(report, to, measure)):.{digits}f}"

    def published_ratio(self, report, run, to, measure, digits=2):
        return f"{float(self.published(report, run, measure)) / float(self.published(report, to, measure)):.{digits}f}"
