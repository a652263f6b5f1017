"""The adviser: what it ranks, in all forms; the recipe that it writes; what it refuses; and that it projects what a
projected run takes."""

import csv
import io
import json
import pathlib
import re
import sys
import time
import tomllib
import unittest

from program import ROOT, USAGE, ProgramTest, sets

# A model of 61,130 numbers, of which an epoch takes seven steps.
RECIPE = """
model = "mnist-3conv"
[batch]
global = 64
[data]
train_samples = 420
test_samples = 50
[local]
steps = 4
"""


class AdviseTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.recipe = self.folder / "recipe.toml"
        self.recipe.write_text(RECIPE)

    def advise(self, *arguments):
        return self.json("advise", self.recipe, *arguments)

    def test_every_strategy_with_every_codec_is_ranked_or_refused(self):
        advice = self.advise("-n", 3, "--mbit-s", 50, "--latency-ms", 2)
        ways, refused = advice["ways"], advice["refused"]
        strategies = self.json("list", "strategies")
        codecs = [row["name"] for row in self.json("list", "codecs") if row["name"] != "auto"]
        self.assertEqual(len(ways) + len(refused), (len(strategies) - 1) * len(codecs) + 1)
        self.assertEqual({way["strategy"] for way in ways}, {row["name"] for row in strategies})
        self.assertEqual([way["s_epoch"] for way in ways], sorted(way["s_epoch"] for way in ways))
        self.assertIn("gossip-pairs-int8", [one["name"] for one in refused])
        self.assertTrue(all("cannot be: " in one["reason"] for one in refused))
        lossless = {row["name"]: row["lossless"] for row in self.json("list", "codecs")}
        traits = {row["name"]: row for row in strategies}
        for way in ways:
            codec = way["codec"] or "fp32"
            self.assertEqual(
                (way["exact"], way["agrees"]),
                (traits[way["strategy"]]["exact"] and lossless[codec], traits[way["strategy"]]["agrees"]),
            )
            self.assertEqual(way["steps"], 7)
            self.assertAlmostEqual(way["s_step"] * 7, way["s_epoch"], delta=1e-9)
            self.assertTrue(0 <= way["exposed"] <= 1, way)
            if way["codec"] == "fp32":
                explained = self.json(
                    "explain", way["strategy"], "--recipe", self.recipe, *sets({"workers": 3, "exchange.codec": codec})
                )
                self.assertAlmostEqual(way["bytes_of_the_busiest"], explained["bytes_of_the_busiest"], delta=1)
        self.assertEqual(advice["link"], {"mbit_s": 50, "latency_ms": 2, "burst_bytes": 0})
        # A pass of the three workers and one of the lone one are measured, each codec's coding, and a step: once.
        kept = {path.name: path.read_text() for path in (self.folder / "cache/ripieno/profiles").glob("*.json")}
        self.assertEqual(len(kept), 2 + len(codecs) + 1)
        self.state_quiet()  # what was measured beside other tests would be measured anew
        again = self.advise("-n", 3, "--mbit-s", 50, "--latency-ms", 2)
        self.assertEqual([again[part] for part in ("ways", "refused", "link")], [advice[part] for part in ("ways", "refused", "link")])
        self.assertEqual((again["pass"]["doubt"], again["doubt_of_costs"]), ("", ""))

    def test_it_projects_what_a_projected_run_takes(self):
        """The same passes over the same links, at full size and step by step. No card sends to several: these would take
        turns here."""
        strategies = ("ring", "local-sgd", "accumulate", "gossip-exponential")

        def epoch(strategy):
            folder = self.folder / strategy
            settings = {
                "strategy": strategy,
                "workers": 3,
                "transport.kind": "simulated",
                "simulated.mbit_s": 50 * 1448 / 1514,
                "simulated.latency_us": 2000,
                "exchange.codec": "fp32",
                "run.folder": folder,
            }
            self.good("train", self.recipe, *sets(settings), "--compute", "replay")
            ranks = json.loads(sorted(folder.glob("*/summary.json"))[-1].read_text())["ranks"]
            return max(rank["seconds"]["epoch"][0] for rank in ranks if rank["seconds"]["epoch"])

        def projected():
            ways = self.advise(
                "-n", 3, "--mbit-s", 50, "--latency-ms", 2, "--strategy", ",".join(strategies), "--codec", "fp32"
            )["ways"]
            return {way["strategy"]: way["s_epoch"] for way in ways}

        for measured in (projected, *(lambda strategy=strategy: epoch(strategy) for strategy in strategies)):
            measured()
        self.state_what_was_measured()
        own = projected()
        self.state_what_was_measured(
            self.advise("-n", 3, "--mbit-s", 50, "--strategy", "ring", "--codec", "fp32")["pass"]["times"]
        )
        for strategy in strategies:
            self.assertAlmostEqual(own[strategy] / epoch(strategy), 1, delta=0.03, msg=strategy)

    def state_quiet(self, others=0, unix_s=None):
        for path in (self.folder / "cache/ripieno/profiles").glob("*.json"):
            kept = json.loads(path.read_text()) | {"others": others, "variation": 0}
            path.write_text(json.dumps(kept if unix_s is None else kept | {"unix_s": unix_s}))

    def state_what_was_measured(self, times=1):
        """Passes of `times` 0.1 ms an image, short beside the exchange, so that how they vary counts little."""
        for path in (self.folder / "cache/ripieno/profiles").glob("*.json"):
            kept = json.loads(path.read_text())
            images, _, _, _, *ready = kept["numbers"] if len(kept["numbers"]) > 1 else [0] * 4
            kept["numbers"] = (
                [images, 0, 2.5e-5 * images * times, 7.5e-5 * images * times] + [7.5e-5 * images * times for _ in ready]
                if images
                else [0]
            )
            path.write_text(json.dumps(kept))
        self.state_quiet()

    def test_refuses_a_route_that_only_mpi_knows(self):
        native = ("--set", "transport.kind=mpi", "--set", "exchange.route=native")
        code, _, err = self.ripieno("advise", self.recipe, "-n", 2, "--mbit-s", 10, "--strategy", "ddp", "--codec", "fp32", *native)
        self.assertEqual(code, 2, err)
        self.assert_one_line(err, "exchange.route = \"native\"", "only MPI knows what it sends")

    def test_the_forms(self):
        arguments = [
            "advise",
            self.recipe,
            "-n",
            2,
            "--mbit-s",
            10,
            "--strategy",
            "ring,ddp,local-sgd,single",
            "--codec",
            "fp32,int8",
        ]
        out = self.good(*arguments, "--top", 3)
        self.assertRegex(out.splitlines()[0], r"^2 workers, links of 10 Mb/s and 0\.05 ms one way\.$")
        self.assertEqual(out.splitlines()[1], "No burst after a pause is assumed. A lab's links of this rate let 66.0 kB through at once: --burst-bytes 66000.")
        self.assertRegex(out, r"(?m)^Fastest: .*, .* an epoch.*\.$")
        for words in (
            "4 more are slower",
            "Not known: accuracy",
            "evaluation",
            "images of digits by mnist-3conv on 1 thread",
            "docs/adviser.md",
        ):
            self.assertIn(words, out)
        self.assertEqual(len(re.findall(r"^(ring|ddp|local-sgd|single)  ", out, re.M)), 3)
        self.assertLessEqual(max(map(len, out.splitlines())), 170)
        rows = list(csv.DictReader(io.StringIO(self.good(*arguments, "--format", "csv"))))
        self.assertEqual(len(rows), 7)
        self.assertEqual(rows[0]["name"], self.json(*arguments)["ways"][0]["name"])
        self.assertEqual(self.good(*arguments, "--format", "md").count("\n| "), 2 + 7)  # the header and its rule
        exact = self.json(*arguments, "--exact")["ways"]
        self.assertEqual({way["name"] for way in exact}, {"ring-fp32", "ddp-fp32", "single"})
        refused = self.good(
            "advise",
            self.recipe,
            "-n",
            2,
            "--mbit-s",
            10,
            "--strategy",
            "gossip-pairs",
            "--codec",
            "fp32,sign",
            "--refused",
        )
        self.assertIn("1 combination cannot be", refused)
        self.assertIn("gossip-pairs-sign: strategy gossip-pairs", refused)

    def test_the_first_is_written_as_a_recipe_that_runs(self):
        self.recipe.write_text(RECIPE.replace("[batch]", 'seed = 7\n[optimiser]\nname = "adam"\n[batch]'))
        best = self.advise("-n", 2, "--mbit-s", 10, "--set", "learning_rate.base=0.002", "-o", "best.toml")["ways"][0]
        written = tomllib.loads((self.folder / "best.toml").read_text())
        self.assertEqual(
            (written["strategy"], written["workers"], written["seed"]),
            (best["strategy"], 1 if best["strategy"] == "single" else 2, 7),
        )
        self.assertEqual((written["optimiser"]["name"], written["local"]["steps"]), ("adam", 4))
        if best["strategy"] != "single":
            self.assertEqual(written["transport"]["mbit_s"], 10)
        self.assertEqual(written["data"]["cache"], "")
        self.good("train", "best.toml")
        self.assertEqual(
            json.loads(next((self.folder / "runs").glob("*/summary.json")).read_text())["strategy"], best["strategy"]
        )

    def test_the_recipe_keeps_the_link_and_fits_the_learning_rate(self):
        """Of the recipe's 64 images a step: each of 4 workers steps on 16 of its own, and an accumulated step has 128."""
        lab = "[lab]\nnodes = 4\nmbit_s = 1000\n"
        for strategy, more, link, rate in (
            ("ring", "", {"transport": {"mbit_s": 50, "delay_ms": 3}}, 0.1),
            ("ps-async", "", {"transport": {"mbit_s": 50, "delay_ms": 3}}, 0.025),
            ("accumulate", "passes = 2\n", {"transport": {"mbit_s": 50}}, 0.2),
            ("local-sgd", '[optimiser]\nname = "adam"\n', {"transport": {"mbit_s": 50}}, 0.05),
            ("local-sgd", lab, {"lab": {"mbit_s": 50}, "transport": {"mbit_s": 0, "delay_ms": 3}}, 0.025),
            ("gossip-pairs", '[transport]\nkind = "simulated"\n', {"simulated": {"mbit_s": 50 * 1448 / 1514, "latency_us": 3000}}, 0.025),
        ):
            with self.subTest(strategy=strategy, more=more):
                head, tables = RECIPE.split("[batch]")
                root, more = (more, "") if more.startswith("passes") else ("", more)
                self.recipe.write_text(head + root + "[batch]" + tables + more)
                self.good("advise", self.recipe, "-n", 4, "--mbit-s", 50, "--latency-ms", 3, "--strategy", strategy,
                          "--codec", "fp32", "--pass-ms", 3, "-o", "best.toml")
                text = (self.folder / "best.toml").read_text()
                written = tomllib.loads(text)
                for table, keys in link.items():
                    for key, value in keys.items():
                        self.assertAlmostEqual(written[table][key], value, delta=1e-3 * max(1, value), msg=f"{table}.{key}")
                self.assertEqual(written["learning_rate"]["base"], rate)
                self.assertEqual("# learning_rate.base was 0.1 for steps of 64 images" in text, rate != 0.1)

    def test_an_error_is_stated_for_what_was_calibrated_alone(self):
        lab = ("--set", "lab.nodes=2", "--set", "lab.mbit_s=100")
        few = ("--strategy", "ring,ps-async", "--codec", "fp32")
        for more, outside in (
            ((*lab, "-n", 2), []),
            ((*lab, "-n", 4), ["4 workers"]),
            (("-n", 2, "--mbit-s", 100), ["no burst"]),
            (("-n", 2, "--mbit-s", 100, "--burst-bytes", 66000), []),
            ((*lab, "-n", 2, "--mbit-s", 1000, "--latency-ms", 20), ["1000 Mb/s", "20 ms one way"]),
            ((*lab, "-n", 2, "--set", "model=mnist-cnn"), ["mnist-cnn"]),
            ((*lab, "-n", 2, "--pass-ms", 5), ["a stated pass"]),
        ):
            with self.subTest(more=more):
                advice = self.advise(*few, *more)
                self.assertEqual(advice["calibrated"]["outside"], outside)
                self.assertEqual(advice["error"]["measured_over_projected"] is None, bool(outside))
                out = self.good("advise", self.recipe, *few, *more)
                self.assertEqual("Error: not known" in out, bool(outside), out)
                self.assertEqual("95 % interval" in out, not outside, out)
                if outside:
                    self.assertIn("outside of these: " + ", ".join(outside), out)
                    self.assertNotIn("The error below", out)
                self.assertIn("2 workers, 40 to 400 Mb/s", out)  # the range itself

    def test_a_stated_pass_is_charged_as_it_is(self):
        way = ("-n", 2, "--mbit-s", 1e6, "--latency-ms", 0, "--strategy", "ring,single", "--codec", "fp32")
        advice = self.advise(*way, "--pass-ms", 50)
        self.assertEqual((advice["pass"]["stated"], advice["pass"]["images"], advice["pass"]["times"]), (True, 32, 1))
        ways = {one["strategy"]: one["s_step"] for one in advice["ways"]}
        self.assertTrue(0.04 <= ways["ring"] <= 0.08, ways)  # it waits for the slower of two, which vary
        self.assertAlmostEqual(ways["single"], 0.1, delta=0.01)  # twice the images
        self.assertIn("from the stated pass of a worker: 50.0 ms for 32 images", self.good("advise", self.recipe, *way, "--pass-ms", 50))

    def test_what_was_measured_on_a_busy_machine_is_said_and_measured_anew(self):
        way = ("-n", 2, "--mbit-s", 100, "--strategy", "ring", "--codec", "fp32")
        self.advise(*way)
        day = 86400
        self.state_quiet(unix_s=time.time() - 3 * day)
        self.assertIn("measured 3 days ago", self.good("advise", self.recipe, *way))
        self.state_quiet(others=0.6, unix_s=3 * day)
        pass_ = self.advise(*way)["pass"]
        if pass_["doubt"]:  # busy now, too: the faster of two stays
            self.assertRegex(pass_["doubt"], "others took .* % of this machine's CPU time|differ by")
        else:
            self.assertGreater(pass_["unix_time"], time.time() - day)
        # Nothing better can be measured: the kept pass stays, and is not believed.
        for path in (self.folder / "cache/ripieno/profiles").glob("*.json"):
            kept = json.loads(path.read_text())
            path.write_text(json.dumps(kept | {"unix_s": 3 * day, "others": 0.6, "numbers": [0 if i else n for i, n in enumerate(kept["numbers"])]}))
        out = self.good("advise", self.recipe, *way)
        if "measured just now" not in out:
            self.assertIn("Not believed: the pass, which may take less: others took 60 % of this machine's CPU time", out)

    def test_a_server_that_shares_a_node_is_told(self):
        lab = ("--set", "lab.nodes=2", "--set", "lab.mbit_s=100", "-n", 2, "--codec", "fp32", "--pass-ms", 5)
        self.assertIn("lab.nodes = 2 is less than 3 ranks, with servers", self.ripieno("advise", self.recipe, *lab, "--strategy", "ps-sync").err)
        self.assertEqual(self.ripieno("advise", self.recipe, *lab, "--strategy", "ring").err, "")

    def test_a_slower_link_is_worse_for_those_who_send_more(self):
        def epochs(mbit_s):
            ways = self.advise("-n", 4, "--mbit-s", mbit_s, "--strategy", "ring,local-sgd", "--codec", "fp32,int8")[
                "ways"
            ]
            return {way["name"]: way["s_epoch"] for way in ways}

        fast, slow = epochs(1000), epochs(10)
        for name in fast:
            self.assertLess(fast[name], slow[name])
        self.assertLess(slow["ring-int8"], slow["ring-fp32"] / 2)
        self.assertLess(slow["local-sgd-fp32"], slow["ring-fp32"] / 2)

    def test_the_grid_and_the_lab_of_a_recipe(self):
        self.recipe.write_text(
            RECIPE
            + '[lab]\nnodes = 2\nmbit_s = 100\n[grid]\nstrategy = ["ring", "ddp"]\nexchange.codec = ["fp32", "int8"]\n'
        )
        advice = self.advise("--grid", "--set", "workers=2")
        self.assertEqual({way["name"] for way in advice["ways"]}, {"ring-fp32", "ring-int8", "ddp-fp32", "ddp-int8"})
        self.assertEqual(advice["link"], {"mbit_s": 100, "latency_ms": 0.05, "burst_bytes": 66000})
        slower = ("--grid", "--set", "workers=2", "--set", "transport.mbit_s=10")
        self.assertEqual(self.advise(*slower)["link"]["mbit_s"], 10)  # both limits hold

    def test_cells_of_a_grid_have_their_names_and_numbers_of_workers(self):
        self.recipe.write_text(RECIPE + '[grid]\nworkers = [1, 2, 4]\nstrategy = ["ring"]\n')
        out = self.good("advise", self.recipe, "--grid", "--mbit-s", 100)
        self.assertRegex(out, r"^Links of 100 Mb/s")
        self.assertRegex(out, r"(?m)^cell +workers ")
        for workers in (1, 2, 4):
            self.assertRegex(out, rf"(?m)^workers{workers} +{workers} ")

    def test_without_its_grid_a_recipe_s_cells_may_be_the_same_run(self):
        self.recipe.write_text(RECIPE + '[[grid]]\nworkers = [2]\nstrategy = ["ring"]\n[[grid]]\nworkers = [2]\nstrategy = ["ring"]\n')
        self.advise("-n", 3, "--mbit-s", 100, "--strategy", "ring", "--codec", "fp32")

    def test_uploads_of_deltas_are_projected(self):
        ways = self.advise("-n", 3, "--mbit-s", 50, "--strategy", "fedavg", "--set", "fedavg.exchange=deltas")["ways"]
        self.assertIn("topk", {way["codec"] for way in ways})

    def test_local_steps_go_on_over_epochs(self):
        """Seven steps an epoch, an exchange every fourteen: half an exchange of 2 x 2/3 models."""
        way = ("-n", 3, "--mbit-s", 50, "--strategy", "local-sgd", "--codec", "fp32", "--set", "local.steps=14")
        (long,) = self.advise(*way, "--set", "train.epochs=4")["ways"]
        (short,) = self.advise(*way, "--set", "train.epochs=1")["ways"]
        self.assertAlmostEqual(long["bytes_of_the_busiest"], 61130 * 4 * 4 / 3 / 2, delta=16)
        self.assertEqual((short["bytes_of_the_busiest"], short["s_exchange"]), (0, 0))

    def test_the_lone_worker_takes_the_whole_batch(self):
        way = ("-n", 4, "--mbit-s", 50, "--strategy", "single,ring", "--codec", "fp32", "--set", "batch.global=0", "--set", "batch.per_worker=21")
        ways = self.advise(*way, "-o", "best.toml")["ways"]
        self.assertEqual({way["steps"] for way in ways}, {5})

    def test_lists_of_each_worker_do_not_keep_the_lone_one_away(self):
        way = ("-n", 3, "--mbit-s", 50, "--strategy", "single,ring", "--codec", "fp32")
        self.assertEqual(len(self.advise(*way, "--set", "batch.shares=[1, 1, 2]")["ways"]), 2)

    def test_fp32_of_fp64_is_not_exact(self):
        ways = self.advise("-n", 3, "--mbit-s", 50, "--strategy", "ring", "--codec", "fp32,auto", "--set", "train.precision=fp64")["ways"]
        self.assertEqual({way["codec"]: way["exact"] for way in ways}, {"auto": True, "fp32": False})
        explained = self.json("explain", "ring", "--recipe", self.recipe, *sets({"workers": 3, "train.precision": "fp64"}))
        self.assertEqual(explained["bytes_of_the_busiest"], next(way["bytes_of_the_busiest"] for way in ways if way["codec"] == "auto"))

    def test_what_a_simulated_recipe_states_holds_or_is_refused(self):
        simulated = ("--set", "transport.kind=simulated", "-n", 3, "--strategy", "leader-ring", "--codec", "fp32")
        delayed = self.advise(*simulated, "--set", "simulated.mbit_s=100")["link"]
        self.assertEqual((delayed["mbit_s"], delayed["latency_ms"]), (100, 0.05))
        self.advise(*simulated, "--set", "simulated.deaths_s=[0, 1]")
        result = self.ripieno("advise", self.recipe, *simulated, "--set", "simulated.image_us=5")
        self.assertEqual(result.code, USAGE)
        self.assert_one_line(result.err, "simulated.image_us = 5.0 (--set) has no effect on advise")
        self.advise("-n", 2, "--mbit-s", 50, "--strategy", "ring", "--codec", "fp32", "--set", f"data.cache={self.folder / 'kept'}")
        self.assertTrue(list((self.folder / "kept/profiles").iterdir()))

    def test_what_is_missing_or_wrong_is_said(self):
        for arguments, words in (
            (["-n", 2], ("--mbit-s 100",)),
            (["--mbit-s", 100], ("-n N",)),
            (["-n", 2, "--mbit-s", 100, "--strategy", "rnig"], ("rnig",)),
            (["-n", 2, "--mbit-s", 100, "--codec", "int9"], ("int9",)),
            (["-n", 2, "--mbit-s", 100, "--grid", "--codec", "int8"], ("--grid",)),
            (["-n", 2, "--mbit-s", 100, "--set", "data.partition=labels"], ("data.partition", "even")),
            (["-n", 2, "--mbit-s", 100, "--strategy", "ps-sync", "--codec", "powersgd"], ("powersgd",)),
            (["-n", 2, "--mbit-s", "nan"], ("--mbit-s", "nan", "0.001 to 1000000")),
            (["-n", 2, "--mbit-s", 100, "--latency-ms", "nan"], ("--latency-ms", "nan")),
            (["-n", 2, "--mbit-s", 100, "--pass-ms", 0], ("--pass-ms", "0.001 to 10000000")),
            (["-n", 2, "--gbit-s", 1], ("--gbit-s", "did you mean --mbit-s?", "1 Gb/s is 1000")),
        ):
            result = self.ripieno("advise", self.recipe, *arguments)
            self.assertEqual(result.code, USAGE, arguments)
            self.assert_one_line(result.err, *words)

    def test_the_stated_error_is_the_documents(self):
        """Which has it from measured runs: bench/adviser.py."""
        header = (ROOT / "apps/ripieno/adviser_fit.h").read_text()
        numbers = re.search(r"adviser_fit\{(.*?)\}", header, re.S).group(1).split(",")
        times, spread, _, low, high, cells, others, held = (number.strip() for number in numbers[:8])
        page = (ROOT / "docs/adviser.md").read_text()
        self.assertIn(f"take {float(times):.2f} times that and vary by {float(spread):.2f}", page)
        self.assertIn(
            f"The stated error, {float(low):.2f} to {float(high):.2f}, comes from the {cells} cells marked •", page
        )
        sys.path.insert(0, str(ROOT / "bench"))
        import adviser

        first = page.split("\n### ")[1]
        rows = re.findall(r"^\| (\S+)( •)? \| ([\d.]+) ± ([\d.]+) \| ([\d.]+) \|", first, re.M)
        fitted = [
            adviser.Cell(name, float(measured), float(half), float(own))
            for name, mark, measured, half, own in rows
            if mark
        ]
        found = adviser.rounded(adviser.prediction(fitted))
        self.assertEqual(len(fitted), int(cells))
        lie = [
            tuple(map(int, pair)) for pair in re.findall(r"[Oo]f the (?:other )?(\d+)(?: cells)?, (\d+) lie in", page)
        ]
        self.assertEqual((sum(all_of for all_of, _ in lie), sum(those for _, those in lie)), (int(others), int(held)))
        self.assertAlmostEqual(found[0], float(low), delta=0.011)
        self.assertAlmostEqual(found[1], float(high), delta=0.011)


if __name__ == "__main__":
    sys.exit(unittest.main())
