#!/usr/bin/env python3
"""`ripieno train` in jobs of a real Slurm (slurm.py), by the job files of examples/slurm."""
import json
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

from launcher_case import ENVIRONMENT, RIPIENO, ROOT, TRAIN, LauncherCase, in_full
from slurm import Slurm

NODES = 3


class SlurmJobs(LauncherCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm(NODES)
        cls.addClassCleanup(cls.slurm.close)

    def at_slurm(self, *command):
        """(exit code, output) of a command on the login node, in this test's folder."""
        path = {"PATH": f"{Path(RIPIENO).parent}:{os.environ['PATH']}"}
        return self.slurm.run(*command, cwd=self.folder, env=ENVIRONMENT | path)

    def submit(self, *words, options=()):
        """A job of two nodes with two workers each, which goes on by itself. Returns its number."""
        code, said = self.at_slurm("sbatch", "--parsable", "--output=job.txt", *options, ROOT / "examples/slurm/train.sbatch", *TRAIN[2:], *words)
        self.assertEqual(code, 0, said)
        return said.strip()

    def start_training(self, options=()):
        """A job that has trained an epoch, and would train for long."""
        job = self.submit("--set", "train.epochs=10000", "--set", f"run.folder={self.folder}/runs", "--set", "run.checkpoint_every=1", options=options)
        for _ in range(600):
            if re.search("epoch 3/", self.output()):
                return job
            time.sleep(0.1)
        self.fail(self.output())

    def output(self):
        file = self.folder / "job.txt"
        return file.read_text() if file.exists() else ""

    def end(self, job):
        """Its state and exit code, as Slurm shows them once it has ended."""
        for _ in range(900):
            _, said = self.at_slurm("scontrol", "show", "job", job)
            state = re.search(r"JobState=(\w+)", said).group(1)
            if state not in ("PENDING", "RUNNING", "COMPLETING"):
                return state, re.search(r"ExitCode=(\S+)", said).group(1)
            time.sleep(0.1)
        self.fail(said)

    def is_whole(self):
        """The run that was ended: each line of its files is whole, and it can be resumed."""
        run = max(self.folder.glob("runs/*"))
        files = list(run.glob("metrics-*.jsonl"))
        self.assertEqual(len(files), 4)
        for file in files:
            for line in file.read_text().splitlines():
                json.loads(line)
        epochs = max(json.loads(line).get("epoch", 0) for line in files[0].read_text().splitlines()) + 3
        resumed = self.run_all(RIPIENO, "train", "--resume", run, "--set", f"train.epochs={epochs}", "--set", "run.folder=resumed")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)

    def test_a_job_trains_as_ripienos_own_launcher(self):
        own = self.own()
        code, said = self.at_slurm("sbatch", "--wait", "--output=job.txt", ROOT / "examples/slurm/train.sbatch", *TRAIN[2:])
        self.assertEqual(code, 0, said + self.output())
        self.assertEqual(self.hashes(), own)
        self.assertEqual(self.summary()["launcher"], "srun")
        ways = self.summary()["ranks"][0]["ways"]
        self.assertEqual((ways[1], ways[2][:3], ways[3][:3]), ("shared memory", "tcp", "tcp"))
        self.assertEqual(self.output().count("images"), 1, "rank 0 alone prints the result")
        self.nothing_is_left()

    def test_the_job_file_on_one_node(self):
        own = self.run_all(*TRAIN, "-n", "2")
        self.assertEqual(own.returncode, 0, own.stderr)
        expected = {rank["parameters_hash"] for rank in self.summary()["ranks"]}
        code, said = self.at_slurm("sbatch", "--wait", "--nodes=1", "--ntasks-per-node=2", "--output=job.txt", ROOT / "examples/slurm/train.sbatch", *TRAIN[2:])
        self.assertEqual(code, 0, said + self.output())
        self.assertEqual({rank["parameters_hash"] for rank in self.summary()["ranks"]}, expected)
        self.assertEqual(self.summary()["ranks"][0]["ways"], ["", "shared memory"])
        self.nothing_is_left()

    @in_full
    def test_a_group_of_a_heterogeneous_job(self):
        script = self.folder / "job.sh"
        script.write_text("#!/bin/bash\n#SBATCH --nodes=1 --ntasks=2\n#SBATCH hetjob\n#SBATCH --nodes=1 --ntasks=1\n"
                          "export RIPIENO_TOKEN=$(openssl rand -hex 32)\n" f"srun --het-group=0 {' '.join(map(str, TRAIN))}\n")
        code, said = self.at_slurm("sbatch", "--wait", "--output=job.txt", script)
        self.assertEqual(code, 0, said + self.output())
        self.assertEqual(self.summary()["world_size"], 2)

    @in_full
    def test_a_job_that_is_requeued_goes_on(self):
        job = self.start_training(options=("--requeue", "--open-mode=append"))
        self.assertEqual(self.at_slurm("scontrol", "requeue", job)[0], 0)
        for _ in range(3000):
            if "SLURM_RESTART_COUNT is 1)" in self.output():
                break
            time.sleep(0.1)
        self.assertRegex(self.output(), r"ripieno: note: goes on from \S*runs/\S+, which was saved .*SLURM_RESTART_COUNT is 1\)")
        self.at_slurm("scancel", job)
        self.end(job)
        self.nothing_is_left()

    def test_on_one_node_nothing_is_to_be_set(self):
        own = self.own()
        words, = re.findall(r"^srun (.+) ripieno train recipes/mnist.toml --strategy ring", (ROOT / "docs/clusters.md").read_text(), re.M)
        code, said = self.at_slurm("srun", *words.split(), *TRAIN)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.hashes(), own)
        self.nothing_is_left()

    @in_full
    def test_report_002_trains_by_its_job_file(self):
        (self.folder / "recipes").symlink_to(ROOT / "recipes")
        code, said = self.at_slurm("sbatch", "--wait", "--nodes=3", "--ntasks-per-node=1", "--output=job.txt", ROOT / "examples/slurm/seed-002.sbatch",
                                   "4n1p", "--set", "workers=3", "--set", "data.name=digits", "--set", "data.train_samples=768", "--set",
                                   "data.test_samples=100", "--set", "train.epochs=1")
        self.assertEqual(code, 0, said + self.output())
        summary = json.loads(max(self.folder.glob("runs/*/*/summary.json")).read_text())
        self.assertEqual((summary["world_size"], summary["strategy"]), (3, "reduce-broadcast"))
        self.assertEqual(summary["ranks"][0]["ways"], ["", "MPI", "MPI"])

    @in_full
    def test_without_a_secret_srun_is_told_how_to_give_one(self):
        code, said = self.at_slurm("srun", "-N2", "-n2", *TRAIN)
        self.assertEqual(code, 2, said)
        self.assertRegex(said, r"rank 1 \(srun: SLURM_PROCID is 1, SLURM_STEP_NUM_TASKS is 2\) does not know the job's secret: export RIPIENO_TOKEN=.* "
                               r"before srun")

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        job = self.start_training()
        ranks = subprocess.run(("pgrep", "-f", rf"^(\S*/)?ripieno train .*{self.folder}"), capture_output=True, text=True).stdout.split()
        self.assertEqual(len(ranks), 4)
        subprocess.run(("kill", "-9", ranks[-1]), check=True)
        state, code = self.end(job)
        self.assertEqual(state, "FAILED", self.output())
        self.assertNotEqual(code, "0:0")
        self.assertRegex(self.output(), r"rank \d: (rank \d gave up: )?lost rank \d")
        self.assertRegex(self.output(), r"srun: error: node\d: task \d: Killed")
        self.nothing_is_left()
        self.is_whole()

    @in_full
    def test_scancel_leaves_nothing_and_a_whole_run(self):
        job = self.start_training()
        self.assertEqual(self.at_slurm("scancel", job)[0], 0)
        self.assertEqual(self.end(job)[0], "CANCELLED")
        self.nothing_is_left()
        self.is_whole()

    @in_full
    def test_a_worker_without_its_data_says_so_in_a_line(self):
        code, said = self.at_slurm("sbatch", "--wait", "--output=job.txt", ROOT / "examples/slurm/train.sbatch", *TRAIN[2:], "--set", "data.name=mnist",
                                   "--set", "data.folder=/nowhere")
        self.assertEqual(code, 3, said + self.output())  # Ripieno's code for data, which srun and sbatch pass on
        self.assertRegex(self.output(), r"ripieno: rank \d: mnist: there is no train-images-idx3-ubyte")
        self.nothing_is_left()

    @in_full
    def test_a_drained_node_ends_what_it_does_and_gets_no_more(self):
        job = self.start_training()
        node = re.search(r" NodeList=node\[(\d)", self.at_slurm("scontrol", "show", "job", job)[1]).group(1)
        self.assertEqual(self.at_slurm("scontrol", "update", f"nodename=node{node}", "state=drain", "reason=test")[0], 0)
        epochs = self.output().count("epoch")
        time.sleep(1)
        self.assertGreater(self.output().count("epoch"), epochs, "it trains on")
        self.at_slurm("scancel", job)
        self.end(job)
        next_job = self.submit()
        self.assertEqual(self.end(next_job)[0], "COMPLETED", self.output())
        self.assertNotIn(f"node{node}", self.at_slurm("scontrol", "show", "job", next_job)[1].split("BatchHost")[1])
        self.at_slurm("scontrol", "update", f"nodename=node{node}", "state=resume")
        self.slurm.wait_for("idle")

    @in_full  # Slurm's shortest limit is a minute
    def test_a_job_that_times_out_leaves_nothing_and_a_whole_run(self):
        job = self.start_training(options=("--time=1",))
        state, _ = self.end(job)
        self.assertEqual(state, "TIMEOUT")
        self.nothing_is_left()
        self.is_whole()


if __name__ == "__main__":
    unittest.main()
