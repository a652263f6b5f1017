"""`compare --match step=TIME`: a worker computes as fast as was published."""

import json
import re
import unittest

from program import USAGE, ProgramTest

GRID = """workers = 2

[batch]
global = 128

[data]
train_samples = 512
test_samples = 10
cache = "cache"

[[grid]]
run.name = ["single"]
strategy = ["single"]
lab.nodes = [1]

[[grid]]
run.name = ["ring"]
strategy = ["ring"]
lab.nodes = [2]
"""
VIRTUAL = ("--set", "transport.kind=simulated")


class MatchTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "grid.toml").write_text(GRID)

    def matched(self, *arguments):
        """The settings that it found, by key, and what it said."""
        said = self.ripieno("compare", "grid.toml", "--print-config", *arguments)
        self.assertEqual(said.code, 0, said.err)
        return {key: float(value) for key, value in re.findall(r"((?:lab|simulated)\.\w+)=([\d.e+-]+)", said.err)}, said

    def test_a_replay_in_virtual_time_gets_its_factor(self):
        """How long a step takes here depends on what else the machine does: it is told, and the factor fits it."""
        found, said = self.matched(*VIRTUAL, "--set", "train.compute=replay", "--match", "step=250s")
        here, unit = re.search(r"one worker's step of 128 images takes ([\d.]+) (ms|s) here; ", said.err).groups()
        self.assertAlmostEqual(found["simulated.slow_all"] * float(here) * {"ms": 1e-3, "s": 1}[unit] / 250, 1, delta=0.02)
        self.assertEqual(len(re.findall(rf"slow_all = {found['simulated.slow_all']:.1f} +# --set", said.out)), 2, said.out)

    def test_one_worker_by_stated_times_takes_so_long(self):
        runs = self.json("compare", "grid.toml", *VIRTUAL, "--set", "simulated.image_us=50", "--match", "step=2.5s", "--only", "single")
        self.assertAlmostEqual(runs[0]["images_per_second"] / (128 / 2.5), 1, delta=0.01)

    def test_a_lab_gets_its_part_of_a_core(self):
        _, said = self.matched("--match", "step=10s")
        self.assertRegex(said.err, r"one worker's step of 128 images takes .* here with \d+ threads?; lab\.cpu=[\d.e-]+ makes it 10\.\d* s\n")
        self.assertRegex(said.out, r"cpu = [\d.e-]+ +# --set")
        (profile,) = self.folder.glob("cache/**/*.json")
        kept = json.loads(profile.read_text())
        profile.write_text(json.dumps(kept | {"numbers": [kept["numbers"][0], 0, 1, 2] + [2 for _ in kept["numbers"][4:]], "others": 0.0, "variation": 0.0}))
        threads = int(re.search(r"with (\d+) thread", said.err)[1])
        for seconds in (15, 30):  # three to compute, and the optimiser's step
            found, _ = self.matched("--match", f"step={seconds}s")
            self.assertAlmostEqual(found["lab.cpu"] * seconds / (3 * threads), 1, delta=0.05)

    def test_what_is_refused(self):
        for match in ("step=0s", "step=2.23", "step=-1s", "epoch=2s", "2.23s", "step=nans", "step=1e9s", ""):
            refused = self.ripieno("compare", "grid.toml", "--match", match)
            self.assertEqual(refused.code, USAGE, match)
            self.assert_one_line(refused.err, f"--match {match}", "step=2.23s or step=350ms")
        for arguments, words in (
                (("step=1s", "--set", "lab.nodes=0"), ("no cell here has a lab", "virtual time")),
                (("step=1us",), ("step=2.23s or step=350ms",)),
                (("step=0.001ms",), ("would want", "cores, of which this machine has", "transport.kind = simulated")),
                (("step=10s", "--set", "lab.cpu=0.5"), ("--set lab.cpu=0.5 is given, too",)),
                (("step=1s", *VIRTUAL, "--set", "simulated.image_us=0"), ("simulated.image_us", "takes no virtual time"))):
            refused = self.ripieno("compare", "grid.toml", "--match", *arguments)
            self.assertEqual(refused.code, USAGE, refused.err)
            self.assert_one_line(refused.err.splitlines()[-1], *words)
        self.assertEqual(self.runs(), [])

    def test_steps_that_differ_are_matched_one_at_a_time(self):
        (self.folder / "grid.toml").write_text(GRID.replace('strategy = ["ring"]', 'strategy = ["ring"]\nmodel = ["mnist-3conv"]'))
        refused = self.ripieno("compare", "grid.toml", "--match", "step=10s")
        self.assertEqual(refused.code, USAGE)
        self.assert_one_line(refused.err, "single and ring have different steps (model mnist-cnn; model mnist-3conv)", "--only")
        self.matched("--match", "step=10s", "--only", "ring")

    def test_cells_outside_of_both_stay_as_they_are(self):
        (self.folder / "grid.toml").write_text(GRID.replace("lab.nodes = [1]", ""))
        _, said = self.matched("--match", "step=10s")
        self.assertIn("note: outside of a lab and of virtual time, and so not matched: single\n", said.err)


if __name__ == "__main__":
    unittest.main()
