#!/usr/bin/env python3
"""Installs Ripieno into a fresh folder, builds examples/ against it outside the tree, and runs them as a user would.
Usage: outside_test.py BUILD_FOLDER TORCH_CMAKE_FOLDER"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD, TORCH = Path(sys.argv[1]), sys.argv[2]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=900, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Outside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="ripieno-examples-")
        root = Path(cls.folder.name)
        cls.prefix, cls.examples = root / "prefix", root / "build"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        run("cmake", "-S", ROOT / "examples", "-B", cls.examples, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={cls.prefix};{TORCH}", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        run("cmake", "--build", cls.examples)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_own_loop_alone_and_on_three_workers(self):
        self.assertIn("1 workers", run(self.examples / "own_loop"))
        together = run(self.prefix / "bin/ripieno", "launch", "-n", "3", "--", self.examples / "own_loop")
        self.assertIn("3 workers", together)
        self.assertIn("all agree", together)
        self.assertGreater(float(together.split(",")[1].split("%")[0]), 95)

    def test_own_model_is_one_more_in_the_program(self):
        program = self.examples / "own_model"
        self.assertIn("tiny", run(program, "list", "models"))
        out = run(program, "train", "-n", "2", "--strategy", "ring", "--set", "model=tiny", "--set", "batch.per_worker=32",
                  "--set", "data.train_samples=640", "--set", "data.test_samples=200", cwd=self.folder.name)
        self.assertIn("ring", out)
        self.assertTrue(os.path.exists(f"{self.folder.name}/runs/0001-ring-n2/model.pt"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
