#!/usr/bin/env python3
"""Installs Ripieno into a fresh folder, builds examples/ against it outside the tree, and runs them as a user would.
Usage: outside_test.py BUILD_FOLDER PYTHON, the one that has PyTorch."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD, PYTHON = Path(sys.argv[1]), sys.argv[2]


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
            f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache",
            # What only Ripieno's own sources need is nothing that a user must have.
            *(f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("CLI11", "tomlplusplus", "PkgConfig", "Eigen3")))
        # Another folder each time, in which ccache is to find what it compiled in the last.
        run("cmake", "--build", cls.examples, env=os.environ | {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1"})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_own_loop_alone_and_on_three_workers(self):
        self.assertIn("1 workers", run(self.examples / "own_loop"))
        together = run(self.prefix / "bin/ripieno", "launch", "-n", "3", "--", self.examples / "own_loop")
        self.assertIn("3 workers", together)
        self.assertIn("all agree", together)
        self.assertGreater(float(together.split(",")[1].split("%")[0]), 95)

    def test_a_whole_training_program_in_both_languages(self):
        program, checkpoint = self.examples / "cifar10_ddp", f"{self.folder.name}/checkpoint"
        launch = [self.prefix / "bin/ripieno", "launch", "-n", "2", "--"]
        lines = run(*launch, program, "generated", "2").splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], ["epoch 1", "epoch 2"])
        self.assertGreater(float(lines[1].split()[-1]), 0.9)
        in_python = run(PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", ROOT / "examples/cifar10_ddp.py", "generated", "2",
                        env=os.environ | {"PYTHONPATH": str(BUILD / "python"), "OMP_NUM_THREADS": "1"})
        for ours, theirs in zip(lines, in_python.splitlines(), strict=True):  # the same images, weights and order
            for one, other in zip(map(float, re.findall(r"[.\d]+", ours)), map(float, re.findall(r"[.\d]+", theirs)), strict=True):
                self.assertAlmostEqual(one, other, delta=0.02)
        run(*launch, program, "generated", "1", checkpoint)
        self.assertTrue(run(*launch, program, "generated", "2", checkpoint).startswith("epoch 2: "))  # it resumes
        failed = subprocess.run([program, "/nowhere"], capture_output=True, text=True, timeout=60)
        self.assertEqual((failed.returncode, failed.stderr), (1, "cifar10_ddp: cannot read 10000 images from /nowhere/data_batch_1.bin\n"))

    def test_a_users_binary_has_nothing_of_mkl(self):
        for program in ("own_loop", "cifar10_ddp", "own_model", "own_strategy"):
            symbols = run("nm", "--defined-only", self.examples / program).lower()
            self.assertIn(" main\n", symbols)
            self.assertNotIn(" mkl_", symbols)

    def test_own_model_is_one_more_in_the_program(self):
        program = self.examples / "own_model"
        self.assertIn("tiny", run(program, "list", "models"))
        out = run(program, "train", "-n", "2", "--strategy", "ring", "--set", "model=tiny", "--set", "batch.per_worker=32",
                  "--set", "data.train_samples=640", "--set", "data.test_samples=200", cwd=self.folder.name)
        self.assertIn("ring", out)
        self.assertTrue(os.path.exists(f"{self.folder.name}/runs/0001-ring-n2/model.pt"))

    def test_own_strategy_keeps_what_it_promises(self):
        out = run(self.examples / "own_strategy")  # exit status 0: every check passed
        verdicts = {check: verdict for verdict, check in re.findall(r"^(ok|FAILED|-) +(\w+) ", out, re.M)}
        self.assertEqual(verdicts, {"exact": "-", "noticed": "-", "uneven": "-", "agrees": "-",  # not promised
                                    "repeats": "ok", "learns": "ok", "bytes": "ok", "overflow": "ok", "start": "ok",
                                    "mismatch": "ok", "resume": "ok", "retake": "-"})
        trained = {name: (float(accuracy), int(sent)) for name, accuracy, sent in
                   re.findall(r"^(\w+) +accuracy +([\d.]+) %, +(\d+) bytes", out, re.M)}
        self.assertEqual(trained["ring"][1], 2 * 16 * 8 * 3 // 4 * 80)  # 2n(P-1)/P for 16 doubles, in each of 80 steps
        in_pairs = 16 * 8 * 80  # a ring of two sends all once, in each of 80 steps
        self.assertEqual(trained["easgd"][1], in_pairs + trained["ring"][1] // 4)  # between all in every fourth
        self.assertGreater(trained["easgd"][0], 95)

    def test_own_strategy_is_one_more_in_the_program(self):
        program = self.examples / "own_strategy"
        self.assertIn("easgd", run(program, "list", "strategies"))
        run(program, "train", "-n", "2", "--strategy", "easgd", "--set", "local.steps=5", "--set", "run.folder=own",
            "--set", "train.epochs=2", "--set", "batch.per_worker=32", "--set", "data.train_samples=640",
            "--set", "data.test_samples=200", cwd=self.folder.name)
        summary = json.loads((Path(self.folder.name) / "own/0001-easgd-n2/summary.json").read_text())
        sent = summary["exchange"]["payload_sent"]  # one pair's 20 steps, and 4 exchanges: in each a rank sends all once
        self.assertEqual(sent, (20 + 4) * 2 * 4 * summary["parameters"])
        self.assertEqual(sent, 2 * summary["closed_form"]["payload_sent"])
        self.assertEqual(len({rank["parameters_hash"] for rank in summary["ranks"]}), 1)  # the centre's


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
