"""The commands beside train: compare, explain, bench, list, doctor, and every command's help."""

import contextlib
import csv
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios
import tomllib
import unittest

import sentences
from program import BINARY, DATA, ROOT, SMALL, USAGE, WATCHDOG, ProgramTest, sets

GRID = """title = "two ways to agree"
workers = 2
seeds = 2

[batch]
per_worker = 64

[data]
train_samples = 128
test_samples = 50

[grid]
strategy = ["ring", "fedavg"]
"""
COMMANDS = ["train", "compare", "explain", "watch", "report", "bench", "list", "doctor", "launch", "lab"]
LISTS = {"models": "mnist-cnn", "data": "digits", "strategies": "fedavg", "routes": "ring", "codecs": "bf16", "measures": "s_epoch"}


class CompareTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "grid.toml").write_text(GRID)

    def test_a_grid(self):
        first = self.ripieno("compare", "grid.toml")
        self.assertEqual(first.code, 0, first.err)
        rows = [line.split() for line in first.out.splitlines()[4:6]]
        self.assertEqual({row[0] for row in rows}, {"ring", "fedavg"})
        self.assertIn("accuracy", first.out)
        self.assertIn("±", first.out)
        self.assertRegex(first.out, r"(?m)^mnist-cnn on digits, 2 workers, .*; compared with ring, a ring in fp32\.$")
        self.assertRegex(first.out, r"(?m)^All workers share one machine's memory, .* set transport\.mbit_s = 100 ")
        self.assertRegex(first.out, r"(?m)^(ring and fedavg|fedavg and ring) cannot be told from guessing, which gets 10 % ")
        self.assertEqual(first.out.splitlines()[-1], "4 runs in runs; their page: ripieno report grid.toml")
        self.assertEqual(first.err.splitlines()[0], "two ways to agree")
        self.assertEqual([line.split(":")[0] for line in first.err.splitlines()[1:]],
                         ["1/4 ring", "2/4 ring", "3/4 fedavg", "4/4 fedavg"])
        runs = self.runs()
        self.assertEqual(len(runs), 4)

        second = self.ripieno("compare", "grid.toml")
        self.assertEqual(second.code, 0, second.err)
        self.assertEqual(second.err.count("done before"), 4, second.err)
        self.assertEqual(second.out, first.out)
        self.assertEqual(self.runs(), runs)

        summaries = self.json("compare", "grid.toml")
        self.assertEqual([(one["name"], one["seed"]) for one in summaries],
                         [("ring", 0), ("ring", 1), ("fedavg", 0), ("fedavg", 1)])
        self.assertEqual(self.runs(), runs)

        one = self.json("compare", "grid.toml", "--only", "fedavg")
        self.assertEqual(one, summaries[2:])
        unknown = self.ripieno("compare", "grid.toml", "--only", "fedavg,rign")
        self.assertEqual(unknown.code, 2)
        self.assert_one_line(unknown.err, "--only rign", "ring, fedavg")
        self.assertEqual(self.runs(), runs)

        # A run that did not end is done again, and that one alone.
        (runs[2] / "summary.json").unlink()
        third = self.ripieno("compare", "grid.toml")
        self.assertEqual(third.err.count("done before"), 3, third.err)
        self.assertEqual(len(self.runs()), 5)

        # Other settings are other runs.
        others = ["--set", "strategy=ring", "--set", "seeds=1", "--set", "learning_rate.base=0.01"]
        fourth = self.ripieno("compare", "grid.toml", *others)
        self.assertNotIn("done before", fourth.err)
        self.assertEqual(len(self.runs()), 6)
        (*_, command) = fourth.out.splitlines()[-1].partition("their page: ripieno ")
        self.assertEqual(command.split(), ["report", "grid.toml", *others])

        # A recipe's report has its own runs alone, and short names; of all of the folder the least that tells them apart.
        def ways(*arguments):
            report = self.json("report", *arguments)
            self.assertEqual(sentences.wrong(report), [])
            return report["title"], len(report["runs"]), sorted(row[0]["text"] for row in report["tables"][0]["rows"])

        self.assertEqual(ways("grid.toml"), ("two ways to agree", 4, ["fedavg", "ring"]))
        self.assertEqual(ways("grid.toml", "--only", "fedavg")[1:], (2, ["fedavg"]))
        self.assertEqual(ways(*command.split()[1:])[1], 1)
        self.assertEqual(ways("runs")[2], ["fedavg", "fedavg …", "ring, learning_rate.base 0.01", "ring, learning_rate.base 0.1"])
        for arguments, code, words in ((["runs", "--only", "ring"], USAGE, ["--only", "recipe"]),
                                       (["grid.toml", "--set", "data.train_samples=64"], DATA, ["grid.toml", "ripieno compare grid.toml"])):
            result = self.ripieno("report", *arguments)
            self.assertEqual(result.code, code, result.err)
            self.assert_one_line(result.err, *words)

        listed = self.json("list", "runs")
        self.assertEqual([row["run"] for row in listed], [f"runs/{run.name}" for run in self.runs()])
        self.assertEqual([row["state"] for row in listed].count("unfinished"), 1)
        self.assertIn(self.runs()[0].name, self.good("list", "runs", "runs"))
        self.assert_one_line(self.ripieno("list", "runs", "nowhere").err, "nowhere", "no folder")

    def test_on_a_terminal_each_run_leaves_a_line(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        command = [BINARY, "compare", "grid.toml", "--only", "ring", "--set", "transport.kind=simulated", "--set", "train.epochs=3"]
        with open(theirs, "w") as terminal:
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
            done = subprocess.Popen(command, cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL, stderr=terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal ends
            while more := os.read(ours, 4096):
                shown += more
        self.assertEqual(done.wait(WATCHDOG), 0, shown)
        # What stays: of each line what was drawn last.
        lines = [line.split("\r")[-1].removeprefix("\x1b[K") for line in shown.decode().replace("\r\n", "\n").split("\n")]
        for number, seed in ((1, 0), (2, 1)):
            self.assertRegex(lines[number], rf"^{number}/2 ring, seed {seed}: done, \d+\.\d\d % of the test set, ")
        self.assertRegex(shown.decode(), r"1/2 ring, seed 0 .* left, \d+:\d\d for all")

    def test_a_seed_that_is_run_again_is_no_other_seed(self):
        recipe = ["train", "grid.toml", *sets({"strategy": "ring", "seeds": 1, "seed": 1, "transport.kind": "simulated"})]
        for _ in range(2):
            self.good(*recipe)
        self.good("report", "runs", "--format", "csv", "-o", "tables")
        read = lambda name: list(csv.DictReader((self.folder / "tables" / name).read_text().splitlines()))
        (way,) = read("cells.csv")
        self.assertEqual(way["seeds"], "1")
        self.assertFalse(any("±" in head for head in way))
        for run in read("runs.csv"):
            for head in ("images/s", "s an epoch", "seed"):
                float(run[head])  # every number can be read as one

    def test_train_takes_no_grid(self):
        result = self.ripieno("train", "grid.toml")
        self.assertEqual(result.code, USAGE)
        self.assert_one_line(result.err, "grid.toml", "holds 4 runs", "ripieno compare")
        self.assertEqual(self.runs(), [])

    def test_train_takes_one_cell(self):
        self.good("train", "grid.toml", "--set", "strategy=ring", "--set", "seeds=1")
        self.assertEqual(len(self.runs()), 1)
        self.good("train", "grid.toml", "--only", "ring", "--set", "seeds=1")
        self.assertEqual(len(self.runs()), 2)
        for words, said in ((("grid.toml", "--only", "rang"), "has no such cell"), (("--only", "ring"), "names a cell of a recipe"),
                            (("grid.toml", "--only", "ring"), "--set seeds=1")):
            result = self.ripieno("train", *words)
            self.assertEqual(result.code, USAGE)
            self.assert_one_line(result.err, said)

    def test_print_config(self):
        cells = self.good("compare", "grid.toml", "--print-config")
        self.assertEqual([line for line in cells.splitlines() if line.startswith("# ")],
                         ["# ring", "# ring", "# fedavg", "# fedavg"])
        one = self.good("train", "grid.toml", "--set", "strategy=ring", "--set", "seeds=1", "--set", "train.epochs=7",
                        "--print-config")
        for line in ("workers = 2  # grid.toml:2", "epochs = 7  # --set", 'strategy = "ring"  # --set',
                     "threads = 1  # default"):
            self.assertIn(line, one.splitlines())
        self.assertEqual(self.runs(), [])
        # What is printed is a recipe, of the same values.
        (self.folder / "printed.toml").write_text(one)
        values = [line.split("  # ")[0] for line in one.splitlines()]
        again = self.good("train", "printed.toml", "--print-config")
        self.assertEqual([line.split("  # ")[0] for line in again.splitlines()], values)


class ExplainTest(ProgramTest):
    def test_every_route(self):
        elements = 1001
        for route in (one["name"] for one in self.routes_with_schedules("all-reduce")):
            for ranks in range(1, 6):
                with self.subTest(route, ranks=ranks):
                    plan = self.json("explain", route, "-n", ranks, "--elements", elements)
                    self.assertEqual((plan["route"], plan["ranks"], plan["elements"]), (route, ranks, elements))
                    buffers = ranks if route == "direct" else 2  # each rank's to all others; else in and out again
                    self.assertEqual(plan["bytes_sent"], buffers * elements * (ranks - 1) * 4)
                    sent = [rank["bytes_sent"] for rank in plan["per_rank"]]
                    received = [rank["bytes_received"] for rank in plan["per_rank"]]
                    self.assertEqual((len(sent), sum(sent), sum(received)), (ranks, plan["bytes_sent"], sum(sent)))
                    for rank in plan["per_rank"]:
                        moved = sum(one["end"] - one["begin"] for step in rank["steps"] for one in step["sends"])
                        self.assertEqual(4 * moved, rank["bytes_sent"])
            text = self.good("explain", route, "-n", 3, "--elements", elements)
            self.assertIn("proved: every rank ends with the sum of all", text)
            self.assertIn("rank 2", text)
            rows = len(re.findall(r"(?m)^ +\d+  ", text))
            self.assertEqual(rows, int(re.search(r"rounds +(\d+)", text)[1]), text)
        uneven = self.good("explain", "halving-doubling", "-n", 6, "--elements", 1200)
        self.assertIn("12.0 kB  = 2n(Q-1)/Q + n min(1, P-Q), Q = 4\n", uneven)
        self.assertIn("≈", self.good("explain", "ring", "-n", 4, "--elements", 9))
        self.assertRegex(self.good("explain", "double-binary-tree", "-n", 4), r"rounds +6  = ")

    def test_half_precision_takes_half_the_bytes(self):
        plan = self.json("explain", "ring", "-n", 3, "--elements", 300, "--wire", "fp16")
        self.assertEqual(plan["bytes_sent"], 2 * 300 * 2 * 2)

    def test_a_strategys_options_are_answered(self):
        two, four = (self.json("explain", "fedavg", "-n", ranks) for ranks in (2, 4))
        self.assertEqual((two["workers"], four["workers"]), (2, 4))
        slow, fast = (self.json("explain", "local-sgd", "--mbit-s", rate, "--latency-us", 0) for rate in (100, 1000))
        self.assertAlmostEqual(slow["seconds_at_least"], 10 * fast["seconds_at_least"])
        self.assertAlmostEqual(slow["seconds_at_least"], slow["bytes_of_the_busiest"] * 8 / 1e8)
        self.assertEqual(self.json("explain", "ddp", "--wire", "fp16", "--set", "workers=2")["how"], "fp16")
        self.assertIn("100 Mb/s", self.good("explain", "local-sgd", "--mbit-s", "100"))

    def test_every_codec(self):
        for row in self.json("list", "codecs"):
            with self.subTest(row["name"]):
                told = self.json("explain", row["name"])
                self.assertEqual([told[key] for key in ("kind", "lossless", "bytes of n numbers")],
                                 [row[key] for key in ("kind", "lossless", "bytes of n numbers")])
        few = self.json("explain", "topk", "--elements", 1000, "--set", "codec.fraction=0.1", "-n", 3)
        self.assertEqual((few["bytes"], few["bytes_per_number"], few["bytes_sent"]), (800, 0.8, 1600))
        text = self.good("explain", "topk")
        for words in ("codec.fraction = 0.01", "lossy", "gathered", "bytes a number"):
            self.assertIn(words, text)

    def test_many_ranks(self):
        self.assertIn("--format json has them all", self.good("explain", "ring", "-n", 20, "--elements", 100))


class BenchTest(ProgramTest):
    def test_every_route(self):
        sizes = [1024, 2048, 4096, 8192, 16384]
        routes = [one["name"] for one in self.routes_with_schedules("all-reduce")]
        chosen = [argument for route in routes for argument in ("--route", route)]
        rows = self.json("bench", "all-reduce", "-b", "1K", "-e", "16K", "-n", "3", "-i", "5", *chosen)
        self.assertEqual([(row["route"], row["bytes"]) for row in rows],
                         [(route, size) for route in routes for size in sizes])
        for row in rows:
            self.assertEqual((row["elements"], row["ranks"], row["wrong"]), (row["bytes"] // 4, 3, 0))
            self.assertTrue(0 < row["min_us"] <= row["time_us"] <= row["max_us"], row)
            self.assertAlmostEqual(row["algbw"], row["bytes"] / row["time_us"] / 1e3)
            self.assertAlmostEqual(row["busbw"], row["algbw"] * 2 * 2 / 3)
        self.assert_nobody_left()

    def test_wire_segments_and_one_rank(self):
        for arguments in (("--wire", "fp16"), ("--wire", "bf16"), ("--segment-kb", "1"), ("-n", "1")):
            with self.subTest(arguments):
                text = self.good("bench", "all-reduce", "-b", "4K", "-e", "4K", "-i", "2", *arguments)
                self.assertEqual(text.splitlines()[-1].split()[:2], ["4096", "1024"])


class OtherCommandsTest(ProgramTest):
    def test_settings_are_told(self):
        rows = {row["key"]: row for row in self.json("list", "settings")}
        self.assertEqual(set(rows), {line for line in self.keys()})
        self.assertEqual(rows["ps.staleness"]["default"], "2")
        self.assertIn("ps-ssp", rows["ps.staleness"]["has an effect"])
        self.assertEqual(rows["seed"]["has an effect"], "always")
        self.assertTrue(all(row["about"] and row["value"] for row in rows.values()))
        text = self.good("list", "settings", "optimiser")
        for words in ("optimiser.momentum", "from 0 to below 1", "optimiser.name = sgd or muon", "one of sgd, adam"):
            self.assertIn(words, text)
        self.assertNotIn("workers", text)
        self.assertIn("outer.momentum", self.good("list", "settings", "momentum"))

    def keys(self):
        """Of all settings, as a printed configuration has them."""
        printed = tomllib.loads(self.good("train", "--set", "batch.global=8", "--print-config"))
        for key, value in printed.items():
            yield from ([f"{key}.{inner}" for inner in value] if isinstance(value, dict) else [key])

    def test_recipes_are_told(self):
        rows = {row["recipe"].split("/")[-1]: row for row in self.json("list", "recipes", ROOT / "recipes")}
        self.assertEqual(set(rows), {path.name for path in (ROOT / "recipes").glob("*.toml")})
        self.assertEqual((rows["demo.toml"]["runs"], rows["demo.toml"]["about"][:8]), (6, "Six ways"))
        self.assertIn("quick", rows["seed-001-scaling.toml"]["scales"])
        self.assertIn("demo.toml", self.good("list", "recipes", ROOT / "recipes"))

    def test_help_is_a_command_too(self):
        for command in COMMANDS:
            self.assertEqual(self.good("help", command), self.good(command, "--help"))
        self.assertEqual(self.good("help"), self.good("--help"))

    def test_a_recipes_key_without_effect_is_told_once(self):
        (self.folder / "idle.toml").write_text("strategy = 'ring'\nlab.mbit_s = 10\nbatch.global = 8\n")
        result = self.ripieno("train", "idle.toml", "--print-config")
        self.assertEqual(result.code, 0)
        self.assert_one_line(result.err, "lab.mbit_s = 10.0 (idle.toml:2)", "lab.nodes = 0 (default)", "above 0")

    def test_paths_of_any_bytes_are_carried(self):
        odd = os.fsdecode(os.fsencode(str(self.folder)) + b"/odd-\xff")
        os.mkdir(odd)
        self.variables = {"RIPIENO_DATA": odd, "HOME": odd, "XDG_CACHE_HOME": ""}
        self.json("doctor")
        self.good("train", *sets(SMALL | {"strategy": "ring", "model": "mnist-3conv", "run.folder": odd + "/runs"}))
        (run,) = pathlib.Path(odd, "runs").iterdir()
        tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        for file in ("summary.json", "env.json"):
            json.loads((run / file).read_text(encoding="utf-8"))
        again = self.good("train", run / "config.toml")
        self.assertEqual(len(list(run.parent.iterdir())), 2, again)

    def test_lists(self):
        for what, name in LISTS.items():
            with self.subTest(what):
                rows = self.json("list", what)
                self.assertIn(name, [row["name"] for row in rows])
                text = self.good("list", what).splitlines()
                self.assertEqual(len(text), len(rows) + 2)
                self.assertEqual([line.split()[0] for line in text[2:]], [next(iter(row.values())) for row in rows])

    def test_doctor(self):
        seen = self.json("doctor")
        for key in ("cores", "usable_cores", "launcher", "interfaces", "transports", "bf16", "fp16", "libtorch", "version"):
            self.assertIn(key, seen)
        self.assertGreaterEqual(seen["usable_cores"], 1)
        self.assertIn("usable_cores", self.good("doctor"))
        self.assertEqual((seen["shared_memory"], seen["listens_on"]), ("on: between workers of this host", "127.0.0.1"))
        self.variables = {"RIPIENO_SHARED_MEMORY": "off", "RIPIENO_LISTEN": "0.0.0.0"}
        seen = self.json("doctor")
        self.assertEqual((seen["shared_memory"], seen["listens_on"]), ("off: RIPIENO_SHARED_MEMORY says so", "0.0.0.0"))

    def test_a_precision_that_the_processor_lacks_is_said_so(self):
        seen = self.json("doctor")
        for precision in ("fp32", "bf16", "fp16"):
            result = self.ripieno("train", *sets(SMALL | {"model": "mnist-3conv", "train.precision": precision}))
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual("no instructions for " + precision in result.err, seen.get(precision, "in hardware") != "in hardware")

    def test_help(self):
        overview = self.good("--help")
        for command in COMMANDS:
            with self.subTest(command):
                self.assertIn(f"\n  {command} ", overview)
                text = self.good(command, "--help")
                self.assertIn(f"Usage: ripieno {command}", text)
                self.assertNotIn("INT:", text)
        self.assertNotRegex(overview, r"(?m)^\s+worker\b", "the workers' command is not for users")
        self.assertRegex(self.good("--version"), r"^\d+\.\d+\.\d+\n$")


class RecipesTest(ProgramTest):
    def test_every_recipe_can_be_read(self):
        recipes = sorted((ROOT / "recipes").glob("*.toml"))
        self.assertGreater(len(recipes), 5)
        for recipe in recipes:
            with self.subTest(recipe.name):
                result = self.ripieno("train", recipe, "--print-config")
                if result.code != 0:  # a grid
                    self.assertRegex(result.err, r"holds \d+ runs, and train makes one: take one with --only \S+, or")

    def test_published_rows_are_cells_of_some_scale(self):
        for recipe in sorted((ROOT / "recipes").glob("seed-*.toml")):
            read = tomllib.loads(recipe.read_text())
            self.assertLessEqual({"quick", "full"}, set(read["scale"]), recipe.name)
            cells = set()
            for scale in read["scale"]:
                shown = self.good("compare", recipe, "--scale", scale, "--print-config")
                cells |= set(re.findall(r"(?m)^# (\S+)$", shown))
            for table in read.get("published", []):
                with self.subTest(table["title"]):
                    self.assertEqual(set(table["rows"]) - cells, set())

    def test_published_numbers_stand_beside(self):
        published = '[[published]]\ntitle = "Somebody, table 1"\nnote = "On another machine."\nmeasures = ["mb_sent", "accuracy"]\nrows.ring = [7, nan]\n'
        (self.folder / "beside.toml").write_text(GRID.replace("seeds = 2", "seeds = 1") + published)
        out = self.good("compare", "beside.toml")
        self.assertIn("\nSomebody, table 1\n", out)
        self.assertIn("On another machine.\n", out)
        row = next(line for line in reversed(out.splitlines()) if line.startswith("ring "))
        cells = row.split()
        self.assertEqual((cells[2], cells[4]), ("7.000", "–"))
        page = self.good("report", "runs", "--format", "md", "--beside", "beside.toml")
        self.assertIn("two ways to agree", page)
        self.assertIn("## Somebody, table 1", page)


if __name__ == "__main__":
    unittest.main()
