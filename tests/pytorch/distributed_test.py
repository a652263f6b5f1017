#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed pass with Ripieno where they pass with Gloo (passes_with_gloo.txt, 4 processes on CPUs).

By default those run that wait for no timeout. With RIPIENO_FULL set all tests run on 2, 3 and 4 processes, with both, and with
PyTorch's debug mode, in which it compares the ranks' calls."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = os.environ["RIPIENO_PYTHON"]
WITH_GLOO = (HERE / "passes_with_gloo.txt").read_text().split()
# What passes with Gloo, but cannot with another backend in its place.
OF_GLOO_ALONE = {"test_ddp_logging_data_cpu": "PyTorch takes whatever is called gloo for its own class, and reads how many threads it has"}
# In its debug mode PyTorch calls that class whenever it makes a DistributedDataParallel.
LOGS_OF_DDP = re.compile("DistributedDataParallel|ddp|no_sync|static_graph")
FULL = bool(os.environ.get("RIPIENO_FULL"))


def run(backend: str, processes: int, tests: list[str], **environment: str) -> dict[str, dict]:
    """test -> its line of distributed_suite.py"""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        environment = {**os.environ, **environment, "WORLD_SIZE": str(processes), "TEMP_DIR": folder, "PYTHONPATH": f"{PACKAGE}:{HERE}"}
        ended = subprocess.run([sys.executable, str(HERE / "distributed_suite.py"), "--results", str(results), backend, *tests],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        if not lines:
            raise AssertionError(ended.stdout[-4000:])
        return {line["test"]: line for line in lines}


class PyTorchsOwnTests(unittest.TestCase):
    maxDiff = None

    def failures(self, outcomes: dict[str, dict], expected: list[str]) -> dict[str, str]:
        return {name: outcomes[name]["why"][-1500:] or outcomes[name]["outcome"] for name in expected
                if outcomes[name]["outcome"] != "passed" and name not in OF_GLOO_ALONE}

    def test_what_passes_with_gloo_passes(self):
        tests = [name for name in WITH_GLOO if not any(word in name for word in ("timeout", "monitored"))]
        self.assertGreater(len(tests), 80)
        self.assertEqual(self.failures(run("ripieno", 4, tests), tests), {})

    @unittest.skipUnless(FULL, "RIPIENO_FULL is not set")
    def test_all_on_both(self):
        for processes, debug in ((2, "OFF"), (3, "OFF"), (4, "OFF"), (4, "DETAIL")):
            with self.subTest(processes=processes, debug=debug):
                gloo = run("gloo", processes, [], TORCH_DISTRIBUTED_DEBUG=debug)
                ripieno = run("ripieno", processes, [], TORCH_DISTRIBUTED_DEBUG=debug)
                passed = [name for name, line in gloo.items() if line["outcome"] == "passed" and not (debug == "DETAIL" and LOGS_OF_DDP.search(name))]
                for name, outcomes in (("gloo", gloo), ("ripieno", ripieno)):
                    print(f"{processes} processes, debug {debug}, {name}: {dict(Counter(line['outcome'] for line in outcomes.values()))}", flush=True)
                if (processes, debug) == (4, "OFF"):
                    self.assertEqual(passed, WITH_GLOO, "update passes_with_gloo.txt")
                self.assertEqual(self.failures(ripieno, passed), {})


if __name__ == "__main__":
    sys.exit(unittest.main())
