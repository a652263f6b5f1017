"""What every comparison takes from the command line, and how it is run."""

import argparse
import json
import os
import sys
from pathlib import Path

from . import machine, processes, table

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "build/bench"  # what scripts/bench makes


def parser(doc):
    found = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("-r", "--repetitions", type=int, default=5, help="rounds in which each side has its turn, at least 5")
    found.add_argument("--runs", type=int, default=3, help="seeds of whole runs, which are kept in bench/kept (lib/kept.py)")
    found.add_argument("--only", default="", metavar="TEXT",
                       help="of a comparison's rows those that say this, as 'resnet18' or '7 ranks'; its other rows stay in docs/performance.md as they are")
    found.add_argument("--quick", action="store_true", help="tiny sizes, two rounds: shows that all runs, measures nothing")
    found.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a further setting of Ripieno's")
    found.add_argument("--precision", choices=("fp32", "bf16"),
                       help="thin_link: what all sides compute in; without: bf16 where the processor has instructions for it")
    found.add_argument("--peer-keeps-memory", action="store_true",
                       help="step: have PyTorch's malloc keep freed memory as Ripieno's does; without: as PyTorch comes")
    found.add_argument("--route", action="append", default=[], help="of Ripieno's all-reduces; without: its own choice")
    return found


class Options:
    def __init__(self, arguments):
        self.quick, self.repetitions = arguments.quick, 2 if arguments.quick else arguments.repetitions
        if self.repetitions < 5 and not self.quick:
            raise processes.Failed("at least 5 repetitions: with fewer there is no interval of 95 %")
        self.only = arguments.only
        self.runs = 1 if self.quick else arguments.runs
        self.peer_keeps_memory, self.precision = arguments.peer_keeps_memory, arguments.precision
        self.sets = dict(each.split("=", 1) for each in arguments.set)
        self.routes = [part for route in arguments.route for part in ("--route", route)]
        self.cores = machine.cores()
        if machine.load() > 0.5:
            print(f"the machine is busy (load {machine.load():.1f}): what is measured now is not worth keeping", file=sys.stderr)

    def takes(self, what):
        return self.only in what


def data_folder():
    """RIPIENO_DATA where it has both sets in files that both sides read, else generated files."""
    named = os.environ.get("RIPIENO_DATA")
    if named and (Path(named) / "cifar-10-batches-bin/test_batch.bin").exists() and any((Path(named) / "mnist").glob("train-images*")):
        return named
    processes.run([sys.executable, "-c", "import sys, data; data.write(sys.argv[1])", BUILT / "data"],
                  {"PYTHONPATH": str(ROOT / "bench/peers")})
    return str(BUILT / "data")


def real_data_folder(options):
    """The same; real data, unless the run is a quick one."""
    data = data_folder()
    if not options.quick and data != os.environ.get("RIPIENO_DATA"):
        raise processes.Failed("an accuracy of made-up data says nothing: set RIPIENO_DATA to a folder with MNIST and CIFAR-10")
    return data


def say(text):
    print(text, file=sys.stderr, flush=True)


def guarded(work):
    """Runs work() so that nothing that it starts outlives it."""
    processes.own_orphans()
    processes.raise_on_signals()
    try:
        return work()
    finally:
        processes.end_children()


def keep(name, rounds):
    """What was measured, for who wants to look closer."""
    BUILT.mkdir(parents=True, exist_ok=True)
    (BUILT / f"{name}.json").write_text(json.dumps({"machine": machine.name(), "date": machine.date(), "rounds": rounds}, indent=1))


def shown(options, rows):
    """What a quick run finds meets nothing."""
    return judged_by_nothing(rows) if options.quick else rows


def of_whole_runs(options, rows):
    """Nor does what fewer seeds than asked for find."""
    return rows if options.runs >= 3 else judged_by_nothing(rows)


def judged_by_nothing(rows):
    return [row._replace(wanted=None) for row in rows]


def main(rows, doc):
    """One comparison by itself: prints its table and writes nothing."""
    arguments = parser(doc).parse_args()
    try:
        options = Options(arguments)
        found = guarded(lambda: rows(options))
    except processes.Failed as failed:
        sys.exit(f"bench: {failed}")
    print(f"{machine.name()}, {machine.date()}\n" + table.text(shown(options, found)))
