"""Small all-reduces over many starts: two ranks on one host, started 20 times, in turns with Open MPI. Ranks that begin out of step
must not stay so, whatever a wake-up takes on the machine: the median start and the worst, each by the median of Open MPI's. Machines
differ in this, so each one's starts are kept (bench/kept/starts.jsonl) and have rows of their own."""

import json
import statistics

from all_reduce import mpi
from lib import comparison, kept, machine, processes, ripieno
from lib.alternate import Ratio, ratio
from lib.table import Row

NAME, SIZES, QUICK = "starts", (4 << 10, 8 << 10, 64 << 10), (4 << 10,)
STARTS, ITERATIONS, WARMUP = 20, 500, 3
MEDIAN, WORST = 1.2, 3  # at most so many times Open MPI's time


def start(sizes):
    """Microseconds of each size, the mean over its iterations: one job, as a user starts it."""
    out = processes.run([ripieno.binary(), "bench", "all-reduce", "-n", 2, "-b", min(sizes), "-e", max(sizes), "-f", 2, "-i", ITERATIONS,
                         "-w", WARMUP, "--format", "json"])
    found = {row["bytes"]: row for row in json.loads(out)}
    if any(row["wrong"] for row in found.values()):
        raise processes.Failed(f"ripieno: wrong sums: {found}")
    return {str(size): found[size]["time_us"] for size in sizes}


def start_mpi(sizes, cores):
    return {str(row["bytes"]): row["time_us"] for row in mpi(2, sizes, [ITERATIONS] * len(sizes), cores)}


def measured(sizes, options):
    """Machine -> records: this machine's, measured now or kept, and those that other machines' starts were kept of."""
    waits = [path.read_text() for path in sorted([*comparison.ROOT.glob("ripieno/transport/shared/*"), *comparison.ROOT.glob("ripieno/core/spin*"),
                                                  comparison.ROOT / "ripieno/core/runtime.cpp"])]
    own = kept.rounds(NAME, options, 2 if options.quick else STARTS, [machine.cpu(), waits],
                      {"Ripieno": lambda _: start(sizes), "Open MPI": lambda _: start_mpi(sizes, options.cores[:2])})
    found = {own[0]["machine"]: own}
    if not options.quick:
        for record in kept.all_of(NAME):
            if record["machine"] != own[0]["machine"]:
                found.setdefault(record["machine"], []).append(record)
    return found


def rows(options):
    sizes, found = QUICK if options.quick else SIZES, []
    for name, records in measured(sizes, options).items():
        for size in sizes:
            own, theirs = (kept.values(records, side, str(size)) for side in ("Ripieno", "Open MPI"))
            what, wanted = f"{name.rsplit(', ', 2)[0]}: {size:,} bytes, {len(records)} starts", size == SIZES[0]
            worst = max(own) / statistics.median(theirs)
            of_worst = Ratio(max(own), statistics.median(theirs), worst, worst, worst)
            for which, figure, most in (("the median", ratio(own, theirs), MEDIAN), ("the worst", of_worst, WORST)):
                found.append(Row(NAME, f"{what}: {which}", "Open MPI", figure, "µs", len(records), most if wanted else None, below=True,
                                 where=kept.places(records)))
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
