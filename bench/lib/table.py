"""The table of ratios: on the terminal, and in docs/performance.md, between two markers, a section a comparison with the machine
and the date. What stands outside of the markers is left as it is, and so are comparisons that were not run now."""

from pathlib import Path
from typing import NamedTuple, Optional

from . import machine
from .alternate import Ratio

MARKERS = ("<!-- ratios -->", "<!-- /ratios -->")
HEADER = ["comparison", "what", "against", "theirs", "Ripieno's", "ratio", "95 % interval", "wanted", "met", "rounds"]
SECTION = "### "


class Row(NamedTuple):
    comparison: str           # its section: the file in bench/ that makes it, and more where that makes several
    what: str
    against: str
    ratio: Ratio              # first: theirs, second: Ripieno's, unless `below`: then the other way round
    unit: str                 # of first and second
    rounds: int
    wanted: Optional[float] = None
    below: bool = False       # the ratio must stay at or below what is wanted (Ripieno's over a bound)
    where: str = ""           # machines and days, where not this one and today: see kept.py

    @property
    def met(self):
        if self.wanted is None:
            return ""
        good = self.ratio.stays_below(self.wanted) if self.below else self.ratio.reaches(self.wanted)
        return "yes" if good else "NO"

    def cells(self):
        first, second = self.ratio.first, self.ratio.second
        theirs, ours = (second, first) if self.below else (first, second)
        wanted = "" if self.wanted is None else f"{'≤' if self.below else '≥'} {self.wanted:g}"
        digits = 3 if self.ratio.value < 10 else 1
        interval = f"{self.ratio.low:.{digits}f} – {self.ratio.high:.{digits}f}" if self.ratio.low < self.ratio.high else ""
        return [self.comparison, self.what, self.against, f"{figure(theirs)} {self.unit}", f"{figure(ours)} {self.unit}",
                f"{self.ratio.value:.{digits}f}", interval, wanted, self.met, str(self.rounds)]


def section_of(comparison, precision):
    """The section of rows in a precision: what a processor without bf16 measures leaves another's rows in bf16 as they are."""
    return comparison if precision == "fp32" else f"{comparison}, {precision}"


def stated(comparison, what, wanted, found, unit, rounds, where=""):
    """The row of a figure that is wanted as such and has no interval: a mean, a count, a difference."""
    return Row(comparison, what, "wanted", Ratio(wanted, found, found, found, found), unit, rounds, wanted, where=where)


def figure(value):
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def text(rows):
    """For a terminal."""
    return aligned([HEADER, *[row.cells() for row in rows]])


def aligned(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines) + "\n"


def markdown(line):
    return "| " + " | ".join(line) + " |"


def section(name, rows, old=""):
    """old: the section as it is, whose other rows stay, and the machines and days that they are of."""
    where, lines = [], []
    if old:
        where = old.split("\n")[1].rstrip(".").split("; ")
        lines = [line for line in old.split("\n") if line.startswith("| ")][1:]
    new, measured = [markdown(row.cells()[1:]) for row in rows], {row.what for row in rows}
    replaced = [i for i, line in enumerate(lines) if line.split(" | ")[0].removeprefix("| ") in measured]
    where = where if len(replaced) < len(lines) else []
    at = replaced[0] if replaced else len(lines)
    lines = lines[:at] + new + [line for i, line in enumerate(lines) if i >= at and i not in replaced]
    where += [each for row in rows for each in (row.where or f"{machine.name()}, {machine.date()}").split("; ")]
    head = [markdown(HEADER[1:]), "|" + "---|" * len(HEADER[1:])]
    return f"{SECTION}{name}\n{'; '.join(dict.fromkeys(where))}.\n\n" + "\n".join(head + lines) + "\n"


def write(path: Path, rows, some=False):
    """some: rows are not all of their comparisons, whose others stay."""
    content = path.read_text() if path.exists() else PAGE
    before, found, rest = content.partition(MARKERS[0])
    old, closed, after = rest.partition(MARKERS[1])
    if not found or not closed:
        raise ValueError(f"{path}: the markers {MARKERS[0]} and {MARKERS[1]} are not there")
    sections = {text.split("\n", 1)[0]: SECTION + text.strip() + "\n" for text in ("\n" + old).split("\n" + SECTION)[1:]}
    for name in dict.fromkeys(row.comparison for row in rows):
        sections[name] = section(name, [row for row in rows if row.comparison == name], sections.get(name, "") if some else "")
    comparisons = [name.split(",")[0] for name in sections]  # a comparison's sections stay together
    ordered = sorted(sections, key=lambda name: comparisons.index(name.split(",")[0]))
    path.write_text(before + MARKERS[0] + "\n" + "\n".join(sections[name] for name in ordered) + MARKERS[1] + after)


PAGE = f"""# Performance

Ratios of medians, written by `scripts/bench`: Ripieno and what a user would take in its place did the same work on one
machine in one run, taking turns, a core to each worker. "theirs / Ripieno's" is how many times faster Ripieno is; where at
most something is wanted, the ratio is Ripieno's over the bound. A figure is met only where the whole interval clears it; one
without an interval (a mean of seeds, a difference, a count) is met or missed as it stands.
A row "A/A" is Ripieno against itself: the noise. Each section names its machine and day. How the interval is made stands in `bench/lib/alternate.py`.

{MARKERS[0]}
{MARKERS[1]}
"""
