#!/usr/bin/env python3
"""docs/reproduction.md is what scripts/evidence makes of docs/evidence, and what it makes of runs is right."""
import importlib.machinery
import importlib.util
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
loader = importlib.machinery.SourceFileLoader("evidence", str(ROOT / "scripts/evidence"))
evidence = importlib.util.module_from_spec(importlib.util.spec_from_loader("evidence", loader))
sys.dont_write_bytecode = True
loader.exec_module(evidence)


def a_run(name, seed, accuracy, s_epoch=3.0, **settings):
    return {"run": name, "seed": seed, "machine": "a machine", "date": "2026-11-26", "launcher": "ripieno", "engine": "tcp", "settings": settings,
            "measures": {"accuracy": 100 * accuracy, "s_epoch": s_epoch, "mb_sent": 2.5},
            "summary": {"name": name, "seed": seed, "model": "mnist-cnn", "ranks": []}, "epochs": {}}


class Evidence(unittest.TestCase):
    def setUp(self):
        self.page = evidence.Page()
        self.page.runs = {"002": [a_run("1n8p", seed, accuracy) for seed, accuracy in ((1, 0.97), (2, 0.96), (3, 0.98))]
                          + [a_run("1n1p", 1, 0.99, 24.0)]}

    def test_the_page_is_as_it_would_be_written(self):
        made = evidence.Page().text()
        self.assertEqual((ROOT / "docs/reproduction.md").read_text(), made, "scripts/evidence page writes it anew")

    def test_figures_are_called_as_reports_call_them(self):
        named = re.findall(r"(?<!\*)\*(?!\*)([A-Z][^*]*)\*(?!\*)", (ROOT / "docs/evidence/reproduction.md.in").read_text())
        titles = "".join(path.read_text() for path in (ROOT / "ripieno/report").glob("*.cpp"))
        self.assertGreater(len(named), 5)
        self.assertEqual([name for name in named if '"' + " ".join(name.split()) not in titles], [], "no figure's title begins so")

    def test_seeds_are_a_mean_and_an_interval(self):
        self.assertEqual(self.page.number("002", "1n8p", "accuracy"), "97.00 ± 2.48")  # t = 4.303, s = 1, n = 3
        self.assertEqual(self.page.number("002", "1n1p", "accuracy", 1), "99.0")
        self.assertEqual(self.page.seeds("002", "1n8p", "accuracy", 0), "97, 96, 98")

    def test_rows_have_ours_beside_theirs(self):
        self.assertEqual(self.page.rows("002", {"1n8p": "1, 8"}, ["s_epoch", "published s_epoch", "s_epoch / 1n1p", "published s_epoch / 1n1p", "mb_sent"]),
                         "| 1, 8 | 3.00 | 20.52 | 0.12 | 0.14 | 2.5 |")

    def test_a_column_may_be_of_another_run(self):
        self.page.runs["004"] = [a_run("four-ring", 1, 0.9), a_run("four-groups", 1, 0.8), a_run("two-ring", 1, 0.7)]
        self.assertEqual(self.page.rows("004", {"four": "4", "two": "2"}, ["accuracy of *-ring", "accuracy of *-groups", "accuracy / *-ring of *-groups"]),
                         "| 4 | 90.00 | 80.00 | 0.89 |\n| 2 | 70.00 |  |  |")
        self.assertEqual(self.page.rows("004", {"{workers}-ring": "ring"}, ["accuracy of workers=four", "accuracy / workers=two of workers=four"]),
                         "| ring | 90.00 | 1.29 |")

    def test_accuracy_by_an_epoch_and_by_bytes(self):
        curves = ([0.2, 0.5, 0.9], [0.4, 0.7, 0.9])
        self.page.runs["004"] = [{**a_run("ring", seed, 0.9), "epochs": {"accuracy": curve, "sent": [1_000_000, 2_000_000, 3_000_000]}}
                                 for seed, curve in enumerate(curves)]
        self.assertEqual(self.page.cell("004", "ring", "epoch 2"), "60.00 ± 127.06")  # t = 12.706, s = 14.14, n = 2
        self.assertEqual(self.page.cell("004", "ring", "2.5 MB"), "60.00 ± 127.06")
        self.assertEqual(self.page.cell("004", "ring", "3 MB"), "90.00")
        self.assertEqual(self.page.cell("004", "ring", "0.5 MB"), "")
        self.assertEqual(self.page.cell("004", "ring", "epoch 4"), "")

    def test_differences_sums_and_parts(self):
        self.page.runs["004"] = ([{**a_run("ring", seed, value), "summary": {"epochs": 2, "steps": 10}} for seed, value in ((1, 0.5), (2, 0.7), (3, 0.8))]
                                 + [a_run("groups", seed, value) for seed, value in ((2, 0.6), (1, 0.3))])
        self.assertEqual(self.page.pairs("004", "ring", "groups", "accuracy"), "15.00 ± 63.53")  # of seeds 1 and 2: 20 and 10
        self.assertEqual(self.page.added("004", "ring", "s_epoch", "mb_sent"), "5.5")
        self.assertEqual(self.page.per_epoch("004", "ring", "mb_sent", 2), "1.25")
        self.assertEqual(self.page.per_step("004", "ring", "mb_sent", 5, 2), "0.05")
        self.assertEqual(self.page.to_published("002", "1n8p", "s_epoch"), "0.15")
        self.assertEqual(self.page.published("004", "workers5-passes5-epochs12-ring-passes", "accuracy", table="Figure 3"), "91")

    def test_origins_are_a_row_for_each_place(self):
        self.page.runs = {"001": [a_run("one", 1, 0.5), {**a_run("two", 1, 0.5), "date": "2026-11-28"}, {**a_run("two", 2, 0.5), "launcher": "slurm"}]}
        self.assertEqual(self.page.origins(), "| `001.jsonl` | a machine | 2026-11-26 to 2026-11-28 | ripieno | tcp | 2 of 3 |\n"
                                              "| `001.jsonl` | a machine | 2026-11-26 | slurm | tcp | 1 of 3 |")

    def test_parts_are_in_per_cent(self):
        self.page.runs["001"] = [a_run("task1", seed, 0.2, s_epoch) for seed, s_epoch in ((1, 3.0), (2, 5.0))]
        self.assertEqual(self.page.share("001", "task1", "mb_sent", "s_epoch", 1), "62.5")
        self.assertEqual(self.page.cell("001", "task1", "mb_sent % s_epoch"), "62")
        self.assertEqual(self.page.published_share("001", "task1", "cpu_system", "cpu_user"), "16.1")  # 10.8 of 67.1
        self.assertEqual(self.page.rows("001", {"task1": "1"}, ["", "mb_sent"]), "| 1 |  | 2.5 |")

    def test_what_nodes_send_second_by_second(self):
        def samples(*of_each):
            lines, time = [], 0
            for seconds, sent in of_each:
                time += seconds
                lines.append(json.dumps({"type": "sample", "time": time, "seconds": seconds, "network": {"bytes_sent": sent}}))
            return lines

        def steps(*times):
            return [json.dumps({"type": "step", "time": time}) for time in times]

        with tempfile.TemporaryDirectory() as name:
            folder, ends = Path(name), [(1, 0)] * 2
            (folder / "summary.json").write_text("{}")
            measured = [(0.5, 1_000_000), (0.5, 1_000_000), (1, 6_000_000)]
            (folder / "metrics-0.jsonl").write_text("\n".join(samples(*ends, *measured, *ends)))
            self.assertEqual(evidence.sent_by_seconds(folder), {"mb_s_sent_0": 4.0, "variation_sent": 0.5})
            (folder / "metrics-1.jsonl").write_text("\n".join(samples(*[(1, 0)] * 8)))
            self.assertEqual(evidence.sent_by_seconds(folder), {})
            # The first step is left out: a server's second 0 to 1 is not counted, and the last one neither.
            (folder / "summary.json").write_text(json.dumps({"steps_left_out": 1}))
            (folder / "metrics-0.jsonl").write_text("\n".join(samples((1, 9_000_000), *measured, (1, 9_000_000))))
            (folder / "metrics-1.jsonl").write_text("\n".join(samples(*[(1, 3_000_000)] * 4) + steps(0.9, 2, 3.5)))
            self.assertEqual(evidence.sent_by_seconds(folder), {"mb_s_sent_0": 4.0, "variation_sent": 0.25})

    def test_what_is_not_kept_is_named(self):
        with self.assertRaisesRegex(KeyError, "docs/evidence/002.jsonl has no run 9n9p"):
            self.page.number("002", "9n9p", "accuracy")
        with self.assertRaisesRegex(KeyError, "no published loss of 9n9p"):
            self.page.published("002", "9n9p", "loss")

    def test_a_run_is_kept_once_with_what_its_settings_say(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            run = folder / "runs/one"
            run.mkdir(parents=True)
            (run / "config.toml").write_text('workers = 8\nseed = 3\n[data]\nfolder = "/somewhere"\n[train]\nepochs = 5\n')
            for rank in range(2):
                (run / f"metrics-{rank}.jsonl").write_text(
                    '{"type":"start"}\n{"type":"step","bytes":{"payload_sent":30}}\n{"type":"step","bytes":{"payload_sent":30}}\n'
                    '{"type":"epoch","epoch":0,"seconds":2.0,"test":{"accuracy":0.9,"loss":1},"bytes":{"payload_sent":5}}\n')
            (run / "summary.json").write_text(json.dumps(a_run("1n8p", 3, 0.9)["summary"]))
            kept, self.kept_before = folder / "kept", evidence.KEPT
            evidence.KEPT, evidence.ROOT, root = kept, folder, evidence.ROOT
            defaults, evidence.defaults = evidence.defaults, lambda: {"workers": 2, "seed": 3, "train.epochs": 1}
            measures, evidence.measures = evidence.measures, lambda folders: {one: {"accuracy": 90.0} for one in folders}
            try:
                evidence.keep("002", [folder / "runs"])
                evidence.keep("002", [folder / "runs"])
            finally:
                evidence.KEPT, evidence.ROOT, evidence.defaults, evidence.measures = self.kept_before, root, defaults, measures
            lines = [json.loads(line) for line in (kept / "002.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), 1)
            self.assertEqual(lines[0]["measures"], {"accuracy": 90.0})
            self.assertEqual(lines[0]["settings"], {"workers": 8, "train.epochs": 5})
            self.assertEqual(lines[0]["epochs"], {"seconds": [2.0], "accuracy": [0.9], "loss": [1], "sent": [130]})


if __name__ == "__main__":
    sys.exit(unittest.main())
