#!/usr/bin/env python3
"""Runs PyTorch's own tests of torch.distributed on three CPU processes, with Gloo or with Ripieno in its place, and counts.

    distributed_suite.py [--results FILE] gloo|ripieno [TEST ...]

It appends a line of JSON for each test to FILE ({"test", "outcome": passed | failed | skipped, "seconds", "why"}) and leaves out the
tests that FILE has already. It fails if a test fails."""
import argparse
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

os.environ.setdefault("BACKEND", "gloo")
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("INIT_METHOD", "env://")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="distributed-suite-"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
for folder in ("barrier", "test_dir", "init_dir"):
    (Path(os.environ["TEMP_DIR"]) / folder).mkdir(exist_ok=True)

import torch  # noqa: E402
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend  # noqa: E402


class Distributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)  # what has been imported once need not be imported again
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()


class Result(unittest.TestResult):
    """Keeps the outcome of one test."""

    def __init__(self):
        super().__init__()
        self.outcome, self.why = "passed", ""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome, self.why = "skipped", reason

    def _failed(self, error):
        self.outcome, self.why = "failed", str(error[1])

    def addError(self, test, error):
        super().addError(test, error)
        self._failed(error)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self._failed(error)


def run(name: str) -> dict:
    result, start = Result(), time.monotonic()
    Distributed(name).run(result)
    return {"test": name, "outcome": result.outcome, "seconds": round(time.monotonic() - start, 2), "why": result.why[-2000:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backend", choices=["gloo", "ripieno"])
    parser.add_argument("--results", type=Path)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    if options.backend == "ripieno":
        import ripieno_for_gloo

        ripieno_for_gloo.apply()
    tests = options.tests or sorted(name for name in dir(Distributed) if name.startswith("test_"))
    done = set()
    if options.results and options.results.exists():
        done = {json.loads(line)["test"] for line in options.results.read_text().splitlines()}
    failed = 0
    for name in tests:
        if name in done:
            continue
        outcome = run(name)
        failed += outcome["outcome"] == "failed"
        print(f"{outcome['outcome']:8} {outcome['seconds']:6.1f} s  {name}  {outcome['why'].strip().splitlines()[-1] if outcome['why'] else ''}", flush=True)
        if options.results:
            with options.results.open("a") as file:
                file.write(json.dumps(outcome) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
