"""The page: docs/evidence/reproduction.md.in with every {{ expression }} evaluated.

An expression is one of Page's methods, of kept runs (kept.py) or of what the reports have published (kept.py, claims.py)."""

import math
import re
import textwrap

from .claims import Claims
from .kept import KEPT, ROOT, T95, Kept, spans, spans_zero

# What expressions may use besides Page's methods.
PLAIN = {"__builtins__": {}, "abs": abs, "all": all, "any": any, "float": float, "len": len, "math": math, "max": max, "min": min, "range": range, "sum": sum,
         "zip": zip, "spans": spans, "spans_zero": spans_zero}


class Untrue(Exception):
    """A sentence or a verdict that the evidence does not bear out."""


def wrapped(text, width=132):
    """A page's paragraphs and list items in lines of equal length; tables, headings and code as they are."""
    blocks = []
    for block in text.split("\n\n"):
        if any(line.startswith(("|", "#", "```")) for line in block.strip().splitlines()):
            blocks.append(block)
            continue
        items = re.split(r"\n(?=- |\d+\. )", block)
        blocks.append("\n".join(textwrap.fill(" ".join(item.split()), width, break_long_words=False, break_on_hyphens=False,
                                              subsequent_indent=" " * len((re.match(r"- |\d+\. ", item) or [""])[0])) for item in items))
    return "\n\n".join(blocks).rstrip() + "\n"


class Page(Kept):
    def __init__(self):
        super().__init__()
        self.claims_of = Claims()

    def evaluated(self, expression):
        names = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        # One dictionary: what a comprehension in an expression calls is looked up there.
        return eval(expression.strip(), {**PLAIN, **names})

    def filled(self, source):
        """A text with its expressions evaluated."""
        return re.sub(r"\{\{(.+?)\}\}", lambda found: str(self.evaluated(found.group(1))), source, flags=re.S)

    def true(self, sentence, *conditions):
        """A sentence that says an order, as it is true of the evidence: "C-SGD is ahead in each seed"."""
        if not conditions or not all(conditions):
            raise Untrue(f'docs/evidence/reproduction.md.in: "{sentence}" is not true of the runs that are kept: change the sentence')
        return sentence

    @staticmethod
    def tested(path, name):
        """Whether a test of this name is there: it is what shows the claim."""
        return f"def {name}(" in (ROOT / path).read_text()

    def claims(self, report):
        """Rows of a report's claims: where, what, the verdict, ours, the evidence."""
        lines = []
        for one in self.claims_of.of(report):
            for condition in one.conditions:
                if not self.evaluated(condition):
                    raise Untrue(f'docs/evidence/claims.toml: "{one.verdict}" to "{one.claim}" ({report}, {one.at}) is not true of the runs that are '
                                 f"kept: {condition}")
            lines.append(f"| {one.at} | {one.claim} | {one.shown_verdict} | {self.filled(one.ours)} | {one.evidence} |")
        return "\n".join(lines)

    def verdicts(self):
        """Rows: a report, and how many of its claims have each verdict."""
        return self.claims_of.counts()

    def cell(self, report, run, column, **settings):
        """What a column says of a run: a measure; "seeds MEASURE"; "MEASURE / RUN", the ratio to that run; a measure or a ratio after
        "published", of the table whose title begins as what follows " in " says; "MEASURE % MEASURE", the first's part of the second;
        "epoch N" or "N MB", the accuracy by then."""
        if found := re.fullmatch(r"(\w+) % (\w+)", column):
            return self.share(report, run, *found.groups(), **settings)
        if found := re.fullmatch(r"epoch (\d+)", column):
            return self.at_epoch(report, run, int(found[1]), **settings)
        if found := re.fullmatch(r"([\d.]+) MB", column):
            return self.at_megabytes(report, run, float(found[1]), **settings)
        theirs, (what, _, to) = column.startswith("published "), column.removeprefix("published ").partition(" / ")
        if theirs:
            what, _, table = what.partition(" in ")
            return self.published_ratio(report, run, to, what) if to else self.published(report, run, what, table=table)
        if what.startswith("seeds "):
            return self.seeds(report, run, what.removeprefix("seeds "), **settings)
        return self.ratio(report, run, to, what, **settings) if to else self.number(report, run, what, **settings)

    def rows(self, report, runs, columns, **settings):
        """A table's rows. runs: {name: how the page calls it}. columns: as in cell(); "COLUMN of NAME" is of another run, with the row's
        name in the place of a star (as the run of a ratio may), and empty if there is none. A row's name may itself have a place,
        {workers}, that columns fill: "COLUMN of workers=6". "" is an empty column."""
        lines = []
        for run, title in runs.items():
            cells = [title]
            for column in columns:
                what, _, other = column.partition(" of ")
                if found := re.fullmatch(r"(\w+)=(\w+)", other):
                    name = run.replace(f"{{{found[1]}}}", found[2])
                else:
                    what, name = what.replace("*", run), other.replace("*", run) or run
                what = re.sub(r"/ (\w+)=(\w+)", lambda found: "/ " + run.replace(f"{{{found[1]}}}", found[2]), what)
                known = bool(column) and (not other or "published" in what or any(one["run"] == name for one in self.runs.get(report, [])))
                cells.append(self.cell(report, name, what, **settings) if known else "")
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    @staticmethod
    def student_t(seeds):
        return T95[seeds - 1]

    def ring_rate(self, run, workers):
        """Report 001: MB/s that a worker on a ring sends over the time of one of their steps."""
        step = float(self.published("001", run, "s_epoch")) * 256 / 50_000
        return f"{2 * (workers - 1) / workers * 4e-6 * self.of('001', run)[0]['summary']['parameters'] / step:.1f}"

    def ring_while_exchanging(self, run):
        """Report 003: MB/s that a worker on a ring sends while it exchanges."""
        one = self.of("003", run)[0]
        return one["measures"]["mb_sent"] / one["summary"]["world_size"] / one["summary"]["steps"] / one["measures"]["s_exchange"]

    def ring_projected(self, run):
        """Report 003: MB/s that each of six workers on a projected ring sends, of 32 images a step."""
        one = self.of("003", run)[0]
        return one["measures"]["images_s"] / (6 * 32) * 2 * 5 / 6 * 4e-6 * one["summary"]["parameters"]

    def places(self, report, *runs, **settings):
        """Where and when runs were made (none: all of the report's): "AMD EPYC .., 2 cores, 2026-11-27 to 2026-11-28, over tcp", the
        place of most runs first."""
        found = {}
        for one in [one for run in runs for one in self.of(report, run, **settings)] or self.runs[report]:
            found.setdefault((one["machine"].partition(", Linux")[0], one["engine"]), []).append(one["date"])
        return "; ".join(f"{machine}, {min(dates)}{f' to {max(dates)}' if min(dates) < max(dates) else ''}, over {engine}"
                         for (machine, engine), dates in sorted(found.items(), key=lambda place: -len(place[1])))

    def origins(self):
        """Rows: the evidence, its runs' machine, dates, launcher and engine, and how many of its runs these are."""
        found = {}
        for report, runs in self.runs.items():
            for one in runs:
                found.setdefault((report, one["machine"].partition(", Linux")[0], one["launcher"], one["engine"]), []).append(one["date"])
        return "\n".join(f"| `{report}.jsonl` | {machine} | {min(dates)}{f' to {max(dates)}' if min(dates) < max(dates) else ''} | {launcher} | {engine} "
                         f"| {len(dates)} of {len(self.runs[report])} |" for (report, machine, launcher, engine), dates in sorted(found.items()))

    def text(self):
        return wrapped(self.filled((KEPT / "reproduction.md.in").read_text()))
