#!/usr/bin/env python3
"""transport.kind = mpi: ranks that mpirun and srun start exchange over MPI, the real ones. The same weights as over Ripieno's
own links, one line for what went wrong, and nothing left. scripts/mpi compiles the plug-ins."""
import json
import os
import re
import unittest
from pathlib import Path

from launcher_case import ENVIRONMENT, RIPIENO, ROOT, TRAIN, LauncherCase, in_full
from slurm import Slurm

LAUNCHERS = {"Open MPI 4": ("mpirun.openmpi", "-n", "4"), "Open MPI 5": (ROOT / ".engines/bin/mpirun", "-n", "4"), "MPICH": ("mpiexec.hydra", "-n", "4")}
EVERY = Path(RIPIENO).with_name("every_strategy")
MPI = ("--set", "transport.kind=mpi")
OVER_MPI = [*TRAIN, *MPI]


class OverMpi(LauncherCase):
    def trains(self, launcher, own, train=TRAIN):
        done = self.run_all(*launcher, *train, *MPI)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.hashes(), own)
        for rank in self.summary()["ranks"]:
            self.assertEqual(rank["ways"], ["" if peer == rank["rank"] else "MPI" for peer in range(4)])
        self.nothing_is_left()

    def test_each_mpi_gives_the_same_weights(self):
        own = self.own()
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                self.trains(launcher, own)

    def test_the_route_native_trains(self):
        train = ["ddp" if word == "ring" else word for word in TRAIN] + ["--set", "exchange.route=ring", "--set", "exchange.measure=off"]
        alone = self.run_all(*train, "-n", "4")
        self.assertEqual(alone.returncode, 0, alone.stderr)
        ours = self.summary()
        native = ["exchange.route=native" if word == "exchange.route=ring" else word for word in train]
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, *native, *MPI)
                self.assertEqual(done.returncode, 0, done.stderr)
                theirs = self.summary()
                self.assertAlmostEqual(theirs["test"]["accuracy"], ours["test"]["accuracy"], delta=0.02)
                self.assertEqual(len(set(self.hashes())), 1)
                # Four ranks send 2 * 3/4 of it around a ring, and hand it over to MPI once.
                sent = [one["exchange"]["payload_sent"] for one in (ours, theirs)]
                self.assertAlmostEqual(sent[0] / sent[1], 1.5, delta=0.01)
                self.assertIn("it is not known what MPI sends", done.stdout)
                self.nothing_is_left()

    @in_full
    def test_other_strategies_too(self):
        for strategy in ("ddp", "reduce-broadcast", "ps-sync", "fedavg"):
            train = [strategy if word == "ring" else word for word in TRAIN] + ["-n", "3" if strategy == "ps-sync" else "4"]
            if strategy == "ddp":  # which would choose route and buckets by the links
                train += ["--set", "exchange.route=ring", "--set", "exchange.measure=off"]
            alone = self.run_all(*train)
            self.assertEqual(alone.returncode, 0, alone.stderr)
            own = self.hashes()
            for name, launcher in LAUNCHERS.items():
                with self.subTest(f"{strategy} over {name}"):
                    self.trains(launcher, own, train)

    def test_bench_times_operations_of_mpi_and_ours(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, RIPIENO, "bench", "all", "--transport", "mpi", "--route", "native", "--route", "auto", "--root", "2", "-b", "4K", "-e",
                                    "64K", "-f", "16", "-i", "5", "--format", "json")
                self.assertEqual(done.returncode, 0, done.stderr)
                rows = json.loads(done.stdout)
                self.assertEqual(len(rows), 8 * 2 * 2)
                self.assertEqual({row["wrong"] for row in rows}, {0})
                self.assertEqual({row["ranks"] for row in rows}, {4})
                self.assertEqual(sum(row["route"] == "native" for row in rows), 16)

    def test_a_killed_rank_ends_the_job(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                said = self.kill_a_rank(launcher, self.folder / name.replace(" ", "-"), OVER_MPI)
                # MPICH's other ranks may find out first, and end by themselves.
                self.assertRegex(said, r"signal 9|SIGKILL|Killed|lost rank|BAD TERMINATION")

    @in_full
    def test_a_rank_may_end_long_before_another(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, EVERY, "mpi", "late")
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    @in_full
    def test_ctrl_c_leaves_nothing(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                self.interrupt(launcher, self.folder / name.replace(" ", "-"), OVER_MPI)

    @in_full
    def test_a_rank_without_data_says_so_in_a_line(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, *OVER_MPI, "--set", "data.name=mnist", "--set", "data.folder=/nowhere")
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stdout + done.stderr, r"ripieno: rank \d: mnist: there is no train-images-idx3-ubyte")
                self.nothing_is_left()

    def test_what_does_not_fit_is_said_in_a_line(self):
        plugins = Path(RIPIENO).parent
        cases = [
            ((*OVER_MPI, "-n", "2"), {}, r"takes processes that its own launcher has started: start 2 of this command with mpirun or srun"),
            (("mpirun.openmpi", "-n", "2", *OVER_MPI), {"RIPIENO_MPI_PLUGIN": str(plugins / "ripieno-mpi-mpich.so")},
             r"rank \d of 2 \(mpirun \(Open MPI\): .*\), but for MPI \(MPICH .*\) it is rank 0 of 1: that library does not know this launcher"),
            (("mpirun.openmpi", "-n", "2", *OVER_MPI), {"RIPIENO_MPI_PLUGIN": "/nowhere.so"}, r"the plug-in for MPI cannot be loaded: /nowhere.so"),
            (OVER_MPI, {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29400"},
             r"needs processes that an MPI's launcher started: none has started this one \(environment: RANK is 0, WORLD_SIZE is 2\)"),
            (("mpirun.openmpi", "-n", "2", *OVER_MPI), {"RIPIENO_SHARED_MEMORY": "off"}, r"RIPIENO_SHARED_MEMORY is off, which has no effect with transport mpi"),
            ((*TRAIN, "--set", "exchange.route=native"), {}, r"exchange.route = \"native\" .*is MPI's own operation, but transport.kind = \"tcp\""),
            ((*OVER_MPI, "--set", "transport.listen=127.0.0.1:1"), {}, r"transport.listen = .* has no effect with transport.kind = \"mpi\""),
        ]
        for command, variables, line in cases:
            with self.subTest(line):
                done = self.run_all(*command, **variables)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, line)
                self.nothing_is_left()


class EveryStrategy(LauncherCase):
    """With every codec that it takes, over each transport: on every rank the numbers of virtual time, to the bit."""

    def over(self, way, *command, **environment):
        done = self.run_all(*command, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        first, *cases = done.stdout.splitlines()
        self.assertEqual(first, f"way {way}")
        ends = [case for case in cases if case.endswith(" ends")]  # at their own pace: nothing to compare
        self.assertEqual({case.split()[0] for case in ends}, {"ps-async", "ps-ssp"})
        self.assertGreater(len(cases) - len(ends), 140)
        self.assertEqual([case for case in cases if not case.endswith((" same", " ends"))], [])
        self.nothing_is_left()

    def test_over_shared_memory(self):
        self.over("shared memory", RIPIENO, "launch", "-n", "4", "--", EVERY, "tcp")

    def test_over_open_mpi(self):
        self.over("MPI", *LAUNCHERS["Open MPI 4"], EVERY, "mpi")

    def test_along_the_route_native(self):
        for name, launcher in LAUNCHERS.items():
            with self.subTest(name):
                done = self.run_all(*launcher, EVERY, "mpi", "native")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                first, *cases = done.stdout.splitlines()
                self.assertEqual(first, "way MPI")
                self.assertEqual(cases, [f"{strategy} auto close" for strategy in ("ddp", "accumulate", "local-sgd", "diloco")])
                self.nothing_is_left()

    @in_full
    def test_over_the_others(self):
        self.over("tcp", RIPIENO, "launch", "-n", "4", "--", EVERY, "tcp", RIPIENO_SHARED_MEMORY="off")
        self.over("MPI", *LAUNCHERS["Open MPI 5"], EVERY, "mpi")
        self.over("MPI", *LAUNCHERS["MPICH"], EVERY, "mpi")


class UnderSlurm(LauncherCase):
    """Two nodes with two ranks each: MPI's own network between them."""

    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm(2)
        cls.addClassCleanup(cls.slurm.close)

    def test_srun_starts_what_speaks_its_pmi(self):
        own = self.own()
        for kind in ("pmix", "pmi2"):
            with self.subTest(kind):
                path = {"PATH": f"{Path(RIPIENO).parent}:{os.environ['PATH']}"}
                code, said = self.slurm.run("srun", f"--mpi={kind}", "--nodes=2", "--ntasks-per-node=2", *OVER_MPI, cwd=self.folder, env=ENVIRONMENT | path)
                self.assertEqual(code, 0, said)
                self.assertEqual(self.hashes(), own)
                self.assertEqual(self.summary()["ranks"][0]["ways"], ["", "MPI", "MPI", "MPI"])

    def test_without_a_pmi_a_line_says_which(self):
        code, said = self.slurm.run("srun", "--mpi=none", "--nodes=2", "--ntasks-per-node=1", *OVER_MPI, cwd=self.folder, env=ENVIRONMENT)
        self.assertNotEqual(code, 0)
        self.assertTrue(re.search(r"use srun --mpi=pmix \(Open MPI\) or srun --mpi=pmi2 \(MPICH\)", said), said)


if __name__ == "__main__":
    unittest.main()
