"""Whole runs, which take an hour, are kept in bench/kept/NAME.jsonl as part of the project: a comparison can be interrupted, or take
its seeds on several days and machines. What is kept of a seed stands in for running it as long as it was asked for the same. The
sides of one seed are always of one machine, one after another."""

import hashlib
import json

from . import comparison, machine


def digest(asked):
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]


def rounds(name, options, seeds, asked, sides, folder=comparison.ROOT / "bench/kept"):
    """A record for each of seeds 1..: "machine", "date", "sides" (side -> what it measured). asked: all that decides what the sides do,
    such as settings and a recipe's text, but for the seed and the folder of data; sides: side -> f(seed). A quick run takes and
    keeps nothing."""
    path, known = folder / f"{name}.jsonl", {}
    if path.exists() and not options.quick:
        known = {(each["asked"], each["seed"]): each for each in map(json.loads, path.read_text().splitlines())}
    found = []
    for seed in range(1, seeds + 1):
        record = known.get((digest(asked), seed))
        if record:
            comparison.say(f"  seed {seed}: kept of {record['date']}, {record['machine']}: {record['sides']}")
        else:
            record = {"seed": seed, "asked": digest(asked), "machine": machine.name(), "date": machine.date(), "sides": {}}
            for side, run in sides.items():
                record["sides"][side] = run(seed)
                comparison.say(f"  seed {seed}, {side}: {record['sides'][side]}")
            if not options.quick:
                folder.mkdir(exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(record) + "\n")
        found.append(record)
    return found


def all_of(name, folder=comparison.ROOT / "bench/kept"):
    """Every record that is kept, of any machine."""
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def values(records, side, key):
    return [each["sides"][side][key] for each in records]


def places(records):
    """Machines and days, for the section of a comparison."""
    return "; ".join(dict.fromkeys(f"{each['machine']}, {each['date']}" for each in records))
