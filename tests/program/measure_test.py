"""exchange.measure: what is chosen at the start is printed, written down and repeated."""

import unittest

from program import SMALL, ProgramTest, Run, sets


class MeasureTest(ProgramTest):
    SETTINGS = {"model": "mnist-3conv", "workers": 3, "strategy": "ddp", "exchange.measure": "on"}

    def run_once(self, *arguments):
        before = set(self.runs())
        result = self.ripieno("train", *arguments)
        self.assertEqual(result.code, 0, result.err)
        (new,) = set(self.runs()) - before
        return Run(new), result.err

    def test_a_rerun_obeys_and_does_not_measure(self):
        for kind in ("simulated", "tcp"):
            with self.subTest(kind):
                settings = SMALL | {"run.folder": self.folder / "runs"} | self.SETTINGS | {"transport.kind": kind}
                first, said = self.run_once(*sets(settings))
                self.assertIn("links of ", said)
                chosen = first.config["exchange"]
                self.assertEqual(chosen["measure"], "off")
                self.assertNotEqual(chosen["bucket_mb"], 25)
                # what shares memory is never cut
                self.assertEqual((chosen["route"], chosen["segment_kb"] > 0),
                                 ("ring", True) if kind == "simulated" else ("two-phase", False))
                again, said = self.run_once(first.folder / "config.toml")
                self.assertNotIn("links of ", said)
                self.assertEqual(again.config, first.config)
                self.assertEqual(again.hashes, first.hashes)

    def test_auto_measures_what_is_left_open_where_memory_is_not_shared(self):
        open_keys = {"model": "mnist-3conv", "workers": 3, "strategy": "ddp"}
        measured = []
        for memory in ("on", "off"):
            self.variables = {"RIPIENO_SHARED_MEMORY": memory}
            for more in ({}, {"exchange.bucket_mb": 25}, {"strategy": "ring"}, {"exchange.measure": "off"}):
                settings = SMALL | {"run.folder": self.folder / "runs"} | open_keys | more
                run, said = self.run_once(*sets(settings))
                measured.append("links of " in said)
                self.assertEqual(run.config["exchange"]["bucket_mb"] != 25, measured[-1])
        self.assertEqual(measured, [False] * 4 + [True] + [False] * 3)

    def test_a_measured_cell_is_known_again(self):
        (self.folder / "grid.toml").write_text('workers = 2\nstrategy = "ddp"\n[grid]\n"train.epochs" = [1, 2]\n')
        self.variables = {"RIPIENO_SHARED_MEMORY": "off"}
        asked = ["compare", "grid.toml", *sets(SMALL | {"model": "mnist-3conv"})]
        first, second = self.ripieno(*asked), self.ripieno(*asked)
        self.assertEqual(first.code, 0, first.err)
        self.assertEqual(first.err.count("links of "), 2, first.err)
        self.assertEqual(second.err.count("done before"), 2, second.err)
        self.assertEqual((second.out, len(self.runs())), (first.out, 2))

    def test_in_virtual_time_the_choice_follows_from_the_link(self):
        link = {"simulated.latency_us": 50, "simulated.mbit_s": 1000, "transport.kind": "simulated"}
        chosen = self.train(self.SETTINGS | link).config["exchange"]
        # 61,130 numbers; 4 rounds of 50 us against 4/3 of 8 ns for each byte: the root of 244,520 x 200 us / 10.67 ns.
        self.assertAlmostEqual(chosen["bucket_mb"], 0.068, delta=0.002)
        self.assertAlmostEqual(chosen["segment_kb"], 3 * 250000 / 1024, delta=8)
        narrow = self.train(self.SETTINGS | link | {"exchange.codec": "fp16"}).config["exchange"]
        self.assertAlmostEqual(narrow["segment_kb"], 2 * 3 * 250000 / 1024, delta=16)

    def test_a_codec_of_no_floating_point_type_is_not_cut(self):
        chosen = self.train(self.SETTINGS | {"transport.kind": "simulated", "exchange.codec": "int8"}).config["exchange"]
        self.assertEqual((chosen["segment_kb"], chosen["small_kb"]), (0, 0))
        self.assertNotEqual(chosen["bucket_mb"], 25)


if __name__ == "__main__":
    unittest.main()
