#!/usr/bin/env python3
"""`ripieno train` as the ranks of a job that other launchers start, the real ones: the same weights as with Ripieno's own, one
line for what went wrong, and nothing left. What they need is installed by scripts/setup engines."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from launcher_case import ENVIRONMENT, RIPIENO, ROOT, TRAIN, LauncherCase, in_full
from nodes import Nodes, ip

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

    def test_a_job_is_found_behind_what_wraps_its_ranks(self):
        own = self.own()
        train = " ".join(str(word) for word in TRAIN)
        for name in ("mpirun", "mpiexec"):
            with self.subTest(name):
                done = self.run_all(*LAUNCHERS[name], "timeout", "100", "sh", "-c", f"{train}; true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.hashes(), own)
                self.nothing_is_left()

    def test_ranks_of_one_host_listen_where_the_others_come(self):
        """By a name, an address, the loopback and IPv6, with and without a secret; CI takes the names."""
        own = self.own()
        with Nodes(1) as nodes:
            ip("-n", nodes.networks[1], "-6", "addr", "add", "fd00:77::1/64", "dev", "net0", "nodad")
            hosts = {"name": "node0", "address": nodes.address(0), "loopback": "127.0.0.1", "IPv6": "fd00:77::1", "IPv6 loopback": "::1"}
            full = os.environ.get("RIPIENO_FULL") == "1"
            for way, host in hosts.items() if full else [("name", "node0")]:
                for secret in ({"RIPIENO_TOKEN": "ab" * 32}, {}):
                    at = f"[{host}]" if ":" in host else host
                    meeting = {"RIPIENO_RENDEZVOUS": f"{at}:29500"} if secret else {}
                    torchrun = (*CALLED["torchrun"], "--no-python", "--nproc-per-node", "4", "--nnodes", "1", "--node-rank", "0", "--master-addr", host,
                                "--master-port", "29400")
                    for name, launcher, variables in (("torchrun", torchrun, {}), ("mpirun", LAUNCHERS["mpirun"], meeting),
                                                      ("mpirun 5", LAUNCHERS["mpirun 5"], meeting), ("mpiexec", LAUNCHERS["mpiexec"], meeting)):
                        if name == "torchrun" and not full and not secret:
                            continue  # by a file, as everywhere
                        with self.subTest(way=way, secret=bool(secret), launcher=name):
                            job = nodes.start(0, (*launcher, *TRAIN), cwd=self.folder, env=ENVIRONMENT | secret | variables, stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True)
                            said, _ = job.communicate(timeout=120)
                            self.assertEqual(job.returncode, 0, said)
                            self.assertEqual(self.hashes(), own)

    def test_one_process_is_a_number_too(self):
        recipe = self.folder / "four.toml"
        recipe.write_text('workers = 4\nmodel = "mnist-3conv"\n[batch]\nglobal = 64\n[data]\ntrain_samples = 640\ntest_samples = 100\n')
        for name in ("mpirun", "mpiexec"):
            for processes in (1, 2, 4):
                with self.subTest(name, processes=processes):
                    done = self.run_all(*CALLED[name], "-n", processes, RIPIENO, "train", recipe)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.summary()["world_size"], processes)
                    self.assertEqual("has started 1 process" in done.stderr, processes == 1, done.stderr)

    def test_torchrun_starts_a_job_again_and_it_goes_on(self):
        whole = self.run_all(*TRAIN, "-n", "4", "--set", "train.epochs=30")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        expected = self.hashes()
        torchrun = (*CALLED["torchrun"], "--no-python", "--nproc-per-node", "4", "--max-restarts", "1")
        command = [str(word) for word in (*torchrun, *TRAIN, "--set", "train.epochs=30", "--set", "run.checkpoint_s=0.01")]
        job = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in job.stdout:
            said += line
            if "epoch 3/" in line and "goes on from" not in said:
                rank = subprocess.run(("pgrep", "-f", f"^{RIPIENO} train .*checkpoint_s=0.01"), capture_output=True, text=True).stdout.split()[-1]
                os.kill(int(rank), signal.SIGKILL)
        self.assertEqual(job.wait(timeout=120), 0, said)
        self.assertRegex(said, r"ripieno: note: goes on from runs/0002-ring-n4, which was saved .*TORCHELASTIC_RESTART_COUNT is 1\)")
        self.assertEqual(self.hashes(), expected)
        self.nothing_is_left()

    def test_two_nodes(self):
        """As a user would start them, with plain variables or torchrun: the same command on each node, and a file that holds the secret, or a
        shared folder. Rank 0 is named by its name, its address, and in IPv6; CI takes the addresses and plain variables."""
        own = self.own()
        secret = self.folder / "secret"
        secret.write_text("ab" * 32)
        secret.chmod(0o600)
        shared = self.folder / "meeting"
        shared.mkdir(mode=0o700)
        ways = {"a secret": {"RIPIENO_TOKEN_FILE": str(secret)}, "a shared folder": {"RIPIENO_MEETING_FOLDER": str(shared)}}
        full = os.environ.get("RIPIENO_FULL") == "1"
        with Nodes(2) as nodes:
            for node in range(2):
                ip("-n", nodes.networks[1 + node], "-6", "addr", "add", f"fd00:77::{node + 1}/64", "dev", "net0", "nodad")
            for host in ("10.77.0.1", "node0", "fd00:77::1") if full else ("10.77.0.1",):
                for way, variables in ways.items():
                    for launcher in (self.by_hand, self.by_torchrun) if full else (self.by_hand,):
                        with self.subTest(host=host, way=way, launcher=launcher.__name__):
                            started = launcher(nodes, host, ENVIRONMENT | variables)
                            said = [process.communicate(timeout=120)[0] for process in started]
                            self.assertEqual({process.returncode for process in started}, {0}, said)
                            self.assertEqual(self.hashes(), own)
                            ways_to_peers = self.summary()["ranks"][0]["ways"]
                            self.assertEqual(ways_to_peers[1], "shared memory")
                            self.assertTrue(ways_to_peers[2].startswith("tcp"), ways_to_peers)
                            self.assertEqual(list(shared.iterdir()), [])

    def by_hand(self, nodes, host, environment):
        return [nodes.start(rank // 2, TRAIN, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment | {
            "RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": host, "MASTER_PORT": "29400"})
            for rank in range(4)]

    def by_torchrun(self, nodes, host, environment):
        return [nodes.start(node, (*CALLED["torchrun"], "--no-python", "--nnodes", "2", "--nproc-per-node", "2", "--node-rank", node, "--master-addr", host,
                                   "--master-port", "29400", *TRAIN), cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                for node in range(2)]

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
