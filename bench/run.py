"""Runs comparisons and prints one table of ratios; scripts/bench calls it.

all_reduce   between processes of one host, against Gloo and Open MPI
starts       small all-reduces over many starts, against Open MPI; a row a machine
native       MPI's own all-reduce through Ripieno, against the same call in C
links        over rate-limited links, against raw TCP streams (root)
step         a lone worker's training step, against PyTorch
process_group  PyTorch's process groups and DistributedDataParallel over backend ripieno, against Gloo
two_workers  training steps of two workers, against DDP and a bound (root)
time_to_accuracy  whole runs of the fast recipes, against the same in PyTorch (hours; real data)
thin_link    seconds to an accuracy over 100 Mb/s, against DDP with each of its hooks (root; real data)
bytes_to_accuracy  bytes of a whole run, against fp32 gradients around a ring (hours; real data)"""

import importlib
import sys

from lib import comparison, machine, processes, table

NAMES = ("all_reduce", "starts", "native", "links", "step", "process_group", "two_workers", "time_to_accuracy", "thin_link", "bytes_to_accuracy")


def main():
    parser = comparison.parser(__doc__)
    parser.prog = "scripts/bench"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; without: all")
    parser.add_argument("--no-write", action="store_true", help="leave docs/performance.md as it is")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no comparison {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")

    whole = [name for name in arguments.names or NAMES if name.endswith("_to_accuracy")]
    if arguments.only and whole:
        parser.error(f"--only: {', '.join(whole)} is measured as a whole")

    def work():
        options, rows = comparison.Options(arguments), []
        for name in arguments.names or NAMES:
            found = importlib.import_module(name).rows(options)
            if not (options.quick or arguments.no_write):
                table.write(comparison.ROOT / "docs/performance.md", found, bool(options.only))
            rows += found
        if not rows:
            raise processes.Failed(f"--only {options.only!r}: no row says that")
        return comparison.shown(options, rows)

    try:
        print(f"{machine.name()}, {machine.date()}\n" + table.text(comparison.guarded(work)))
    except processes.Failed as failed:
        sys.exit(f"bench: {failed}")


if __name__ == "__main__":
    main()
