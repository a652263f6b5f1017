"""A Spark cluster on this machine: a driver's host (node0), a master (node1) and workers (nodes.py). Needs root and what
scripts/setup engines installs. All of it is gone when it is closed.

As a program: brings it up, runs a command on the driver's host, with SPARK_MASTER set, in the present folder, and takes it away.
With --measure it writes what each node has sent and received, once a second, into a file: a line of JSON each."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from nodes import Nodes

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".engines/bin/python"
PORT = 7077


class Spark(Nodes):
    def __init__(self, workers, cores=2, program=""):
        """`program`: the folder in which workers find `ripieno`, if it is not in PATH."""
        self.held = tempfile.TemporaryDirectory(prefix="ripieno-spark-", dir="/var/tmp")  # /tmp is each node's own
        self.folder = Path(self.held.name)
        self.daemons = []
        super().__init__(workers + 2)
        try:
            home = subprocess.run((PYTHON, "-c", "import pyspark; print(pyspark.__path__[0])"), capture_output=True, text=True, check=True).stdout.strip()
            self.master = f"spark://node1:{PORT}"
            self.environment = {key: value for key, value in os.environ.items() if key == "RIPIENO_DATA" or not key.startswith(("RIPIENO_", "SPARK_"))} | {
                "SPARK_HOME": home, "SPARK_MASTER": self.master, "PYSPARK_PYTHON": str(PYTHON), "PYTHONPATH": str(ROOT / "python"),
                "SPARK_LOCAL_DIRS": "/tmp", "PATH": f"{PYTHON.parent}:{program}:{os.environ['PATH']}"}
            self._begin(1, "master.Master", "--host", "node1", "--port", PORT, "--webui-port", "0")
            self.wait_for("node1", "Starting Spark master")
            for node in range(2, workers + 2):
                self._begin(node, "worker.Worker", "--host", f"node{node}", "--cores", cores, "--memory", "1g", "--webui-port", "0",
                            "--work-dir", "/tmp/work", self.master)
            for node in range(2, workers + 2):
                self.wait_for(f"node{node}", "Successfully registered with master")
        except BaseException:
            self.close()
            raise

    def _begin(self, node, what, *words):
        command = (f"{self.environment['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{what}", *words)
        with (self.folder / f"node{node}.log").open("w") as log:
            self.daemons.append(self.start(node, command, cwd=self.folder, env=self.environment, stdout=log, stderr=subprocess.STDOUT))

    def wait_for(self, node, words, seconds=60):
        log = self.folder / f"{node}.log"
        for _ in range(seconds * 10):
            if words in log.read_text():
                return
            time.sleep(0.1)
        raise RuntimeError(f"{node} does not say '{words}', but: {log.read_text()[-2000:]}")

    def submit(self, *command, cwd=None, env=None, **options):
        """A program on the driver's host."""
        return self.start(0, command, cwd=cwd or os.getcwd(), env=self.environment | (env or {}), **options)

    def counters(self):
        """{node: (bytes sent, bytes received)} until now."""
        found = {}
        for node, network in enumerate(self.networks[1:]):
            said = subprocess.run(("ip", "-n", network, "-s", "-j", "link", "show", "net0"), capture_output=True, text=True, check=True)
            numbers = json.loads(said.stdout)[0]["stats64"]
            found[("driver", "master")[node] if node < 2 else f"worker{node - 1}"] = (numbers["tx"]["bytes"], numbers["rx"]["bytes"])
        return found

    def close(self):
        super().close()
        for daemon in self.daemons:
            daemon.wait()
        self.held.cleanup()


def measure(spark, file, ended):
    begun = time.monotonic()
    with file.open("w") as out:
        while True:
            last = ended.is_set()
            print(json.dumps({"s": round(time.monotonic() - begun, 3), "sent_received": spark.counters()}), file=out, flush=True)
            if last:
                return
            ended.wait(1)


def main():
    parser = argparse.ArgumentParser(prog="scripts/spark", description=__doc__.split("\n\n")[1])
    parser.add_argument("--workers", type=int, default=2, help="workers with two cores each (2)")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="write each node's bytes, once a second")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    with Spark(asked.workers) as spark:
        ended = threading.Event()
        meter = threading.Thread(target=measure, args=(spark, asked.measure, ended)) if asked.measure else None
        if meter:
            meter.start()
        code = spark.submit(*(asked.command or [os.environ.get("SHELL", "/bin/sh"), "-i"])).wait()
        ended.set()
        if meter:
            meter.join()
        sys.exit(code)


if __name__ == "__main__":
    main()
