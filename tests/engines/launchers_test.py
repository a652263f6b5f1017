#!/usr/bin/env python3
"""`ripieno train` as the ranks of a job that other launchers start, the real ones: the same weights as with Ripieno's own, one
line for what went wrong, and nothing left. What they need is installed by scripts/setup engines."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from launcher_case import ENVIRONMENT, RIPIENO, ROOT, TRAIN, LauncherCase, in_full
from nodes import Nodes

# How docs/clusters.md has each launcher start four ranks. Debian calls MPICH's mpiexec and Open MPI's mpirun so when both are there.
CALLED = {"mpirun": ("mpirun.openmpi",), "mpiexec": ("mpiexec.hydra",), "torchrun": (sys.executable, "-m", "torch.distributed.run")}
LAUNCHERS = {name: (*CALLED[name], *words.split()) for name, words in
             re.findall(r"^(\w+) (.+) ripieno train recipes/mnist.toml --strategy ring", (ROOT / "docs/clusters.md").read_text(), re.M) if name != "srun"}
DOCUMENTED = list(LAUNCHERS)
LAUNCHERS["mpirun 5"] = (ROOT / ".engines/bin/mpirun", *LAUNCHERS["mpirun"][1:])


class Launchers(LauncherCase):
    def test_each_trains_as_ripienos_own_launcher(self):
        own = self.own()
        self.assertEqual(len(own), 1)
        self.assertEqual(DOCUMENTED, list(CALLED))
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                self.assertIsNotNone(shutil.which(launcher[0]), f"{launcher[0]} is missing: scripts/setup engines")
                done = self.run_all(*launcher, *TRAIN, "--set", "run.trace=true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.count("images"), 1, "rank 0 alone prints the result")
                self.assertEqual(self.hashes(), own)
                self.assertTrue(json.loads(max(self.folder.glob("runs/*/trace.json")).read_text()), "one trace of all ranks")
                environment = json.loads(max(self.folder.glob("runs/*/env.json")).read_text())
                self.assertTrue(environment["launcher"].startswith({"mpiexec": "mpiexec (Hydra)", "torchrun": name}.get(name, "mpirun (Open MPI)")))
                self.nothing_is_left()

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                said = self.kill_a_rank(launcher, self.folder / name)
                self.assertTrue(re.search(r"rank \d: (rank \d gave up: )?lost rank \d", said) or "SIGKILL" in said or "signal 9" in said, said)

    @in_full
    def test_ctrl_c_leaves_nothing(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                self.interrupt(launcher, self.folder / name)

    @in_full
    def test_a_rank_without_data_says_so_in_a_line(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, *TRAIN, "--set", "data.name=mnist", "--set", "data.folder=/nowhere")
                said = done.stdout + done.stderr
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(said, r"ripieno: rank \d: mnist: there is no train-images-idx3-ubyte")
                if name == "torchrun":  # which names the cause, from TORCHELASTIC_ERROR_FILE
                    self.assertRegex(said, r"(?s)Root Cause.*rank \d: mnist: there is no train-images-idx3-ubyte")
                self.nothing_is_left()

    def test_numbers_of_processes_that_do_not_fit_are_both_named(self):
        done = self.run_all(*LAUNCHERS["mpirun"], *TRAIN, "-n", "3")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"rank \d: mpirun \(Open MPI\) has started 4 processes .* but the recipe needs 3")
        self.assertFalse((self.folder / "runs").exists())

    def test_processes_count_as_n_would_and_servers_are_among_them(self):
        recipe = self.folder / "two.toml"
        recipe.write_text('workers = 2\nmodel = "mnist-3conv"\n[batch]\nglobal = 64\n[data]\ntrain_samples = 640\ntest_samples = 100\n')
        for strategy, workers in (("ring", 4), ("ps-sync", 3)):
            done = self.run_all(*LAUNCHERS["mpirun"], RIPIENO, "train", recipe, "--strategy", strategy)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.summary()["world_size"], 4)
            config = max(self.folder.glob("runs/*/config.toml")).read_text()
            self.assertIn(f"workers = {workers}\n", config)

    def test_two_nodes_by_hand(self):
        """As a user would start them: the same command on each node, twice, with plain variables and a file that holds the secret, or
        a shared folder."""
        own = self.own()
        secret = self.folder / "secret"
        secret.write_text("ab" * 32)
        secret.chmod(0o600)
        shared = self.folder / "meeting"
        shared.mkdir(mode=0o700)
        ways = {"an address": {"RIPIENO_TOKEN_FILE": str(secret)}, "a shared folder": {"RIPIENO_MEETING_FOLDER": str(shared)}}
        for way, variables in ways.items():
            with self.subTest(way), Nodes(2) as nodes:
                ranks = []
                for rank in range(4):
                    place = {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": nodes.address(0),
                             "MASTER_PORT": "29400"}
                    ranks.append(nodes.start(rank // 2, TRAIN, cwd=self.folder, env=ENVIRONMENT | place | variables, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True))
                said = [rank.communicate(timeout=120)[0] for rank in ranks]
                self.assertEqual([rank.returncode for rank in ranks], [0] * 4, said)
                self.assertEqual(self.hashes(), own)
                ways_to_peers = self.summary()["ranks"][0]["ways"]
                self.assertEqual(ways_to_peers[1], "shared memory")
                self.assertTrue(ways_to_peers[2].startswith("tcp"), ways_to_peers)
                self.assertEqual(list(shared.iterdir()), [])

    def test_two_nodes_without_a_secret_are_told_what_to_do(self):
        place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29400"}
        done = self.run_all(*TRAIN, **place)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^ripieno: rank 1 \(environment: .*\) does not know the job's secret: set RIPIENO_MEETING_FOLDER .*\n$")

    def test_doctor_says_which_launcher_and_where_ranks_meet(self):
        done = self.run_all("mpirun.openmpi", "-n", "2", RIPIENO, "doctor")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"launcher +mpirun \(Open MPI\) \(OMPI_COMM_WORLD_RANK is 1, OMPI_COMM_WORLD_SIZE is 2\)")
        self.assertRegex(done.stdout, r"ranks_meet +by the file that rank 0 leaves: ")


if __name__ == "__main__":
    unittest.main()
