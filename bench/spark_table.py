"""Report 004's table 2 for one row of each number of workers, as it was measured: on a Spark cluster, a host for each worker, with
what each host's interface has sent beside what Ripieno's ledger counts. `scripts/bench spark_table DATA`, as root; DATA holds MNIST.

A line a row goes to docs/evidence/004-spark.jsonl. Bytes do not depend on what else the machine does."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import comparison, machine

sys.path.insert(0, str(comparison.ROOT / "tests/engines"))
from spark import Spark  # noqa: E402

KEPT = comparison.ROOT / "docs/evidence/004-spark.jsonl"
ROWS = {2: (2, 12), 3: (3, 12), 4: (4, 12), 5: (5, 12), 6: (6, 12)}  # workers: passes, iterations; the first row of each


def sent(before, after, nodes):
    return sum(after[node][0] - before[node][0] for node in nodes) / 1e6


def row(workers, passes, iterations, data, folder):
    run = f"workers{workers}-passes{passes}-epochs{iterations}-ring-passes"
    command = ("python", comparison.ROOT / "examples/spark/train.py", "spark://node1:7077", comparison.ROOT / "recipes/seed-004-passes.toml", workers,
               f"only={run}", "transport.kind=tcp", f"data.folder={data}")
    with Spark(workers) as spark:
        before = spark.counters()
        one_a_host = {"PYSPARK_SUBMIT_ARGS": "--conf spark.task.cpus=2 pyspark-shell"}
        job = spark.submit(*map(str, command), cwd=folder, env=one_a_host, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, _ = job.communicate()
        after = spark.counters()
    if job.returncode:
        sys.exit(f"bench: {workers} workers: {said}")
    summary = json.loads(max(folder.glob("runs/*/summary.json")).read_text())
    hosts = [f"worker{worker}" for worker in range(1, workers + 1)]
    counted = summary["bytes"]
    return {"accuracy": 100 * summary["test"]["accuracy"], "mb_sent": sum(rank["exchange"]["payload_sent"] for rank in summary["ranks"]) / 1e6,
            "mb_counted": (counted["payload_sent"] + counted["framing_sent"]) / 1e6, "mb_workers": sent(before, after, hosts),
            "mb_driver": sent(before, after, ("driver",)), "mb_master": sent(before, after, ("master",)), "hosts": len({rank["host"] for rank in summary["ranks"]})}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench spark_table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder with MNIST's files, not in /tmp: that is each host's own")
    data, lines = parser.parse_args().data.resolve(), []
    for workers, (passes, iterations) in ROWS.items():
        with tempfile.TemporaryDirectory(prefix="spark-table-", dir=comparison.ROOT / "build") as folder:
            measures = row(workers, passes, iterations, data, Path(folder))
        hosts = measures.pop("hosts")
        if hosts != workers:
            sys.exit(f"bench: {workers} workers were on {hosts} hosts")
        lines.append({"run": f"workers{workers}-passes{passes}-epochs{iterations}", "seed": 1, "machine": machine.name(), "date": machine.date(), "launcher": "spark",
                      "engine": "tcp", "settings": {"workers": workers, "passes": passes, "train.epochs": iterations},
                      "measures": {key: float(f"{value:.6g}") for key, value in measures.items()}})
        print(f"{workers} workers, {passes} passes, {iterations} iterations: " + ", ".join(f"{key} {value:.2f}" for key, value in measures.items()), flush=True)
    KEPT.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()
