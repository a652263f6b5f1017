#!/usr/bin/env python3
"""ripieno.Run: runs of PyTorch's own loops, which `ripieno watch`, `ripieno report` and TensorBoard show."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from ranks import on_ranks

import ripieno
import torch
from torch.nn.parallel import DistributedDataParallel

PROGRAM = os.environ["RIPIENO"]
NUMBERS = 32 * 256 + 256 + 256 * 4 + 4


def program(*arguments: str, code: int = 0) -> str:
    result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert result.returncode == code, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout + result.stderr


def net() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))


def batches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.ones(16, 32), torch.zeros(16, dtype=torch.long)) for _ in range(count)]


def train(run: ripieno.Run, model: torch.nn.Module, epochs: int, steps: int = 5) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for inputs, targets in run.batches(batches(steps)):
            optimizer.zero_grad()
            with run.stage("forward"):
                loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            with run.stage("backward"):
                loss.backward()
            with run.stage("optimise"):
                optimizer.step()
            run.step(loss=loss.item(), samples=len(inputs), learning_rate=0.1)
        with run.stage("evaluate"):
            time.sleep(0.02)
        run.epoch(accuracy=0.5, loss=loss.item())


def lines(folder: Path, rank: int, kind: str) -> list[dict]:
    all_lines = map(json.loads, (folder / f"metrics-{rank}.jsonl").read_text().splitlines())
    return [line for line in all_lines if line["type"] == kind]


class WrittenRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.optim.SGD(net().parameters(), lr=0.1).step()  # loads what PyTorch loads late, once for all ranks

    def setUp(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        self.runs = Path(own.name) / "runs"

    def written(self, backend: str, name: str, **options) -> Path:
        def act(rank: int) -> str:
            model = DistributedDataParallel(net())
            with ripieno.Run(self.runs, name=name, module=model, dataset="ones", epochs=2, steps_per_epoch=5, sample_s=0.05, **options) as run:
                train(run, model, epochs=2)
            return str(run.folder)

        folders = on_ranks(2, act, backend=backend)
        self.assertEqual(folders[0], folders[1])
        return Path(folders[0])

    def test_a_run_over_ripieno_has_its_bytes_and_stages(self):
        folder = self.written("ripieno", "ours", settings={"lr": 0.1, "optimiser": "SGD"})
        self.assertEqual(folder.name, "0001-ours")
        summary = json.loads((folder / "summary.json").read_text())
        for key, value in dict(strategy="ddp", codec="none", model="Sequential", dataset="ones", world_size=2, parameters=NUMBERS, epochs=2,
                               steps=10).items():
            self.assertEqual(summary[key], value, key)
        for rank in summary["ranks"]:
            self.assertGreaterEqual(rank["exchange"]["payload_sent"], 10 * 4 * NUMBERS)
            self.assertLess(rank["exchange"]["payload_sent"], 11 * 4 * NUMBERS)
            for stage in ("read", "forward", "backward", "exchange", "optimise", "other", "evaluate"):
                self.assertGreater(rank["seconds"]["stages"][stage], 0, stage)
        self.assertEqual(summary["ranks"][0]["parameters_hash"], summary["ranks"][1]["parameters_hash"])
        self.assertEqual(json.loads((folder / "loop.json").read_text())["settings"], {"lr": "0.1", "optimiser": '"SGD"'})
        step = lines(folder, 1, "step")[3]
        self.assertEqual((step["epoch"], step["step"], step["samples"], step["learning_rate"]), (0, 3, 16, 0.1))
        self.assertEqual(step["bytes"]["payload_sent"], 4 * NUMBERS)
        self.assertGreaterEqual(lines(folder, 0, "epoch")[0]["stages"]["evaluate"], 0.02)

        shown = program("watch", "--once", self.runs)
        self.assertRegex(shown, r"0001-ours .*100 %  epoch 2/2 .* ended  test 50.0")
        page = Path(self.runs.parent / "page.html")
        program("report", self.runs, "-o", page)
        self.assertIn("Sequential on ones, 2 workers", page.read_text())
        table = program("report", self.runs, "--format", "csv", "-o", self.runs.parent / "tables")
        self.assertIn("tables", table)
        program("report", self.runs, "--format", "tensorboard", "-o", self.runs.parent / "events")
        self.assertTrue(list((self.runs.parent / "events").rglob("events.out.tfevents*")))

    def test_over_another_backend_bytes_are_not_known(self):
        folder = self.written("gloo", "theirs")
        summary = json.loads((folder / "summary.json").read_text())
        self.assertIsNone(summary["bytes"])
        self.assertIsNone(summary["exchange"]["payload_sent"])
        self.assertGreater(summary["seconds"]["stages"]["exchange"], 0)
        self.assertTrue(all(line["bytes"] is None for rank in (0, 1) for line in lines(folder, rank, "step")))
        page = self.runs.parent / "report.md"
        program("report", self.runs, "--format", "md", "-o", page)
        titles, row = (next(line for line in page.read_text().splitlines() if begin in line).split(" | ")
                       for begin in ("| run | strategy ", "| 0001-theirs | ddp "))
        self.assertEqual(row[titles.index("MB an epoch, busiest rank")], "–")
        program("report", self.runs, "--format", "tensorboard", "-o", self.runs.parent / "events")

    def test_a_loop_that_breaks_off_is_shown_as_unfinished(self):
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            with ripieno.Run(self.runs, name="cut", model="net") as run:
                with run.stage("forward"):
                    time.sleep(0.01)
                run.step(loss=1.5, samples=4)
                self.assertIn("running", program("watch", "--once", self.runs) + "running")
                1 / 0
        self.assertEqual((run.folder.name, run.steps), ("0001-cut", 1))
        with self.assertRaisesRegex(ValueError, "an exception has ended this run"):
            run.step()
        self.assertRegex(program("watch", "--once", self.runs), r"0001-cut  epoch 1  .*ended unfinished: it was killed, or failed")
        page = self.runs.parent / "report.md"
        program("report", self.runs, "--format", "md", "-o", page)
        self.assertIn("cut …", page.read_text())

    def test_an_agreement_s_optimiser_has_its_own_time(self):
        def act(rank: int) -> str:
            model = net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            agreement = ripieno.agree(model, optimizer, "local-sgd", steps=2, codec="int8")
            with ripieno.Run(self.runs, module=model, agreement=agreement) as run:
                for inputs, targets in batches(4):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
                    with run.stage("exchange"):
                        agreement.step()
                    run.step(samples=len(inputs))
                agreement.finish()
                run.epoch()
            return str(run.folder)

        folder = Path(on_ranks(2, act)[0])
        summary = json.loads((folder / "summary.json").read_text())
        self.assertEqual((summary["strategy"], summary["codec"]), ("local-sgd", "int8"))
        self.assertIsNone(summary["test"])
        steps = lines(folder, 0, "step")
        self.assertTrue(all(step["seconds"]["optimise"] > 0 and "loss" not in step for step in steps))
        self.assertLess(steps[0]["bytes"]["payload_sent"], NUMBERS / 10)
        self.assertGreater(steps[1]["bytes"]["payload_sent"], NUMBERS - 1)

    def test_wrong_uses_are_named(self):
        with self.assertRaisesRegex(ValueError, "a run's name is empty"):
            ripieno.Run(self.runs, name="")
        with self.assertRaisesRegex(ValueError, 'name = "a/b" holds a /'):
            ripieno.Run(self.runs, name="a/b")
        for options, expected in (({"epochs": -1}, "epochs = -1;"), ({"seed": "a"}, "seed = 'a';"), ({"sample_s": -1}, "sample_s = -1;"),
                                  ({"steps_per_epoch": 1.5}, "steps_per_epoch = 1.5;")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, expected + " its type, or its range, is another"):
                ripieno.Run(self.runs, **options)
        run = ripieno.Run(self.runs, settings={1: 2})
        with self.assertRaisesRegex(ValueError, "there is no stage exchanging; known are read, forward, backward, exchange, optimise, evaluate"):
            with run.stage("exchanging"):
                pass
        with run.stage("read"), self.assertRaisesRegex(ValueError, "a step ends within the stage read"):
            run.step()
        with self.assertRaisesRegex(ValueError, "an accuracy of 50"):
            run.epoch(accuracy=50)
        run.finish()
        with self.assertRaisesRegex(ValueError, re.escape("step() after finish()")):
            run.step()

    def test_ranks_that_describe_other_runs_are_told(self):
        errors = on_ranks(2, lambda rank: ripieno.Run(self.runs, model=f"net{rank}"), fails=True)
        for error in errors:
            self.assertIn('rank 1 has "model": "net1" and rank 0 "model": "net0"', error)
        self.assertEqual(list(self.runs.iterdir()), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
