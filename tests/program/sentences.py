"""Reads the sentences of a report (`ripieno report --format json`) as a person would, and holds each against the numbers of its tables.

wrong(report) lists what is wrong: a number that the tables do not have, a way that is called first and is not, a sentence of no known form.
"""

import re

UNITS = {"µs": 1e-6, "ms": 1e-3, "s": 1, "B": 1e-6, "kB": 1e-3, "MB": 1, "GB": 1e3}
AMOUNT = r"([\d.]+ (?:[µm]?s|[kMG]?B)|\d+ min \d+ s)"
SECONDS, BYTES, REACH = "s an epoch", "MB an epoch, busiest rank", "s of training to the target"
WAITING = "of it waiting for the exchange"
OF = {"time": SECONDS, "bytes": BYTES, "accuracy": REACH, "waiting": WAITING}
FIRST = {  # of each sentence: how it begins, with the way and its number; whether it says that seeds rank it
    "time": [(rf"(.+?) is fastest(?: of those that come to [\d.]+ % of the test set)?: {AMOUNT} an epoch", True),
             (rf"(.+?) took least time(?: of those that come to [\d.]+ % of the test set)?: {AMOUNT} an epoch", False),
             (rf"No way (?:that comes to [\d.]+ % of the test set )?is (?:clearly )?faster than (.+?), with {AMOUNT} an epoch", None)],
    "bytes": [(rf"(.+?) sends least(?: of those that come to [\d.]+ % of the test set)?: {AMOUNT} an epoch from its busiest rank", True),
              (rf"(.+?) sent least(?: of those that come to [\d.]+ % of the test set)?: {AMOUNT} an epoch from its busiest rank", False),
              (rf"No way (?:that comes to [\d.]+ % of the test set )?sends (?:clearly )?less than (.+?), whose busiest rank sends {AMOUNT} an epoch", None)],
    "accuracy": [(rf"(.+?) comes to [\d.]+ % of the test set first, after {AMOUNT} of training", True),
                 (rf"(.+?) came to [\d.]+ % of the test set soonest, after {AMOUNT} of training", False),
                 (rf"No way comes to [\d.]+ % of the test set (?:clearly )?sooner than (.+?), after {AMOUNT} of training", None)],
    "waiting": [(rf"(.+?) waits least for its exchange: {AMOUNT} an epoch \(\d+ % of it\)", True),
                (rf"(.+?) waited least for its exchange: {AMOUNT} an epoch \(\d+ % of it\)", False),
                (rf"No way waits (?:clearly )?less for its exchange than (.+?), {AMOUNT} an epoch \(\d+ % of it\)", None)],
}
NOTES = {"arithmetic": r"(.+) do the same arithmetic: ", "alone": r"One worker alone \(", "losses": r".+: it lost rank",
         "seeds": r"Ways are compared seed by seed|One seed each|Some ways lack seeds|Times and accuracies of .+ not ranked", "run": r".+ took .+ an epoch|.+ got .+ right",
         "scaling": r".+ on \d+ workers trains ", "doubt": r"Two workers|All workers share|Other programs|.+ cannot be told from guessing"}


def amount(text):
    """Seconds, or MB."""
    if " min " in text:
        minutes, seconds = re.findall(r"\d+", text)
        return 60 * int(minutes) + int(seconds)
    number, unit = text.split()
    return float(number) * UNITS[unit]


def close(a, b, share=0.006):
    return abs(a - b) <= share * max(abs(a), abs(b)) + 1e-9


def table(report, name):
    """{way: {column: number}}"""
    for one in report["tables"]:
        if one["id"] == name:
            return {row[0]["text"]: {title: cell.get("number") for title, cell in zip(one["columns"], row)} for row in one["rows"]}
    return {}


def wrong_of(sentence, ways):
    text, about = sentence["text"], sentence["about"]
    if about not in FIRST:
        return [] if re.match(NOTES[about], text) else ["is of no known form"]
    for pattern, ranks in FIRST[about]:
        if found := re.match(pattern, text):
            break
    else:
        return ["is of no known form"]
    wrong, column = [], OF[about]
    first, number, rest = found[1], amount(found[2]), text[found.end():]
    if not close(ways[first][column], number):
        wrong.append(f"{first} has {ways[first][column]}")
    slower = re.search(r"; (.+?)(?: took| sent) less, but do", rest)
    beaten = re.split(r", | and ", slower[1]) if slower else []
    others = [way for way, row in ways.items() if row[column] is not None and way not in beaten and not way.endswith("…") and
              (REACH not in row or row[REACH] is not None)]  # no sentence is about unfinished runs
    if ways[first][column] > 1.005 * min(ways[way][column] for way in others):
        wrong.append(f"{first} is not first: {sorted((ways[way][column], way) for way in others)}")
    for way in beaten:
        if way in ways and ways[way][column] >= number:
            wrong.append(f"{way} is not below {first}")
    if (ranks is False) != bool(re.search(r"ranks nothing|do not rank them|are not ranked|come to", rest)) and ranks is False:
        wrong.append("does not say that nothing is ranked")
    if ranks and re.search(r"ranks nothing|do not rank them", rest):
        wrong.append("ranks, and says that it does not")
    if beside := re.search(rf"([\d.]+) (times as fast as|% less time than|times fewer bytes than|% fewer bytes than) (.+?) \({AMOUNT}\)", rest):
        base = beside[3]
        if not close(ways[base][column], amount(beside[4])):
            wrong.append(f"{base} has {ways[base][column]}")
        ratio = float(beside[1]) if "times" in beside[2] else 1 / (1 - float(beside[1]) / 100)
        told = {"time": "times as fast", "bytes": "times fewer bytes"}.get(about)
        real = ways[first][told] if told else ways[base][column] / ways[first][column]
        if abs(real - ratio) > 0.06 * ratio if told else not close(real, ratio, 0.25):
            wrong.append(f"{real}, not {ratio} times")
    for own, other in re.findall(r"\(?([\d.]+) against ([\d.]+) %", rest):
        if own == other:
            wrong.append("calls one number two")
        if abs(float(own) - ways[first]["accuracy, %"]) > 0.051:
            wrong.append(f"{first} got {ways[first]['accuracy, %']} %")
    return wrong


def wrong(report):
    """What is wrong about the first group's sentences, and the form of all."""
    ways, found = table(report, "cells"), []
    for group, conclusion in enumerate(report["conclusions"]):
        for sentence in conclusion["sentences"] + conclusion["notes"]:
            if group == 0 or sentence["about"] not in FIRST:
                found += [f"{sentence['text']} -- {one}" for one in wrong_of(sentence, ways)]
    return found
