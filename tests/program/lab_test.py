"""Emulated clusters: nodes as network namespaces where the tests run as root, and what takes their place where not."""

import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from program import BINARY, SMALL, ProgramTest, sets

HEADERS = 66  # bytes of Ethernet, IP and TCP, with TCP's time stamps


def namespaces():
    folder = Path("/run/netns")
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("ripieno-lab-")) if folder.is_dir() else []


@unittest.skipUnless(os.geteuid() == 0, "without root there is no lab: LabWithoutRootTest")
class LabTest(ProgramTest):
    def test_workers_of_a_node_share_memory_and_nodes_a_network(self):
        plain = self.train({"strategy": "ring", "workers": 4, "exchange.route": "ring"})
        lab = self.train({"strategy": "ring", "workers": 4, "exchange.route": "ring", "lab.nodes": 2, "lab.mbit_s": 1000})
        self.assertEqual(lab.hashes, plain.hashes)
        ways = [rank["ways"] for rank in lab.summary["ranks"]]
        self.assertEqual(ways[0], ["", "shared memory", "tcp (another host)", "tcp (another host)"])
        self.assertEqual(ways[3], ["tcp (another host)", "tcp (another host)", "shared memory", ""])
        self.assertEqual(namespaces(), [])

    def test_interfaces_count_what_the_ledger_does(self):
        run = self.train({"strategy": "ring", "workers": 2, "lab.nodes": 2, "lab.mbit_s": 500, "run.sample_s": 0.1, "data.train_samples": 1280})
        for rank in range(2):
            lines = run.metrics(rank)
            booked = sum(line["bytes"]["payload_sent"] + line["bytes"]["framing_sent"] for line in lines if "bytes" in line)
            networks = [line["network"] for line in lines if line["type"] == "sample"]
            carried = sum(one["bytes_sent"] - HEADERS * one["packets_sent"] for one in networks)
            self.assertLess(abs(carried / booked - 1), 0.03, (carried, booked))
            self.assertGreater(sum(one["packets_sent"] for one in networks), booked / 1500, "packets are packets: no offloads")

    def test_a_rate_is_kept(self):
        run = self.train({"strategy": "ring", "workers": 2, "lab.nodes": 2, "lab.mbit_s": 100})
        sent = run.summary["ranks"][0]["exchange"]["payload_sent"] / run.summary["steps"]
        waited = [line["seconds"]["exchange"] for line in run.metrics(0) if line["type"] == "step"]
        self.assertGreater(sum(waited) / len(waited), 0.9 * sent * 8e-8 - 0.006)  # but for the links' burst

    def test_nothing_is_left_however_it_ends(self):
        job = self.start("train", *sets(SMALL | {"workers": 2, "lab.nodes": 2, "train.epochs": 1000}))
        self.wait_until("the run's first steps", lambda: any(path.stat().st_size > 1000 for path in self.folder.glob("runs/*/metrics-1.jsonl")))
        self.assertEqual(len(namespaces()), 3)
        job.send_signal(signal.SIGINT)
        job.wait(60)
        self.assertEqual(namespaces(), [])

        before = len(list(self.folder.glob("runs/*")))
        job = self.start("train", *sets(SMALL | {"workers": 2, "lab.nodes": 2, "train.epochs": 1000}))
        self.wait_until("a second run's first steps", lambda: len(list(self.folder.glob("runs/*"))) > before and
                        any(path.stat().st_size > 1000 for path in sorted(self.folder.glob("runs/*"))[-1].glob("metrics-1.jsonl")))
        job.send_signal(signal.SIGKILL)
        job.wait(60)
        self.wait_until("the workers' end", lambda: self.processes() == [])
        self.assertEqual(len(namespaces()), 3)
        self.assertEqual(self.good("lab", "clean"), "3 network namespaces taken down\n")
        self.assertEqual(namespaces(), [])
        self.assertEqual(self.good("lab", "clean"), "nothing was left\n")


class LabWithoutRootTest(ProgramTest):
    def test_rates_are_kept_in_user_space(self):
        command = ["unshare", "--user"] if os.geteuid() == 0 else []  # nobody, who owns root's files
        done = subprocess.run([*command, BINARY, "train", *sets(SMALL | {"workers": 2, "lab.nodes": 2, "lab.mbit_s": 500})], cwd=self.folder,
                              env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the lab has no network namespaces (only root can make them): rates are kept in user space", done.stderr)
        summary = (next(self.folder.glob("runs/*")) / "summary.json").read_text()
        self.assertIn("shaped to 500 Mb/s", summary)

    def test_its_cells_are_known_again(self):
        (self.folder / "cell.toml").write_text('strategy = "ring"\nworkers = 2\nbatch.per_worker = 64\ndata.train_samples = 250\ndata.test_samples = 50\n'
                                               'lab.nodes = 2\nlab.mbit_s = 500\n')
        command = ["unshare", "--user"] if os.geteuid() == 0 else []
        for expected in (0, 1):
            done = subprocess.run([*command, BINARY, "compare", "cell.toml"], cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr.count("done before"), expected)


if __name__ == "__main__":
    sys.exit(unittest.main())
