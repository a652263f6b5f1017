"""Runs that are interrupted, or end before they have written everything: they say how to go on, and go on with the same
bits as if nothing had happened. What cannot begin leaves no folder."""

import json
import os
import shutil
import signal
import unittest

from program import SMALL, WATCHDOG, ProgramTest, Run, sets, workers_of

# Some seconds, so that an interrupt comes long before its end: 80 epochs of 4 steps, the last of which is smaller.
RUN = SMALL | {"train.epochs": 80, "batch.per_worker": 32, "data.test_samples": 20, "run.folder": "runs",
              "model": "mnist-3conv"}
LONG = RUN | {"train.epochs": 100000}


class InterruptTest(ProgramTest):
    def started(self, settings, *arguments):
        """A run after its first epoch."""
        launcher = self.start("train", *arguments, *sets(settings))
        for line in launcher.stderr:  # before: what a processor without fp16's instructions is told
            if "epoch 1/" in line:
                return launcher
        self.fail("it ended before its first epoch's end")

    def interrupted(self, launcher, code):
        """What it says at its end: the line of the interrupt, and the folder that the command after it names."""
        out, err = launcher.communicate(timeout=WATCHDOG)
        self.assertEqual((launcher.returncode, out), (code, ""), err)
        lines = [line for line in err.splitlines() if ": epoch " not in line]
        says, (told, command) = lines[:-2], lines[-2:]
        self.assertTrue(told.startswith("ripieno: interrupted by signal"), err)
        self.assertTrue(command.startswith("ripieno train --resume "), err)
        self.assert_nobody_left()
        return says, told, command.split()[-1]

    def resume(self, folder, *arguments):
        before = set(self.folder.glob("**/[0-9]*-*"))
        self.good("train", "--resume", folder, *arguments)
        (new,) = set(self.folder.glob("**/[0-9]*-*")) - before
        return Run(new)

    def check_curve(self, whole, resumed):
        """The resumed run's files are those of the whole."""
        for rank in range(len(whole.hashes)):
            lines = {kind: [(line["epoch"], line.get("step"), line.get("loss")) for line in resumed.metrics(rank) if line["type"] == kind]
                     for kind in ("step", "epoch")}
            expected = {kind: [(line["epoch"], line.get("step"), line.get("loss")) for line in whole.metrics(rank) if line["type"] == kind]
                        for kind in ("step", "epoch")}
            self.assertEqual(lines, expected)
            times = [line["time"] for line in resumed.metrics(rank) if line["type"] in ("step", "epoch")]
            self.assertEqual(times, sorted(times))
        for part in ("test", "epochs", "steps", "exchange", "closed_form"):
            self.assertEqual(resumed.summary[part], whole.summary[part], part)
        self.assertEqual(len(resumed.summary["seconds"]["epoch"]), len(whole.summary["seconds"]["epoch"]))
        self.assertGreaterEqual(resumed.summary["seconds"]["total"], sum(resumed.summary["seconds"]["epoch"]))

    def test_goes_on_with_the_same_bits(self):
        for settings in ({"strategy": "ring", "exchange.codec": "topk"}, {"strategy": "ddp", "train.precision": "fp16"},
                         {"strategy": "diloco", "local.steps": 6}, {"strategy": "ps-sync"}):
            with self.subTest(settings):
                settings = RUN | settings | {"run.folder": f"runs-{settings['strategy']}"}
                whole = self.train(settings | {"run.folder": self.folder / "runs"})
                launcher = self.started(settings)
                launcher.send_signal(signal.SIGINT)
                says, told, folder = self.interrupted(launcher, 130)
                self.assertTrue(any("saves at the end of the step" in line for line in says), says)
                self.assertIn("signal 2 (Interrupt); saved after", told)
                self.assertFalse((self.folder / folder / "summary.json").exists())
                shutil.move(self.folder / folder, self.folder / "moved")
                resumed = self.resume("moved")
                self.assertEqual(resumed.folder.parent, self.folder)  # beside the run, where that is now
                self.assertEqual(resumed.hashes, whole.hashes)
                self.check_curve(whole, resumed)
                shutil.rmtree(self.folder / "moved")
                shutil.rmtree(resumed.folder)
                shutil.rmtree(whole.folder)

    def test_a_signal_to_any_process(self):
        for number, whom, code in ((signal.SIGTERM, "launcher", 143), (signal.SIGUSR1, "worker", 138), (signal.SIGINT, "worker", 130)):
            with self.subTest(f"{number.name} to the {whom}"):
                launcher = self.started(LONG | {"strategy": "gossip-pairs", "workers": 3})
                os.kill(launcher.pid if whom == "launcher" else workers_of(launcher)[1], number)
                _, told, folder = self.interrupted(launcher, code)
                self.assertIn(f"interrupted by signal {int(number)}", told)
                self.assertEqual(len(list((self.folder / folder).glob("state-*.pt"))), 3)

    def test_a_second_one_ends_at_once(self):
        launcher = self.started(LONG)
        os.kill(workers_of(launcher)[1], signal.SIGSTOP)  # so that no step ends
        launcher.send_signal(signal.SIGINT)
        self.assertIn("interrupted", launcher.stderr.readline())
        launcher.send_signal(signal.SIGINT)
        _, err = launcher.communicate(timeout=WATCHDOG)
        self.assertEqual(launcher.returncode, 130, err)
        self.assertIn("interrupted by signal 2 (Interrupt); nothing is saved", err)
        self.assert_nobody_left()

    def test_what_cannot_be_saved_says_so(self):
        launcher = self.started(LONG | {"strategy": "ps-async"})
        launcher.send_signal(signal.SIGINT)
        _, err = launcher.communicate(timeout=WATCHDOG)
        self.assertEqual(launcher.returncode, 130)
        self.assertIn("nothing is saved: the workers of ps-async are never at the same step", err)

    def test_virtual_time(self):
        settings = RUN | {"transport.kind": "simulated"}
        whole = self.train(settings | {"run.folder": self.folder / "runs"})
        launcher = self.started(settings)
        launcher.send_signal(signal.SIGINT)
        _, _, folder = self.interrupted(launcher, 130)
        self.assertEqual(self.resume(folder).hashes, whole.hashes)

    def test_a_grid_goes_on_with_the_run_that_was_saved(self):
        whole = self.train(RUN | {"run.folder": self.folder / "runs"})
        hashes = whole.hashes
        shutil.rmtree(whole.folder)
        keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in RUN.items())
        (self.folder / "grid.toml").write_text(keys + '[grid]\nstrategy = ["ring", "fedavg"]\n')
        launcher = self.start("compare", "grid.toml")
        self.assertTrue(any(": epoch 1/" in line for line in launcher.stderr))
        launcher.send_signal(signal.SIGINT)
        out, err = launcher.communicate(timeout=WATCHDOG)
        self.assertEqual((launcher.returncode, out), (130, ""), err)
        told, command = err.splitlines()[-2:]
        self.assertIn("interrupted by signal 2 (Interrupt); 0 of 2 runs are done, this one is not: saved after", told)
        self.assertEqual(command, "ripieno compare grid.toml")
        (folder,) = self.runs()
        again = self.ripieno(*command.split()[1:])
        self.assertEqual(again.code, 0, again.err)
        self.assertIn(f"goes on from runs/{folder.name}", again.err)
        self.assertEqual(len(self.runs()), 3)
        self.assertEqual(Run(self.runs()[1]).hashes, hashes)

    def test_checkpoints_on_the_way(self):
        launcher = self.start("train", *sets(LONG | {"run.checkpoint_s": 0.01}))
        saved = lambda: all(list(self.folder.glob(f"runs/*/state-{rank}*.pt")) for rank in (0, 1))
        self.wait_until("all ranks save", saved)  # the first time, long before lines are written without a need
        launcher.kill()
        (folder,) = self.folder.glob("runs/*")
        launcher.wait(WATCHDOG)
        self.wait_until("workers end after their launcher", lambda: not self.processes())
        resumed = self.start("train", "--resume", folder)
        self.assertIn(": epoch ", resumed.stderr.readline())
        resumed.send_signal(signal.SIGINT)
        _, _, again = self.interrupted(resumed, 130)
        steps = [line["step"] for line in Run(self.folder / again).metrics(0) if line["type"] == "step"]
        self.assertEqual(steps, list(range(len(steps))))
        run = self.train(RUN | {"run.folder": self.folder / "runs", "run.checkpoint_s": 0.01})
        self.assertGreater(run.summary["checkpoints"]["count"], 0)
        self.assertEqual(self.train({"run.checkpoint_s": 0}).summary["checkpoints"], {"count": 0, "seconds": 0.0})


class NothingLeftTest(ProgramTest):
    def test_the_model_of_a_run_that_ended_before_it_was_written(self):
        """As where rank 0 is killed at the last rename: all states are whole."""
        for settings in ({"strategy": "ring"}, {"strategy": "gossip-pairs", "workers": 3}, {"strategy": "local-sgd"},
                         {"strategy": "fedavg"}, {"strategy": "ps-async"}, {"strategy": "single", "workers": 1}):
            with self.subTest(settings):
                run = self.train({"train.epochs": 2} | settings)
                summary, model = run.summary, (run.folder / "model.pt").read_bytes()
                (run.folder / "summary.json").unlink()
                (run.folder / "model.pt").unlink()
                result = self.ripieno("train", "--resume", run.folder)
                self.assertEqual(result.code, 0, result.err)
                self.assertIn("all 2 epochs are done: writes the model and the summary", result.err)
                again = Run(self.runs()[-1])
                self.assertNotEqual(again.folder, run.folder)
                self.assertEqual((again.folder / "model.pt").read_bytes(), model)
                for part in ("test", "epochs", "steps", "exchange"):
                    self.assertEqual(again.summary[part], summary[part], part)
                self.assertEqual(again.hashes[0], summary["ranks"][0]["parameters_hash"])
                self.good("report", again.folder, "--format", "json")

    def test_what_is_refused_leaves_no_folder(self):
        run = self.train()
        before = self.runs()
        for arguments in (("--set", "train.epochs=2", "--set", "model=mlp"), ("--set", "train.epochs=2", "--set", "workers=3"),
                          ("--set", "train.epochs=2", "--set", "measure.skip_steps=1000")):
            with self.subTest(arguments):
                self.assertNotEqual(self.ripieno("train", "--resume", run.folder, *arguments).code, 0)
                self.assertEqual(self.runs(), before)
        (run.folder / "state-1.pt").write_bytes(b"")
        self.assertNotEqual(self.ripieno("train", "--resume", run.folder, "--set", "train.epochs=2").code, 0)
        self.assertNotEqual(self.ripieno("train", *sets(SMALL | {"measure.skip_steps": 1000})).code, 0)
        self.assertNotEqual(self.ripieno("train", *sets(SMALL | {"transport.listen": "203.0.113.1:0"})).code, 0)
        self.assertEqual(self.runs(), before)
        self.good("report", "runs", "--format", "json")


if __name__ == "__main__":
    unittest.main()
