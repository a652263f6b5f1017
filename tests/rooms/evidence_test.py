#!/usr/bin/env python3
"""docs/reproduction.md is what scripts/evidence makes of docs/evidence, and what it makes of runs is right."""
import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from reproduction import claims, keep  # noqa: E402
from reproduction.page import Page, Untrue, wrapped  # noqa: E402

REPORTS = Path(os.environ.get("RIPIENO_REPORTS", ROOT.parent / "shared/seeds"))  # their texts, where they are at hand


def a_run(name, seed, accuracy, s_epoch=3.0, **settings):
    return {"run": name, "seed": seed, "machine": "a machine", "date": "2026-11-26", "launcher": "ripieno", "engine": "tcp", "settings": settings,
            "measures": {"accuracy": 100 * accuracy, "s_epoch": s_epoch, "mb_sent": 2.5},
            "summary": {"name": name, "seed": seed, "model": "mnist-cnn", "ranks": []}, "epochs": {}}


def typed(text):
    """Numbers of a page's source that look measured or published, and stand there as they are."""
    for left_out in (r"(?s)\{\{.+?\}\}", r"`[^`]*`", r"\]\([^)]*\)", r"(?m)^[#|].*$", r"(?:figures?|tables?|sections?) \d[\d.]*(?:(?:,| and| to) \d[\d.]*)*", "95 %"):
        text = re.sub(left_out, "", text)
    return [" ".join(found.group().split()) for found in re.finditer(r"(?<![\w.^-])(?:\d+\.\d+(?:\s(?:s|ms|%|[GMT]B)\b)?|\d[\d,]*\s(?:(?:s|ms|[GMT]B)\b|%))", text)]


class Evidence(unittest.TestCase):
    def setUp(self):
        self.page = Page()
        self.page.runs = {"002": [a_run("1n8p", seed, accuracy) for seed, accuracy in ((1, 0.97), (2, 0.96), (3, 0.98))]
                          + [a_run("1n1p", 1, 0.99, 24.0)]}

    def test_the_page_is_as_it_would_be_written(self):
        made = Page().text()
        self.assertEqual((ROOT / "docs/reproduction.md").read_text(), made, "scripts/evidence page writes it anew")

    def test_no_measured_or_published_number_is_typed(self):
        """Outside of expressions, code and tables there are no decimals, and no seconds, bytes or per cent: settings alone, as 8 workers."""
        self.assertEqual(typed("It takes 3.5 s, or {{ 2.5 }} s, `0.1`, figure 4.2, and 12 MB by 8 workers at 1 Gb/s."), ["3.5 s", "12 MB"])
        self.assertEqual(typed((ROOT / "docs/evidence/reproduction.md.in").read_text()), [])
        self.assertEqual([found for one in claims.Claims().all for found in typed(one.ours)], [])

    def test_paragraphs_and_items_are_wrapped(self):
        self.assertEqual(wrapped("# A long heading stays\n\none two\nthree four\n\n- a b\n  c d\n- e\n\n| a | b  |\n|---|---|\n\nend.\n", 10),
                         "# A long heading stays\n\none two\nthree four\n\n- a b c d\n- e\n\n| a | b  |\n|---|---|\n\nend.\n")

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
            self.assertEqual(keep.sent(folder), {"mb_s_sent_0": 4.0, "variation_sent": 0.5})
            (folder / "metrics-1.jsonl").write_text("\n".join(samples(*[(1, 0)] * 8)))
            self.assertEqual(keep.sent(folder), {})
            # The first step is left out: a server's second 0 to 1 is not counted, and the last one neither.
            (folder / "summary.json").write_text(json.dumps({"steps_left_out": 1}))
            (folder / "metrics-0.jsonl").write_text("\n".join(samples((1, 9_000_000), *measured, (1, 9_000_000))))
            (folder / "metrics-1.jsonl").write_text("\n".join(samples(*[(1, 3_000_000)] * 4) + steps(0.9, 2, 3.5)))
            self.assertEqual(keep.sent(folder), {"mb_s_sent_0": 4.0, "variation_sent": 0.25})

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
                    '{"type":"start"}\n' + 2 * '{"type":"step","time":1,"bytes":{"payload_sent":30}}\n' +
                    '{"type":"epoch","epoch":0,"seconds":2.0,"test":{"accuracy":0.9,"loss":1},"bytes":{"payload_sent":5}}\n')
            (run / "summary.json").write_text(json.dumps(a_run("1n8p", 3, 0.9)["summary"]))
            kept = folder / "kept"
            with mock.patch.multiple(keep, KEPT=kept, ROOT=folder, defaults=lambda: {"workers": 2, "seed": 3, "train.epochs": 1},
                                     measures=lambda folders: {one: {"accuracy": 90.0} for one in folders}):
                keep.keep("002", [folder / "runs"])
                keep.keep("002", [folder / "runs"])
            lines = [json.loads(line) for line in (kept / "002.jsonl").read_text().splitlines()]
            self.assertEqual(len(lines), 1)
            self.assertEqual(lines[0]["measures"], {"accuracy": 90.0})
            self.assertEqual(lines[0]["settings"], {"workers": 8, "train.epochs": 5})
            self.assertEqual(lines[0]["epochs"], {"seconds": [2.0], "accuracy": [0.9], "loss": [1], "sent": [130]})

    def test_iterations_of_twenty_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            times = [0.1 * step for step in range(1, 41)] + [4 + 0.3 * step for step in range(1, 21)] + [10 + 0.1 * step for step in range(1, 31)]
            (Path(folder) / "metrics-0.jsonl").write_text("\n".join(json.dumps({"type": "step", "time": time}) for time in times))
            found = keep.iterations(Path(folder))
            self.assertEqual(found["iterations"], 3)  # not the first, and not the ten steps at the end
            self.assertAlmostEqual(found["s_iteration"], 10 / 3)
            self.assertEqual(keep.iterations(Path(folder), 30), {})


class Truth(unittest.TestCase):
    """What is said is borne out by the runs that are kept."""

    def setUp(self):
        self.page = Page()
        self.page.runs = {"002": [a_run("ring", seed, accuracy) for seed, accuracy in ((1, 0.97), (2, 0.96), (3, 0.98))]
                          + [a_run("server", seed, accuracy) for seed, accuracy in ((1, 0.96), (2, 0.95), (3, 0.985))]}

    def test_a_false_sentence_is_refused(self):
        ahead = '{{ true("A ring is ahead in %s seed", %s(d > 0 for d in differences("002", "ring", "server", "accuracy"))) }}.'
        self.assertEqual(self.page.filled(ahead % ("one", "any")), "A ring is ahead in one seed.")
        with self.assertRaisesRegex(Untrue, '"A ring is ahead in each seed" is not true of the runs'):
            self.page.filled(ahead % ("each", "all"))
        with self.assertRaises(Untrue):
            self.page.filled('{{ true("A ring is ahead") }}')

    def test_a_false_verdict_is_refused(self):
        self.page.claims_of.all = [claims.read({"report": "002", "at": "table 2", "words": "better", "claim": "a ring is better", "ours": "97", "verdict": verdict,
                                                "if": ['spans_zero(differences("002", "ring", "server", "accuracy"))'] if verdict == "open" else
                                                ['min(differences("002", "ring", "server", "accuracy")) > 0']}) for verdict in ("open", "yes")]
        with self.assertRaisesRegex(Untrue, '"yes" to "a ring is better"'):
            self.page.claims("002")
        del self.page.claims_of.all[1]
        self.assertEqual(self.page.claims("002"), "| table 2 | a ring is better | **open** | 97 |  |")

    def test_a_verdict_has_conditions_and_words(self):
        entry = {"report": "002", "at": "table 2", "words": "better", "claim": "a ring is better", "ours": "97", "verdict": "yes", "if": ["True"]}
        for change, said in (({"if": []}, "has conditions"), ({"verdict": "perhaps"}, "is none of yes, in part"), ({"words": ""}, "has the report's words"),
                             ({"verdict": "not shown yet"}, "another has none"), ({"because": ""}, "because is no key")):
            with self.assertRaisesRegex(ValueError, said):
                claims.read(entry | change)

    def test_every_figure_and_table_of_the_reports_has_its_row(self):
        self.assertEqual(claims.Claims().missing(), [])
        one = claims.read({"report": "003", "at": "figures 4.6, 4.7, 4.9 to 4.11 and 5.1, table 3.1", "claim": "", "verdict": "-"})
        self.assertEqual(one.numbered("figure"), {"4.6", "4.7", "4.9", "4.10", "4.11", "5.1"})
        self.assertEqual(one.numbered("table"), {"3.1"})

    @unittest.skipUnless(REPORTS.is_dir(), "the reports' texts are not at hand (RIPIENO_REPORTS)")
    def test_words_and_numbers_are_the_reports_own(self):
        texts = {report: " ".join(next(REPORTS.glob(f"{report}*")).read_text().split()) for report in claims.REPORTS}
        quoted = [(one.report, one.words) for one in claims.Claims().all]
        quoted += [(report, one["words"]) for report, numbers in Page().published_besides.items() for one in numbers.values()]
        self.assertEqual([(report, words) for report, words in quoted if " ".join(words.split()) not in texts[report]], [])

    def test_published_numbers_stand_in_their_words(self):
        for report, numbers in Page().published_besides.items():
            for name, one in numbers.items():
                digits = re.sub(r"[,\s]", "", one["words"])
                whole = f"{100 * one['value']:g}%" if one["value"] < 1 and "%" in digits else f"{one['value']:g}" if one["value"] < 1e6 else str(one["value"])
                rounded = any(f"{float(found):.1f}" == f"{one['value']:.1f}" for found in re.findall(r"\d+\.\d+", digits))
                self.assertTrue(whole in digits or rounded, f"{report}, {name}: {one}")


if __name__ == "__main__":
    sys.exit(unittest.main())
