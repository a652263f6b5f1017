#!/usr/bin/env python3
"""The harness: statistics, the table, and that nothing outlives a comparison. python3 -m unittest lib.self_test, in bench/."""

import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import adviser
from lib import comparison, kept, machine, processes, table
from lib.alternate import alternate, geometric_mean, ratio


class Ratios(unittest.TestCase):
    def test_sides_take_turns(self):
        order = []
        sides = {name: (lambda name=name: order.append(name) or {"x": len(order)}) for name in "AB"}
        rounds = alternate(sides, 3, say=lambda _: None)
        self.assertEqual("".join(order), "ABABAB")
        self.assertEqual(rounds[2]["B"]["x"], 6)

    def test_of_medians_with_the_noise_of_a_round_in_both(self):
        slow = [1.0, 3.0, 1.1, 2.0, 1.2]
        both = ratio([2 * x for x in slow], slow)
        self.assertEqual((both.value, both.low, both.high), (2, 2, 2))
        self.assertEqual(ratio([4, 6, 5], [1, 1, 1]).value, 5)

    def test_five_rounds_reach_from_least_to_greatest(self):
        found = ratio([1, 2, 3, 4, 5], [1] * 5)
        self.assertEqual((found.low, found.high), (1, 5))
        self.assertFalse(found.reaches(2))
        self.assertTrue(found.reaches(1))
        self.assertFalse(found.stays_below(4))

    def test_interval_holds_the_truth_about_as_often_as_it_says(self):
        draw, held = random.Random(5), 0
        for _ in range(40):
            a, b = ([draw.lognormvariate(0, 0.1) for _ in range(11)] for _ in range(2))
            found = ratio(a, b)
            held += found.low <= 1 <= found.high
        self.assertGreaterEqual(held, 34)

    def test_geometric_mean(self):
        found = geometric_mean([([2.0] * 5, [1.0] * 5), ([8.0] * 5, [1.0] * 5)])
        self.assertAlmostEqual(found.value, 4)
        self.assertAlmostEqual(found.low, 4)


class Table(unittest.TestCase):
    def test_other_comparisons_and_text_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "performance.md"
            row = table.Row("links", "x", "raw", ratio([2.0] * 5, [1.0] * 5), "ms", 5, 0.97)
            table.write(page, [row])
            page.write_text(page.read_text().replace(machine.name(), "another machine") + "\nMissed: nothing.\n")
            table.write(page, [row._replace(comparison="step", wanted=3)])
            table.write(page, [row._replace(comparison="step", wanted=2.5)])
            text = page.read_text()
            self.assertEqual([line for line in text.splitlines() if line.startswith("#")],
                             ["# Performance", "### links", "### step"])
            self.assertNotIn("| ≥ 3 |", text)
            self.assertIn("| ≥ 2.5 | NO |", text)
            self.assertIn("| ≥ 0.97 | yes |", text)
            self.assertIn("another machine", text)
            self.assertIn(machine.name(), text)
            self.assertTrue(text.endswith("Missed: nothing.\n"))
            table.write(page, [row, row._replace(comparison="step", wanted=2.5)])
            self.assertNotIn("another machine", page.read_text())
            self.assertEqual(len(page.read_text().splitlines()), len(text.splitlines()))

    def test_some_rows_of_a_section(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "performance.md"
            row = table.Row("step", "x", "raw", ratio([2.0] * 5, [1.0] * 5), "ms", 5, where="another machine, a day")
            table.write(page, [row, row._replace(what="y"), row._replace(comparison="links")])
            table.write(page, [row._replace(where=""), row._replace(comparison="step, bf16")], some=True)
            step, bf16, links = page.read_text().split("\n### ")[1:]
            self.assertTrue(step.startswith(f"step\nanother machine, a day; {machine.name()}, "), step)
            self.assertTrue(bf16.startswith("step, bf16\n") and links.startswith("links\n"), page.read_text())
            table.write(page, [row._replace(where=""), row._replace(what="y", where="")], some=True)
            self.assertNotIn("another machine", page.read_text().split("\n### ")[1])

    def test_a_bound_is_met_from_below(self):
        row = table.Row("x", "y", "bound", ratio([1.0] * 5, [1.0] * 5), "ms", 5, 1.05, below=True)
        self.assertEqual(row.met, "yes")
        self.assertEqual(row._replace(wanted=0.9).met, "NO")


class Kept(unittest.TestCase):
    def test_a_seed_is_run_once_as_long_as_the_same_is_asked_for(self):
        runs = []
        sides = {name: (lambda seed, name=name: runs.append((name, seed)) or {"x": seed}) for name in "AB"}
        options = comparison.Options(comparison.parser("").parse_args([]))
        with tempfile.TemporaryDirectory() as folder:
            def rounds(seeds, asked):
                return kept.rounds("whole", options, seeds, asked, sides, Path(folder) / "kept")
            rounds(1, {"bits": 4})
            found = rounds(2, {"bits": 4})
            self.assertEqual(runs, [("A", 1), ("B", 1), ("A", 2), ("B", 2)])
            self.assertEqual(kept.values(found, "B", "x"), [1, 2])
            self.assertEqual(kept.places(found), f"{machine.name()}, {machine.date()}")
            rounds(1, {"bits": 6})
            self.assertEqual(len(runs), 6)
            options.quick = True
            rounds(1, {"bits": 4})
            self.assertEqual(len(runs), 8)
            options.quick = False
            rounds(2, {"bits": 4})
            self.assertEqual(len(runs), 8)


def alive(pid):
    return processes.running(pid)


class Endings(unittest.TestCase):
    def test_when_one_fails_the_others_end(self):
        with tempfile.TemporaryDirectory() as folder:
            sleeper = [sys.executable, "-c", f"import os, time; open('{folder}/pid', 'w').write(str(os.getpid())); time.sleep(100)"]
            failing = [sys.executable, "-c", f"import os, time, sys\nwhile not os.path.exists('{folder}/pid'): time.sleep(0.01)\n"
                                             "time.sleep(0.2); sys.exit('out of tune')"]
            with self.assertRaisesRegex(processes.Failed, r"(?s)rank 1.*out of tune"):
                processes.run_all([sleeper, failing], [{}, {}])
            self.assertFalse(alive(int(Path(folder, "pid").read_text())))

    def test_all_end_with_a_harness_that_is_killed(self):
        script = ("from lib import processes\n"
                  f"processes.run([{sys.executable!r}, '-c', 'import subprocess, sys; subprocess.run([sys.executable, \"-c\", "
                  "\"import os, sys, time; print(os.getpid(), file=sys.stderr, flush=True); time.sleep(100)\"])'])")
        for number in (signal.SIGTERM, signal.SIGKILL):
            code = f"from lib import comparison\ncomparison.guarded(lambda: exec({script!r}))"
            harness = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[1])
            while not (found := processes.descendants(harness.pid)) or len(found) < 2:
                time.sleep(0.02)
            harness.send_signal(number)
            harness.wait(20)
            deadline = time.monotonic() + 20
            first = found[:1] if number == signal.SIGKILL else found  # the kernel kills children; who else is theirs to end
            while any(map(alive, first)) and time.monotonic() < deadline:
                time.sleep(0.02)
            left = [pid for pid in first if alive(pid)]
            for pid in found:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
            self.assertEqual(left, [], f"after signal {number}")


class Adviser(unittest.TestCase):
    def test_orders_agree_over_what_was_told_apart(self):
        seeds = {"a": (1, 1.01), "b": (2, 2.01), "c": (3, 3.1), "d": (3.1, 3)}
        cells = [adviser.Cell(name, seeds[name][0], 0, own, dict(enumerate(seeds[name]))) for name, own in zip("abcd", (1.1, 2.3, 2.2, 2))]
        self.assertEqual(adviser.tau(cells[:2]), (1, 1))
        found, pairs = adviser.tau(cells)  # seeds differ on c and d; b is projected after c and d
        self.assertEqual(pairs, 5)
        self.assertAlmostEqual(found, (3 - 2) / 5)
        self.assertEqual(adviser.winners_place(cells), ("a", 1))

    def test_the_stated_interval_holds_a_further_cell_as_often_as_it_says(self):
        draw, inside = random.Random(3), 0
        for _ in range(2000):
            cells = [adviser.Cell("", math.exp(draw.gauss(0.1, 0.2)), 0, 1) for _ in range(7)]
            inside += adviser.held(cells[6:], adviser.prediction(cells[:6]))
        self.assertAlmostEqual(inside / 2000, 0.95, delta=0.015)

    def test_halves_are_every_second(self):
        self.assertEqual(adviser.halves("abcde"), ("bd", "ace"))
        self.assertEqual(adviser.rounded((0.949, 1.101)), (0.94, 1.11))


if __name__ == "__main__":
    unittest.main()
