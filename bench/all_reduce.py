"""All-reduce between processes of one host: Ripieno, Gloo (through torch.distributed) and Open MPI (shared memory).
Each rank has a core, and with 4 ranks two share one."""

import itertools
import json
import statistics
import tempfile

from lib import comparison, processes, ranks, ripieno
from lib.alternate import alternate, ratio, values
from lib.table import Row

MB = 1000 * 1000
ITERATIONS = {4096: 500, 64 << 10: 200, MB: 50, 4 * MB: 20, 45 * MB: 7}
# (ranks, bytes) -> what is wanted against Gloo and Open MPI
WANTED = {(2, 4096): (300, 1), (2, 64 << 10): (None, 1), (2, MB): (None, 1), (2, 4 * MB): (None, 4), (2, 45 * MB): (8, 4),
          (4, 45 * MB): (6, 3)}
QUICK = {(2, 4096): (None, None), (2, 400000): (None, None), (4, 400000): (None, None)}
WARMUP = 3


def under_mpirun(count, cores, program, *arguments):
    """What the ranks of Open MPI print."""
    with tempfile.TemporaryDirectory(prefix="ripieno-bench-") as folder:
        plan = ranks.write_plan(folder, count, cores=cores)
        # slots: Open MPI yields the processor while it waits only where it knows that ranks share one
        return processes.run(["mpirun.openmpi", "--allow-run-as-root", "--host", f"localhost:{len(cores)}", "--oversubscribe", "--bind-to", "none",
                              "-n", count, *ranks.enter(plan), program, *arguments])


def mpi(count, sizes, iterations, cores):
    program = comparison.BUILT / "all_reduce_mpi"
    if not program.exists():
        raise processes.Failed(f"{program} is not there; scripts/bench builds it")
    pairs = itertools.chain.from_iterable(zip(sizes, iterations))
    return json.loads(under_mpirun(count, cores, program, "blocking", WARMUP, *pairs))


def by_size(rows):
    for row in rows:
        if row["wrong"]:
            raise processes.Failed(f"wrong sums: {row}")
    return {f"{row['ranks']} x {row['bytes']}": statistics.median(row["times_us"]) * 1e-6 for row in rows}


def what(count, size):
    return f"all-reduce, one host, {count} ranks, {size:,} bytes"


def rows(options):
    wanted = QUICK if options.quick else WANTED
    found, kept = [], {}
    pairs = [pair for pair in wanted if options.takes(what(*pair))]
    for count in sorted({count for count, _ in pairs}):
        sizes = [size for each, size in pairs if each == count]
        iterations = [5 if options.quick else ITERATIONS[size] for size in sizes]

        def ours():
            return {f"{count} x {size}": ripieno.all_reduce(size, count, i, WARMUP, cores=options.cores, extra=options.routes)
                    for size, i in zip(sizes, iterations)}

        def gloo():
            script = comparison.ROOT / "bench/peers/all_reduce_torch.py"
            return by_size(ranks.python_ranks(script, [*sizes, "-i", *iterations, "-w", WARMUP], count, cores=options.cores))

        sides = {"Ripieno": ours, "Gloo": gloo, "Open MPI": lambda: by_size(mpi(count, sizes, iterations, options.cores)),
                 "A/A": ours}
        comparison.say(f"all-reduce of {count} ranks on one host")
        rounds = kept[count] = alternate(sides, options.repetitions)
        for size in sizes:
            key = f"{count} x {size}"
            own = values(rounds, "Ripieno", key)
            for against, target in zip(("Gloo", "Open MPI", "A/A"), (*wanted[count, size], None)):
                found.append(Row("all_reduce", what(count, size), against,
                                 ratio(values(rounds, against, key), own).times(1e6), "µs", options.repetitions, target))
    comparison.keep("all_reduce", kept)
    return found


if __name__ == "__main__":
    comparison.main(rows, __doc__)
