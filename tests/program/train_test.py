"""Training: what a run leaves behind, and that its numbers agree with each other and with other runs."""

import unittest

from program import ProgramTest, Run

STAGES = {"read", "forward", "backward", "exchange", "optimise", "evaluate", "exchange_hidden"}
BYTES = {"payload_sent", "payload_received", "framing_sent", "framing_received"}
SUMMARY = {"schema", "name", "kind", "strategy", "route", "codec", "model", "dataset", "world_size", "parameters", "epochs",
           "steps", "seed", "test", "seconds", "images_per_second", "bytes", "exchange", "evaluation", "closed_form", "ranks", "launcher"}
PARAMETERS = 690590  # of mnist-cnn
SERVERS = {"ps-sync": 1, "ps-async": 1, "ps-ssp": 1}
OWN_PACE = ("ps-async", "ps-ssp")  # which cannot be saved on the way
FRAME, CHECKSUM = 64, 4  # bytes of a message's header, and over TCP of its payload's checksum
REPEATED = ["gather-scatter", "ring", "ddp", "ps-sync", "fedavg", "diloco", "gossip-pairs"]


class StrategiesTest(ProgramTest):
    def check_files(self, run, ranks):
        names = {"config.toml", "env.json", "summary.json", "model.pt"}
        for rank in range(ranks):
            names |= {f"metrics-{rank}.jsonl", f"state-{rank}.pt"}
        self.assertEqual({path.name for path in run.folder.iterdir()}, names)

    def check_summary(self, summary, strategy, ranks):
        self.assertEqual(set(summary), SUMMARY if strategy in OWN_PACE else SUMMARY | {"checkpoints"})
        expected = {"schema": 2, "kind": "computed", "strategy": strategy, "codec": "auto", "model": "mnist-cnn",
                    "dataset": "digits", "world_size": ranks, "parameters": PARAMETERS, "epochs": 2, "seed": 0}
        self.assertEqual({key: summary[key] for key in expected}, expected)
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], list(range(ranks)))
        for part in [summary, *summary["ranks"]]:
            self.assertEqual(set(part["seconds"]["stages"]), STAGES)
            self.assertEqual(set(part["bytes"]), BYTES)
            self.assertGreater(part["seconds"]["total"], 0)
        self.assertEqual(len(summary["seconds"]["epoch"]), 2)
        self.assertGreater(summary["images_per_second"], 0)
        self.assertGreater(summary["seconds"]["stages"]["forward"], 0)
        self.assertTrue(0 <= summary["test"]["accuracy"] <= 1)
        for key in BYTES:
            self.assertEqual(summary["bytes"][key], sum(rank["bytes"][key] for rank in summary["ranks"]), key)
        self.assertEqual(summary["bytes"]["payload_sent"], summary["bytes"]["payload_received"])
        self.assertEqual(summary["bytes"]["framing_sent"], summary["bytes"]["framing_received"])

    def check_metrics(self, run, ranks, servers, agrees):
        """Every worker's lines: all of its steps, in order, and both epochs."""
        samples = 0
        for rank in range(ranks):
            lines = run.metrics(rank)
            steps = [line for line in lines if line["type"] == "step"]
            epochs = [line for line in lines if line["type"] == "epoch"]
            self.assertEqual(lines[-1]["type"], "end")
            self.assertEqual(len(steps) + len(epochs) + 1, sum(line["type"] not in ("start", "sample") for line in lines))
            self.assertEqual([line["step"] for line in steps], list(range(len(steps))))
            self.assertEqual([line["epoch"] for line in epochs], [0, 1])
            times = [line["time"] for line in lines]
            self.assertEqual(times, sorted(times))
            if rank >= servers:
                samples += sum(line["samples"] for line in steps)
                if agrees:  # elsewhere the consensus is another than a worker's own
                    self.assertEqual(epochs[-1]["parameters_hash"].zfill(16), run.hashes[rank])
        self.assertEqual(samples, 2 * 250, "every sample is learnt once an epoch")

    def test_every_strategy(self):
        strategies = self.json("list", "strategies")
        self.assertGreaterEqual(len(strategies), 22)
        exact = {}
        for info in strategies:
            strategy = info["name"]
            with self.subTest(strategy):
                run = self.train({"strategy": strategy, "train.epochs": 2, "workers": 1 if strategy == "single" else 2})
                servers = SERVERS.get(strategy, 0)
                ranks = (1 if strategy == "single" else 2) + servers
                summary = run.summary
                self.check_files(run, ranks)
                self.check_summary(summary, strategy, ranks)
                self.check_metrics(run, ranks, servers, info["agrees"])
                self.assertEqual(run.config["strategy"], strategy)
                exchanged = summary["exchange"]["payload_sent"]
                self.assertEqual(exchanged, 2 * summary["closed_form"]["payload_sent"])
                self.assertLessEqual(exchanged, summary["bytes"]["payload_sent"])
                by_line = sum(line["bytes"]["payload_sent"] for rank in range(ranks) for line in run.metrics(rank) if "bytes" in line)
                self.assertEqual(by_line, exchanged)
                if info["exact"]:
                    self.assertEqual(len(set(run.hashes)), 1, "ranks ended with different weights")
                if info["exact"] and ranks == 2:
                    # 2n(P-1) numbers of 4 bytes in each of 2 steps of 2 epochs
                    self.assertEqual(exchanged, 2 * PARAMETERS * 4 * 4)
                    exact[strategy] = run.hashes[0]
        # The sum of two numbers does not depend on the route.
        self.assertEqual(len(exact), 10)
        self.assertEqual(len(set(exact.values())), 1, exact)


class RepeatTest(ProgramTest):
    def test_every_codec(self):
        sizes = {"auto": 4, "fp32": 4, "fp16": 2, "bf16": 2}
        hashes = {}
        for codec in (one["name"] for one in self.json("list", "codecs")):
            with self.subTest(codec):
                run = self.train({"strategy": "ring", "exchange.codec": codec})
                self.assertEqual(run.summary["codec"], codec)
                self.assertEqual(len(set(run.hashes)), 1, "ranks ended with different weights")
                sent, formula = (run.summary[key]["payload_sent"] for key in ("exchange", "closed_form"))
                if codec == "topk-sampled":
                    self.assertIsNone(formula)
                else:
                    self.assertEqual(sent, formula)
                if codec in sizes:
                    self.assertEqual(sent, 2 * PARAMETERS * 2 * sizes[codec])
                else:
                    self.assertLess(sent, PARAMETERS * 2 * 4)
                hashes[codec] = run.hashes[0]
        self.assertEqual(hashes["auto"], hashes["fp32"])
        self.assertEqual(len(set(hashes.values())), len(hashes) - 1, "every other codec rounds differently")

    def test_the_same_seed_gives_the_same_weights(self):
        for strategy in REPEATED:
            with self.subTest(strategy):
                once, again = (self.train({"strategy": strategy, "seed": 5}) for _ in range(2))
                self.assertEqual(once.hashes, again.hashes)
                self.assertEqual((once.folder / "model.pt").read_bytes(), (again.folder / "model.pt").read_bytes())
        self.assertNotEqual(once.hashes, self.train({"strategy": strategy, "seed": 6}).hashes)

    def test_simulated_time_gives_the_weights_of_tcp(self):
        for workers in (2, 3):
            with self.subTest(workers=workers):
                settings = {"strategy": "ring", "workers": workers}
                real = self.train(settings)
                simulated = self.train(settings | {"transport.kind": "simulated"})
                self.assertEqual(simulated.summary["kind"], "simulated")
                self.assertEqual(simulated.hashes, real.hashes)
                self.assertEqual(simulated.summary["exchange"], real.summary["exchange"])
                self.assertEqual(simulated.summary["test"], real.summary["test"])

    def test_shared_memory_and_tcp_give_the_same_weights_and_bytes(self):
        settings = {"strategy": "ddp", "workers": 3, "exchange.route": "two-phase", "exchange.measure": "off"}
        shared = self.train(settings)
        self.variables = {"RIPIENO_SHARED_MEMORY": "off"}
        tcp = self.train(settings)
        for run, way in ((shared, "shared memory"), (tcp, "tcp")):
            self.assertEqual([rank["ways"] for rank in run.summary["ranks"]],
                             [["" if other == rank else way for other in range(3)] for rank in range(3)])
        self.assertEqual(shared.hashes, tcp.hashes)
        for key in ("exchange", "closed_form", "route"):
            self.assertEqual(shared.summary[key], tcp.summary[key])
        for key, count in tcp.summary["bytes"].items():
            framed = count * FRAME // (FRAME + CHECKSUM) if key.startswith("framing") else count
            self.assertEqual(shared.summary["bytes"][key], framed, key)

    def test_a_rate_for_all_dropout_layers(self):
        one = {"strategy": "single", "workers": 1, "train.max_steps": 1}
        own, half, none = (self.train(one | {"train.dropout": rate}).hashes for rate in (-1, 0.5, 0))
        self.assertEqual(own, half)  # mnist-cnn's own rate
        self.assertNotEqual(own, none)

    def test_the_route_that_is_left_open(self):
        self.assertEqual(self.train({"strategy": "ddp", "workers": 2}).summary["route"], "two-phase")
        self.assertEqual(self.train({"strategy": "ddp", "workers": 2, "exchange.codec": "topk"}).summary["route"], "ring")
        self.variables = {"RIPIENO_SHARED_MEMORY": "off"}
        self.assertEqual(self.train({"strategy": "ddp", "workers": 2}).summary["route"], "ring")

    def test_the_simulated_asynchronous_server_repeats_bit_for_bit(self):
        settings = {"strategy": "ps-async", "workers": 2, "train.epochs": 2, "transport.kind": "simulated",
                    "simulated.slow": "[1, 1, 4]"}
        once, again = self.train(settings), self.train(settings)
        self.assertEqual(once.summary, again.summary)  # with all its times: they are virtual
        for rank in range(3):
            name = f"metrics-{rank}.jsonl"
            self.assertEqual((once.folder / name).read_text(), (again.folder / name).read_text())
        ages = once.summary["ranks"][0]["staleness"]
        self.assertEqual(sum(ages.values()), 8, ages)  # updates: 2 workers, 2 epochs of 2 steps each
        self.assertGreater(max(map(int, ages)), 0, "the slow worker's gradients are old")
        # The slow worker's step takes longer than that of the other.
        fast, slow = (once.summary["ranks"][rank]["seconds"]["stages"] for rank in (1, 2))
        self.assertGreater(slow["forward"] + slow["backward"], 2 * (fast["forward"] + fast["backward"]))


class ResumeTest(ProgramTest):
    def check(self, settings):
        whole = self.train(settings | {"train.epochs": 2})
        first = self.train(settings | {"train.epochs": 1})
        self.assertNotEqual(first.hashes, whole.hashes)
        second = self.resume(first, "--set", "train.epochs=2")
        self.assertEqual(second.hashes, whole.hashes)
        self.assertEqual(second.summary["test"], whole.summary["test"])
        for kind, count in (("step", 4), ("epoch", 2)):  # with those of the first part
            lines = [line for line in second.metrics(0) if line["type"] == kind]
            self.assertEqual([line[kind] for line in lines], list(range(count)))
            self.assertEqual([line["time"] for line in lines], sorted(line["time"] for line in lines))
        for part in ("epochs", "steps", "exchange", "closed_form"):
            self.assertEqual(second.summary[part], whole.summary[part], part)

    def resume(self, run, *arguments):
        before = set(self.runs())
        self.good("train", "--resume", run.folder, *arguments)
        (new,) = set(self.runs()) - before
        return Run(new)

    def test_sgd_with_momentum(self):
        self.check({"strategy": "ring"})

    def test_adam(self):
        self.check({"strategy": "ring", "optimiser.name": "adam", "optimiser.momentum": 0, "learning_rate.base": 0.001})

    def test_federated(self):
        self.check({"strategy": "fedavg"})

    def test_more_is_done_than_is_asked_for(self):
        run = self.train({"train.epochs": 2})
        result = self.ripieno("train", "--resume", run.folder, "--set", "train.epochs=1")
        self.assertEqual(result.code, 2)
        self.assertIn("was saved after 2 epochs, and train.epochs is 1; raise it", result.err)
        self.assertEqual(self.runs(), [run.folder])


class SlowLinkTest(ProgramTest):
    def test_a_link_is_as_slow_as_it_is_asked_to_be(self):
        plain = self.train({"strategy": "ring", "workers": 2})
        slow = self.train({"strategy": "ring", "workers": 2, "transport.delay_ms": 30, "transport.mbit_s": 1000})
        self.assertEqual(slow.hashes, plain.hashes)
        self.assertEqual(slow.summary["exchange"], plain.summary["exchange"])
        self.assertTrue(slow.summary["ranks"][0]["ways"][1].endswith("shaped to 1000 Mb/s 30 ms"), slow.summary["ranks"][0]["ways"])
        sent = slow.summary["ranks"][0]["exchange"]["payload_sent"] / slow.summary["steps"]
        for line in slow.metrics(0):
            if line["type"] == "step":  # a ring of two sends twice, one after the other
                self.assertGreaterEqual(line["seconds"]["exchange"], 2 * 0.03 + sent * 8e-9)


if __name__ == "__main__":
    unittest.main()
