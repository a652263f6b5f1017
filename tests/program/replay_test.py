"""Replayed compute: times that were measured once are waited for, exchanges are real, and every output says so."""

import json
import sys
import unittest

from program import SMALL, ProgramTest, sets


class ReplayTest(ProgramTest):
    def test_replay_exchanges_and_learns_nothing(self):
        settings = {"strategy": "ddp", "workers": 3, "train.epochs": 2, "run.sample_s": 0.1}
        real, replayed = self.train(settings), self.train(settings, "--compute", "replay")
        summary = replayed.summary
        self.assertEqual((real.summary["kind"], summary["kind"]), ("computed", "replayed"))
        self.assertEqual(summary["exchange"], real.summary["exchange"])
        self.assertEqual(summary["closed_form"], real.summary["closed_form"])
        self.assertIsNone(summary["test"])
        self.assertTrue(all(line["loss"] is None for line in replayed.metrics(0) if line["type"] == "step"))
        self.assertGreater(summary["seconds"]["stages"]["backward"], 0)
        self.assertEqual(len(set(replayed.hashes)), 1)
        self.assertEqual(list(replayed.folder.glob("*.pt")), [])
        self.assertIn("not of a replay", self.ripieno("train", "--resume", replayed.folder, "--set", "train.epochs=3").err)
        self.assertTrue(all(0 <= rank["machine_busy"] <= 1 for rank in summary["ranks"]))
        out = self.good("train", *sets(SMALL | settings), "--compute", "replay")
        self.assertRegex(out, r"ddp =!? ")
        self.assertIn("= replayed: measured compute times on a real network", out)
        self.assertIn("; replayed", json.loads(self.good("report", replayed.folder, "--format", "json"))["lead"])

    def test_a_profile_is_measured_once(self):
        settings = {"strategy": "ring", "workers": 2}
        self.train(settings, "--compute", "replay")
        (profile,) = (self.folder / "cache/ripieno/profiles").glob("*.json")
        kept = json.loads(profile.read_text())
        images, read, forward, backward, *ready = kept["numbers"]
        self.assertEqual(images, 64)
        self.assertEqual(max(ready), min(backward, max(ready)))
        kept |= {"numbers": [images, 0, 0.05, 0.1] + [0.1 for _ in ready], "others": 0.0}  # as on a quiet machine: else it is not kept
        profile.write_text(json.dumps(kept))
        run = self.train(settings, "--compute", "replay")
        self.assertEqual(json.loads(profile.read_text()), kept)
        for rank in range(2):
            first = next(line for line in run.metrics(rank) if line["type"] == "step")
            self.assertEqual(first["samples"], 64)
            self.assertGreaterEqual(first["seconds"]["forward"], 0.05)
            self.assertGreaterEqual(first["seconds"]["backward"], 0.1)
        last = [line for line in run.metrics(0) if line["type"] == "step"][-1]
        self.assertLess(last["samples"], 64)  # a smaller batch takes a smaller part of the time
        self.assertGreaterEqual(last["seconds"]["forward"], 0.05 * last["samples"] / 64)
        (self.folder / "cache/ripieno/profiles" / profile.name).write_text("{")
        self.train(settings, "--compute", "replay")
        self.assertEqual(json.loads(profile.read_text())["of"], kept["of"])

    def test_a_profile_is_of_its_buckets(self):
        """ddp cuts the last large tensor in halves, of which each has a time of its own."""
        settings = {"workers": 2, "exchange.bucket_mb": 0.1, "model": "mnist-cnn"}
        for strategy in ("ring", "ddp"):
            self.assertEqual(self.train(settings | {"strategy": strategy}, "--compute", "replay").summary["kind"], "replayed")
        self.assertEqual(len(list((self.folder / "cache/ripieno/profiles").glob("*.json"))), 2)

    def test_in_virtual_time_it_is_charged(self):
        settings = {"strategy": "ring", "workers": 3, "transport.kind": "simulated"}
        run = self.train(settings, "--compute", "replay")
        self.assertEqual((run.summary["kind"], run.summary["test"]), ("projected", None))
        (profile,) = (self.folder / "cache/ripieno/profiles").glob("*.json")
        kept = json.loads(profile.read_text()) | {"others": 0.0, "variation": 0.0}  # as on a quiet machine: else each run measures anew
        profile.write_text(json.dumps(kept))
        images, _, forward, backward, *_ = kept["numbers"]
        for rank in range(3):
            first = next(line for line in run.metrics(rank) if line["type"] == "step")
            for stage, whole in (("forward", forward), ("backward", backward)):
                self.assertAlmostEqual(first["seconds"][stage], whole * first["samples"] / images, delta=1e-6)
            self.assertIsNone(first["loss"])
        self.assertEqual(run.summary["exchange"], self.train(settings).summary["exchange"])
        slow = self.train(settings | {"simulated.slow": "[1, 3]"}, "--compute", "replay")
        waited = [next(line for line in slow.metrics(rank) if line["type"] == "step")["seconds"] for rank in (0, 1)]
        self.assertAlmostEqual(waited[1]["backward"], 3 * waited[0]["backward"], delta=1e-6)
        fast = self.train(settings | {"simulated.slow_all": 0.5}, "--compute", "replay")
        self.assertAlmostEqual(next(line for line in fast.metrics(0) if line["type"] == "step")["seconds"]["backward"],
                               0.5 * waited[0]["backward"], delta=1e-6)
        out = self.good("train", *sets(SMALL | settings), "--compute", "replay")
        self.assertRegex(out, r"ring ~= ")
        self.assertIn("; projected", json.loads(self.good("report", run.folder, "--format", "json"))["lead"])
        again = self.good("train", run.folder / "config.toml")
        self.assertIn("~= projected", again)
        measured = self.train(settings | {"strategy": "ddp", "exchange.measure": "on"}, "--compute", "replay")
        self.assertEqual(measured.summary["kind"], "projected")


if __name__ == "__main__":
    sys.exit(unittest.main())
