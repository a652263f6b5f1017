"""Sides that take turns, and ratios of their medians with intervals.

The interval is a percentile bootstrap over rounds: 10,000 times as many rounds as there were are drawn with replacement
(from a fixed seed), each with what all sides measured in it, so that what slows a whole round slows both sides; the ratio
of the medians is taken of each draw; the interval is from the 2.5th to the 97.5th percentile. With 5 rounds it is from
about the least to the greatest ratio."""

import random
import statistics
import sys
from typing import Callable, NamedTuple

DRAWS, SEED = 10000, 1


class Ratio(NamedTuple):
    """first / second, of medians."""
    first: float
    second: float
    value: float
    low: float
    high: float

    def times(self, factor):
        """The same in another unit."""
        return self._replace(first=self.first * factor, second=self.second * factor)

    def reaches(self, target):
        """A figure is met only where the whole interval clears it."""
        return self.low >= target

    def stays_below(self, target):
        return self.high <= target


def alternate(sides: dict[str, Callable[[], dict[str, float]]], repetitions: int, say=None):
    """Runs the sides A, B, .., A, B, .. and returns a list of rounds: side -> what it measured. A side returns figures by
    name. An exception of one ends all."""
    say = say or (lambda text: print(text, file=sys.stderr, flush=True))
    rounds = []
    for number in range(repetitions):
        figures = {}
        for name, side in sides.items():
            figures[name] = side()
            shown = ", ".join(f"{key} {value:.4g}" for key, value in list(figures[name].items())[:6])
            say(f"  round {number + 1}/{repetitions}, {name}: {shown}")
        rounds.append(figures)
    return rounds


def values(rounds, side, key):
    return [each[side][key] for each in rounds]


def ratio(first: list[float], second: list[float]) -> Ratio:
    """The ratio of the medians of two lists, whose items of one place are of one round."""
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} measurements")
    draw = random.Random(SEED)
    drawn = []
    for _ in range(DRAWS):
        picks = draw.choices(range(len(first)), k=len(first))
        drawn.append(statistics.median(first[i] for i in picks) / statistics.median(second[i] for i in picks))
    drawn.sort()
    a, b = statistics.median(first), statistics.median(second)
    return Ratio(a, b, a / b, drawn[round(0.025 * (DRAWS - 1))], drawn[round(0.975 * (DRAWS - 1))])


def geometric_mean(pairs: list[tuple[list[float], list[float]]]) -> Ratio:
    """Of the ratios of medians of several pairs of lists; every list is drawn from by itself."""
    draw = random.Random(SEED)
    drawn = []
    for _ in range(DRAWS // 5):
        ratios = []
        for first, second in pairs:
            picks = draw.choices(range(len(first)), k=len(first))
            ratios.append(statistics.median(first[i] for i in picks) / statistics.median(second[i] for i in picks))
        drawn.append(statistics.geometric_mean(ratios))
    drawn.sort()
    of_medians = [(statistics.median(first), statistics.median(second)) for first, second in pairs]
    first, second = (statistics.geometric_mean(side) for side in zip(*of_medians))
    return Ratio(first, second, first / second, drawn[round(0.025 * (len(drawn) - 1))], drawn[round(0.975 * (len(drawn) - 1))])
