"""What a worker reads of a data set of MNIST's size: all of it, as each process of report 002 does, or the part that one of P workers
needs in an epoch, sample by sample. `scripts/bench reading`. From the page cache: what is compared is the reading, not the disk.

A line a repetition goes to docs/evidence/002-reading.jsonl."""

import argparse
import json
import subprocess

from lib import comparison, machine

KEPT = comparison.ROOT / "docs/evidence/002-reading.jsonl"


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench reading", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one repetition; nothing is kept")
    arguments = parser.parse_args()
    told = subprocess.run([comparison.ROOT / "build/release/bin/parts_bench", "--benchmark_filter=^read_dataset", "--benchmark_format=json",
                           f"--benchmark_repetitions={1 if arguments.quick else arguments.repetitions}"], check=True, stdout=subprocess.PIPE, text=True)
    lines = []
    for one in json.loads(told.stdout)["benchmarks"]:
        if one["run_type"] != "iteration":
            continue
        parts = int(one["run_name"].partition("parts:")[2])
        measures = {"ms_read": round(one["real_time"], 3), "mb_read": round(one["MB_read"], 3)}
        lines.append({"run": f"parts{parts}", "seed": one["repetition_index"] + 1, "machine": machine.name(), "date": machine.date(),
                      "launcher": "none", "engine": "parts_bench", "settings": {"parts": parts}, "measures": measures})
        print(f"one of {parts} parts: {measures['ms_read']:8.3f} ms, {measures['mb_read']:8.3f} MB", flush=True)
    if not arguments.quick:
        KEPT.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()
