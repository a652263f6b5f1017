"""Every claim, figure and table of the reports, from docs/evidence/claims.toml (its head says what a claim has)."""

import collections
import re
import tomllib
from dataclasses import dataclass

from .kept import KEPT

REPORTS = {"000": "Cheng 2020", "001": "Ng, Chen, Blakely 2020", "002": "Wang, Yang", "003": "Shi 2019", "004": "Chundury 2022"}
# The figures and tables that a report numbers.
NUMBERED = {
    "000": {"figure": [str(n) for n in range(1, 7)], "table": []},
    "001": {"figure": [str(n) for n in range(1, 13)], "table": ["1", "2", "3"]},
    "002": {"figure": [str(n) for n in range(1, 10)], "table": ["1", "2"]},
    "003": {"figure": [f"2.{n}" for n in range(1, 8)] + ["3.1"] + [f"4.{n}" for n in range(1, 23)] + ["5.1"], "table": ["3.1", "3.2", "3.3"]},
    "004": {"figure": ["1", "2", "3"], "table": ["1", "2"]},
}
JUDGED = ("yes", "in part", "no", "open")  # by runs that are kept
UNJUDGED = ("not shown yet", "not here yet", "-")


@dataclass(frozen=True)
class Claim:
    report: str
    at: str
    claim: str
    verdict: str
    words: str
    conditions: tuple
    ours: str
    evidence: str

    @property
    def shown_verdict(self):
        return "" if self.verdict == "-" else f"**{self.verdict}**"

    def numbered(self, kind):
        """The figures, or tables, that it is about: {"4.6", "4.7"} of "figures 4.6 and 4.7"."""
        found = set()
        for part in re.findall(rf"{kind}s? ((?:[\d.]+(?:, | and | to |,)*)+)", self.at):
            for first, last in re.findall(r"([\d.]+)(?: to ([\d.]+))?", part):
                all_of_them = NUMBERED[self.report][kind]
                begin = all_of_them.index(first)
                found.update(all_of_them[begin:all_of_them.index(last) + 1] if last else [first])
        return found


def read(entry):
    unknown = entry.keys() - {"report", "at", "claim", "verdict", "words", "if", "ours", "evidence"}
    claim = Claim(entry["report"], entry["at"], entry["claim"], entry["verdict"], entry.get("words", ""), tuple(entry.get("if", ())),
                  entry.get("ours", ""), entry.get("evidence", ""))
    named = f"docs/evidence/claims.toml: {claim.claim} ({claim.report})"
    if unknown:
        raise ValueError(f"{named}: {sorted(unknown)[0]} is no key of a claim")
    if claim.verdict not in JUDGED + UNJUDGED:
        raise ValueError(f"{named}: the verdict {claim.verdict} is none of {', '.join(JUDGED + UNJUDGED)}")
    if (claim.verdict in JUDGED) != bool(claim.conditions):
        raise ValueError(f"{named}: a verdict of {', '.join(JUDGED)} has conditions (if), another has none; this one is {claim.verdict}")
    if claim.verdict != "-" and not (claim.words and claim.ours):
        raise ValueError(f"{named}: a claim has the report's words, and ours")
    return claim


class Claims:
    def __init__(self, path=KEPT / "claims.toml"):
        self.all = [read(entry) for entry in tomllib.loads(path.read_text())["claim"]]

    def of(self, report):
        return [one for one in self.all if one.report == report]

    def missing(self):
        """Figures and tables that no claim is about."""
        return [f"{report}: {kind} {number}" for report, kinds in NUMBERED.items() for kind, numbers in kinds.items() for number in numbers
                if not any(number in one.numbered(kind) for one in self.of(report))]

    def counts(self):
        lines = []
        for report, author in REPORTS.items():
            count = collections.Counter(one.verdict for one in self.of(report))
            lines.append(f"| {report} | {author} | " + " | ".join(str(count[verdict] or "") for verdict in JUDGED + UNJUDGED[:2]) + " |")
        return "\n".join(lines)
