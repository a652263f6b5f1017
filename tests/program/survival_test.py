"""Workers that are killed while the others go on: a job of strategy leader-ring ends well without them."""

import contextlib
import os
import signal
import unittest

from program import BINARY, PEER, SMALL, WATCHDOG, ProgramTest, Run, sets, workers_of

# Long enough to be disturbed.
LONG = SMALL | {"strategy": "leader-ring", "run.folder": "runs", "train.epochs": 40, "data.train_samples": 256,
                "data.test_samples": 10, "batch.per_worker": 16}


class SurvivalTest(ProgramTest):
    def started(self, *command, settings=None):
        """A job of three workers that has trained an epoch, and the workers' process ids in order of rank."""
        launcher = self.start(*(command or ("train", "-n", "3")), *sets(LONG | (settings or {})))
        self.wait_until("an epoch ends", lambda: any('"type":"epoch"' in file.read_text() for file in self.folder.glob("runs/*/metrics-0.jsonl")))
        ranks = workers_of(launcher)
        self.assertEqual(len(ranks), 3)
        return launcher, ranks

    def finish(self, launcher):
        _, err = launcher.communicate(timeout=WATCHDOG)
        return err

    def check_end(self, left, epochs=40):
        """The run has all its epochs, and the numbers of the ranks that are left."""
        (folder,) = self.runs()
        summary = Run(folder).summary
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], left)
        self.assertEqual(len({rank["parameters_hash"] for rank in summary["ranks"]}), 1)
        for rank in left:
            records = Run(folder).metrics(rank)
            self.assertEqual(sum(record["type"] == "epoch" for record in records), epochs)
            self.assertEqual([record["step"] for record in records if record["type"] == "step"], list(range(summary["steps"])))
        self.assertTrue((folder / "model.pt").exists())
        self.assertIn("leader-ring: it lost rank", self.good("report", "runs"))
        self.good("report", "runs", "--format", "html", "--output", "report.html")
        self.assert_nobody_left()

    def test_the_others_go_on_without_a_killed_worker(self):
        for where in ("on", "off"):  # shared memory
            with self.subTest(shared_memory=where):
                self.variables = {"RIPIENO_SHARED_MEMORY": where}
                launcher, ranks = self.started()
                os.kill(ranks[1], signal.SIGKILL)
                err = self.finish(launcher)
                self.assertEqual(launcher.returncode, 0, err)
                self.assertIn("leader-ring: rank 1 was killed by signal 9 (Killed); the other ranks go on\n", err)
                self.assertIn("leader-ring: rank 1 lost: 2 of 3 ranks go on\n", err)
                self.check_end([0, 2])
                for run in self.runs():
                    run.rename(self.folder / f"done-{where}")

    def test_one_after_the_other(self):
        launcher, ranks = self.started()
        os.kill(ranks[2], signal.SIGTERM)  # as who wants the machine back
        for line in launcher.stderr:
            if "2 of 3 ranks go on" in line:
                break
        os.kill(ranks[1], signal.SIGKILL)
        err = self.finish(launcher)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn("rank 1 lost: 1 of 3 ranks go on\n", err)
        self.check_end([0])

    def test_under_a_launcher(self):
        launcher, ranks = self.started("launch", "-n", "3", "--", BINARY, "train")
        os.kill(ranks[2], signal.SIGKILL)
        err = self.finish(launcher)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn("rank 2 was killed by signal 9 (Killed); the other ranks go on\n", err)
        self.check_end([0, 1])

    def test_nobody_goes_on_without_rank_0(self):
        launcher, ranks = self.started(settings={"train.epochs": 100000})
        os.kill(ranks[0], signal.SIGKILL)
        err = self.finish(launcher)
        self.assertEqual(launcher.returncode, PEER, err)
        self.assertIn("rank 0 was killed by signal 9 (Killed)", err)
        self.assert_no_summary()
        self.assert_nobody_left()

    def test_a_run_that_lost_a_worker_can_be_resumed_with_all(self):
        launcher, ranks = self.started(settings={"run.checkpoint_every": 1, "train.epochs": 10})
        os.kill(ranks[1], signal.SIGKILL)
        err = self.finish(launcher)
        self.assertEqual(launcher.returncode, 0, err)
        (folder,) = self.runs()
        self.assertEqual(sorted(path.name for path in folder.glob("state-*")), ["state-0.pt", "state-1.pt", "state-2.pt"])
        for workers in (3, 2):
            self.good("train", "--resume", folder, "-n", workers, "--set", "train.epochs=11")
            resumed = Run(self.runs()[-1])
            self.assertEqual(resumed.metrics(0)[0]["first_epoch"], 10)
            self.assertEqual(len(resumed.summary["ranks"]), workers)


    def killed_at_the_end(self, folder, command, moment):
        """The job's exit code, and its errors: rank 2 is killed when rank 0 has its last epoch, or rank 2 its state."""
        launcher = self.start(*command, *sets(LONG | {"train.epochs": 3, "data.train_samples": 96, "run.folder": folder}))

        def has_come():
            files = list(self.folder.glob(f"{folder}/*/{moment}"))
            return files and (moment != "metrics-0.jsonl" or files[0].read_text().count('"type":"epoch"') == 3)

        while not has_come() and launcher.poll() is None:
            pass
        ranks = workers_of(launcher)
        if len(ranks) == 3:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(ranks[2], signal.SIGKILL)
        err = self.finish(launcher)
        self.assert_nobody_left()
        return launcher.returncode, err

    def test_a_worker_that_is_killed_at_the_very_end(self):
        """Before it has saved its state, or after: the run is whole, and can be resumed with all."""
        for moment in ("metrics-0.jsonl", "state-2.pt"):
            with self.subTest(moment=moment):
                code, err = self.killed_at_the_end(moment, ("train", "-n", "3"), moment)
                self.assertEqual(code, 0, err)
                (folder,) = self.folder.glob(f"{moment}/*")
                self.assertEqual(sorted(path.name for path in folder.glob("state-*")), ["state-0.pt", "state-1.pt", "state-2.pt"])
                self.assertIn(0, [rank["rank"] for rank in Run(folder).summary["ranks"]])
                self.good("train", "--resume", folder, "--set", "train.epochs=4")

    def test_a_worker_that_is_killed_at_the_very_end_under_a_launcher(self):
        """Rank 0 may miss its part of the run: then the job says so, and ends at once."""
        for moment in ("metrics-0.jsonl", "state-2.pt"):
            with self.subTest(moment=moment):
                code, err = self.killed_at_the_end(moment, ("launch", "-n", "3", "--", BINARY, "train"), moment)
                self.assertIn(code, (0, PEER), err)
                self.assertTrue(code == 0 or "rank 2" in err, err)


if __name__ == "__main__":
    unittest.main()
