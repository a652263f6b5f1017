"""MPI's own all-reduce through Ripieno (transport mpi, route native) against a plain C program with the same call, over Open
MPI on one host, two ranks; and beside it Ripieno's over shared memory. From 256 KB on the ratio counts, below it the
microseconds more."""

import json
import statistics

from all_reduce import by_size, under_mpirun
from lib import comparison, ripieno
from lib.alternate import Ratio, alternate, ratio, values
from lib.table import Row

ITERATIONS = {4: 5000, 4096: 3000, 64 << 10: 1000, 256 << 10: 500, 4 << 20: 60, 44 << 20: 8}
QUICK = {4096: 5, 256 << 10: 5}
LARGE = 256 << 10
MORE_US, RATIO = 1, 1.03  # at most so much more below LARGE, and from it on
WARMUP = 20


def native(size, iterations, cores):
    out = under_mpirun(2, cores, ripieno.binary(), "bench", "all-reduce", "--transport", "mpi", "--route", "native", "-b", size, "-e", size,
                       "-i", iterations, "-w", WARMUP, "--format", "json")
    (row,) = json.loads(out)
    return row["time_us"] * 1e-6


def plain(sizes, cores):
    pairs = [word for size, iterations in sizes.items() for word in (size, iterations)]
    rows = json.loads(under_mpirun(2, cores, comparison.BUILT / "all_reduce_mpi", "nonblocking", WARMUP, *pairs))
    by_size(rows)
    return {row["bytes"]: row["time_us"] * 1e-6 for row in rows}


def rows(options):
    sizes = QUICK if options.quick else ITERATIONS

    def name(size):
        return f"native all-reduce, Open MPI, one host, 2 ranks, {size:,} bytes"

    sizes = {size: iterations for size, iterations in sizes.items() if options.takes(name(size))}
    sides = {"Ripieno": lambda: {str(size): native(size, iterations, options.cores) for size, iterations in sizes.items()},
             "C": lambda: {str(size): seconds for size, seconds in plain(sizes, options.cores).items()},
             "shared memory": lambda: {str(size): ripieno.all_reduce(size, 2, iterations, WARMUP, cores=options.cores)
                                       for size, iterations in sizes.items()}}
    comparison.say("MPI's own all-reduce of 2 ranks on one host")
    rounds = alternate(sides, options.repetitions)
    comparison.keep("native", {"2": rounds})
    found = []
    for size in sizes:
        own, theirs, ours = (values(rounds, side, str(size)) for side in ("Ripieno", "C", "shared memory"))
        found.append(Row("native", name(size), "MPI_Iallreduce in C", ratio(own, theirs).times(1e6), "µs", options.repetitions,
                         RATIO if size >= LARGE else None, below=True))
        if size < LARGE:
            more = statistics.median(a - b for a, b in zip(own, theirs)) * 1e6
            found.append(Row("native", f"{name(size)}: more than in C", "wanted", Ratio(more, MORE_US, more, more, more), "µs",
                             options.repetitions, MORE_US, below=True))
        found.append(Row("native", name(size), "Ripieno, shared memory", ratio(ours, own).times(1e6), "µs", options.repetitions))
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
