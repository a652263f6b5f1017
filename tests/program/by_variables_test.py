"""Ranks that find each other by variables, as other launchers set them, on one host: how many there are, where they listen, whose
they are, what they read, and that a job that was started again goes on."""

import json
import os
import signal
import socket
import struct
import unittest
from pathlib import Path

from program import SMALL, USAGE, WATCHDOG, ProgramTest, Run, free_port, sets

MISMATCH = 7
RUN = SMALL | {"model": "mnist-3conv", "run.folder": "runs"}
SECRET = "ab" * 32


def plain(rank, size, port, address="127.0.0.1", **more):
    return {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": address,
            "MASTER_PORT": str(port)} | more


def own_address():
    """By which this host would leave for others; None if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return None


class ByVariablesTest(ProgramTest):
    def begin(self, variables, settings=None, *arguments):
        self.variables = variables
        process = self.start("train", *arguments, *sets(RUN | (settings or {})))
        self.variables = {}
        return process

    def ended(self, process):
        """(exit code, standard error without progress)"""
        _, err = process.communicate(timeout=WATCHDOG)
        is_said = lambda line: ": epoch " not in line and "; waits for it for" not in line  # of a busy machine
        return process.returncode, "".join(filter(is_said, err.splitlines(True)))

    def test_ranks_listen_where_the_others_come(self):
        """One host, with and without a secret; the loopback, another address of the host, and IPv6."""
        own = self.train({"model": "mnist-3conv", "workers": 2}).hashes
        name = own_address() or "127.0.0.1"  # not the loopback, if there is another
        ways = {
            "plain, loopback": lambda rank, port: plain(rank, 2, port),
            "plain, loopback, secret": lambda rank, port: plain(rank, 2, port, RIPIENO_TOKEN=SECRET),
            "plain, name, secret": lambda rank, port: plain(rank, 2, port, name, RIPIENO_TOKEN=SECRET),
            "plain, name": lambda rank, port: plain(rank, 2, port, name),
            "torchrun, name, secret": lambda rank, port: plain(rank, 2, port, name, RIPIENO_TOKEN=SECRET, TORCHELASTIC_RUN_ID="x"),
            "srun, secret": lambda rank, port: {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1",
                                                "SLURM_JOB_ID": str(port), "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": name,
                                                "RIPIENO_TOKEN": SECRET},
            "mpirun, rendezvous, secret": lambda rank, port: {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2",
                                                              "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": str(port),
                                                              "RIPIENO_RENDEZVOUS": f"{name}:{port}", "RIPIENO_TOKEN": SECRET},
            "ripieno's, rendezvous, secret": lambda rank, port: {"RIPIENO_RANK": str(rank), "RIPIENO_WORLD_SIZE": "2",
                                                                 "RIPIENO_RENDEZVOUS": f"{name}:{port}", "RIPIENO_TOKEN": SECRET},
            "plain, loopback alone to listen at": lambda rank, port: plain(rank, 2, port, name, RIPIENO_TOKEN=SECRET, RIPIENO_LISTEN="127.0.0.1"),
        }
        six = Path("/proc/net/if_inet6")
        if six.exists() and " lo\n" in six.read_text():
            ways["plain, IPv6, secret"] = lambda rank, port: plain(rank, 2, port, "::1", RIPIENO_TOKEN=SECRET)
        for way, variables in ways.items():
            with self.subTest(way):
                port = free_port()
                ranks = [self.begin(variables(rank, port)) for rank in range(2)]
                self.assertEqual([self.ended(rank) for rank in ranks], [(0, "")] * 2)
                self.assertEqual(Run(self.runs()[-1]).hashes, own)

    def test_workers_of_one_launcher_meet_at_any_address_of_the_host(self):
        own = self.train({"model": "mnist-3conv", "workers": 2}).hashes
        address = own_address() or "127.0.0.1"
        self.assertEqual(self.train({"model": "mnist-3conv", "workers": 2, "transport.listen": f"{address}:0"}).hashes, own)

    def test_one_process_is_a_number_too(self):
        (self.folder / "four.toml").write_text("workers = 4\n")
        for launcher, variables in (("environment", plain(0, 1, 29500)),
                                    ("mpirun (Open MPI)", {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}),
                                    ("mpiexec (Hydra)", {"PMI_RANK": "0", "PMI_SIZE": "1"}),
                                    ("torchrun", plain(0, 1, 29500, TORCHELASTIC_RUN_ID="x"))):
            with self.subTest(launcher):
                code, err = self.ended(self.begin(variables, None, "four.toml"))
                self.assertEqual(code, 0, err)
                self.assertRegex(err, rf"^ripieno: note: {launcher.replace('(', '.').replace(')', '.')} has started 1 process \(.*\), so this trains "
                                      rf"1 worker in place of workers = 4 \(four.toml:1\); -n 4 would start 4 from this one\n$")
                self.assertEqual(Run(self.runs()[-1]).summary["world_size"], 1)
        code, err = self.ended(self.begin(plain(0, 1, 29500), None, "four.toml", "-n", "4"))  # of a shell in a job step
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(Run(self.runs()[-1]).summary["world_size"], 4)
        code, err = self.ended(self.begin(plain(0, 1, 29500), {"strategy": "ps-sync"}, "four.toml"))
        self.assertEqual(code, USAGE)
        self.assertIn("has started 1 process", err)
        self.assertIn("but the recipe needs 5 (workers = 4 (four.toml:1))", err)

    def test_two_jobs_with_the_same_variables(self):
        port = free_port()
        first = self.begin(plain(0, 2, port))
        self.wait_until("rank 0 waits", lambda: any(self.invitations(port)))
        second = self.begin(plain(0, 2, port))
        code, err = self.ended(second)
        self.assertEqual(code, USAGE)
        self.assertRegex(err, rf"^ripieno: rank 0 of this job is process {first.pid} already, which waits for the others .*MASTER_PORT")
        rank1 = self.begin(plain(1, 2, port))
        self.assertEqual([self.ended(rank) for rank in (first, rank1)], [(0, "")] * 2)
        self.assertEqual(len(self.runs()), 1)
        self.assertEqual(self.invitations(port), [])
        self.assertEqual([self.ended(rank) for rank in [self.begin(plain(rank, 2, port)) for rank in range(2)]], [(0, "")] * 2)

    def invitations(self, port):
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        folder = f"{runtime}/ripieno" if runtime else f"/tmp/ripieno-{os.getuid()}"
        return [name for name in os.listdir(folder) if name.endswith(f"-{port}")] if os.path.isdir(folder) else []

    def test_variables_that_contradict_each_other(self):
        code, err = self.ended(self.begin(plain(0, 2, 29500) | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}))
        self.assertEqual(code, USAGE)
        self.assertEqual(err, "ripieno: RANK is 0, WORLD_SIZE is 2, but srun says otherwise (SLURM_PROCID is 1, SLURM_STEP_NUM_TASKS is 2): leave the "
                              "first two unset, or set them to the same\n")

    def mnist(self, name, train, test, label=0, image=0):
        """Files with so many images; the first has this label, and begins with this pixel."""
        folder = self.folder / name
        folder.mkdir()
        for split, count in (("train", train), ("t10k", test)):
            images = bytes([image]) + (bytes(i * 7 % 251 for i in range(784)) * count)[1:]
            (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 0x803, count, 28, 28) + images)
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 0x801, count) + bytes([label, *(i % 10 for i in range(1, count))]))
        return folder

    def test_hosts_with_other_data(self):
        data = {"data.name": "mnist", "data.train_samples": 0, "data.test_samples": 0}
        whole = self.mnist("whole", 640, 100)
        others = {self.mnist("longer", 700, 100): r"reads 700 train images of mnist, and rank 0 on \S+ reads 640: all ranks need the same files",
                  self.mnist("labels", 640, 100, label=3): r"reads 640 \(digest \w{16}\) train images of mnist, and rank 0 on \S+ reads 640 \(digest \w{16}\):",
                  self.mnist("images", 640, 100, image=1): r"reads 640 \(digest \w{16}\) train images of mnist",
                  self.mnist("test", 640, 90): r"reads 90 test images of mnist, and rank 0 on \S+ reads 100:"}
        for folder, says in others.items():
            for strategy in ("ring", "ps-sync", "local-sgd"):
                with self.subTest(says, strategy=strategy):
                    port = free_port()
                    ranks = [self.begin(plain(rank, 2, port), data | {"data.folder": where, "strategy": strategy}) for rank, where in enumerate((whole, folder))]
                    for rank in ranks:
                        code, err = self.ended(rank)
                        self.assertEqual(code, MISMATCH, err)
                        self.assertRegex(err, rf"^ripieno: rank 1 on \S+ {says}")
        self.assertEqual(self.runs(), [])

    def test_a_job_that_was_started_again_goes_on(self):
        settings = {"batch.per_worker": 32, "data.test_samples": 20, "train.epochs": 40}
        whole = self.train(settings | {"model": "mnist-3conv", "workers": 2})
        def job(**more):
            port = free_port()
            return [self.begin(plain(rank, 2, port, **more), settings) for rank in range(2)]
        ranks = job()
        self.assertIn("epoch 1/", ranks[0].stderr.readline())
        for rank in ranks:
            rank.send_signal(signal.SIGTERM)
        self.assertEqual({self.ended(rank)[0] for rank in ranks}, {143})
        saved = self.runs()[-1]
        ranks = job(SLURM_RESTART_COUNT="1")
        code, err = self.ended(ranks[0])
        self.assertEqual(code, 0, err)
        self.assertRegex(err, rf"^ripieno: note: goes on from runs/{saved.name}, which was saved .* \(run.resume = \"restart\" \(default\), SLURM_RESTART_COUNT is 1\)\n$")
        self.assertEqual(self.ended(ranks[1]), (0, ""))
        self.assertEqual(Run(self.runs()[-1]).hashes, whole.hashes)
        self.assertEqual(len(self.runs()), 3)
        code, err = self.ended(job(SLURM_RESTART_COUNT="2")[0])  # there is nothing left to go on from
        self.assertEqual(code, 0, err)
        self.assertRegex(err, r"^ripieno: note: begins anew: no unfinished run in runs with these settings was saved \(run.resume = \"restart\" \(default\), ")

    def test_resume_by_a_key(self):
        settings = RUN | {"workers": 2, "batch.per_worker": 32, "train.epochs": 80, "run.resume": "auto"}
        run = self.start("train", *sets(settings))
        self.assertIn("begins anew", run.stderr.readline())
        self.assertIn("epoch 1/", run.stderr.readline())
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=WATCHDOG)
        result = self.ripieno("train", *sets(settings))
        self.assertEqual(result.code, 0, result.err)
        self.assertIn(f"goes on from runs/{self.runs()[0].name}", result.err)
        self.assertEqual(Run(self.runs()[-1]).summary["epochs"], 80)
        again = self.ripieno("train", *sets(settings))  # it has finished
        self.assertEqual((again.code, "goes on" in again.err), (0, False), again.err)
        self.assertEqual(json.loads((self.runs()[-1] / "summary.json").read_text())["epochs"], 80)


if __name__ == "__main__":
    unittest.main()
