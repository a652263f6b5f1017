"""Strategies as a user meets them: in virtual time and over tcp, traces, deaths, ages, what explain counts, refusals."""

import collections
import json
import unittest

from program import SMALL, USAGE, ProgramTest, sets

# Batches are of different sizes at an epoch's end, and buckets several.
TINY = {"model": "mnist-3conv", "workers": 3, "exchange.bucket_mb": 0.05}
VIRTUAL = {"transport.kind": "simulated"}
# Keys that only these strategies look at: given to another on the command line, they are refused.
AVERAGING = set(("gather-scatter reduce-broadcast ring halving-doubling direct hierarchical double-binary-tree leader-ring ddp "
                               "accumulate").split())
OWN_KEYS = {"exchange.bucket_mb": AVERAGING, "local.steps": {"local-sgd", "diloco"}, "ps.staleness": {"ps-ssp"},
            "fedavg.batch_norm": {"fedavg"}}
PARAMETERS = 61130  # of mnist-3conv
# One of each family, but for synchronous routes, of which train_test.py has one; an asynchronous one, whose weights hang on timing.
FAMILIES = ["ddp", "ps-sync", "ps-async", "fedavg", "diloco", "gossip-exponential", "ring-passes"]

# For every refusal, by its name: settings that meet it.
REFUSED = {
    "strategy single, workers > 1": [],  # a recipe's single has one worker, whatever it says of the others
    "exchange.route with a strategy that has its own": [
        {"strategy": "ring", "exchange.route": "direct"}, {"strategy": "fedavg", "exchange.route": "ring"}],
    "a codec that is gathered, such as topk, on a route other than ring or direct": [
        {"strategy": "halving-doubling", "exchange.codec": "topk"},
        {"strategy": "ddp", "exchange.route": "hierarchical", "exchange.codec": "topk-sampled"}],
    "exchange.route = native with a codec that changes numbers": [
        {"strategy": "ddp", "transport.kind": "mpi", "exchange.route": "native", "exchange.codec": "fp16"},
        {"strategy": "local-sgd", "transport.kind": "mpi", "exchange.route": "native", "exchange.codec": "powersgd"}],
    "exchange.segment_kb with exchange.route = native": [
        {"strategy": "ddp", "transport.kind": "mpi", "exchange.route": "native", "exchange.segment_kb": 64}],
    "codec powersgd with a parameter server or a federated strategy": [
        {"strategy": "ps-sync", "exchange.codec": "powersgd"}, {"strategy": "fedadam", "exchange.codec": "powersgd"}],
    "a codec that is no floating-point type with gossip, ring-passes or ring-groups": [
        {"strategy": "gossip-pairs", "exchange.codec": "int8"}, {"strategy": "ring-passes", "exchange.codec": "powersgd"}],
    "a codec that keeps little of a number, such as sign or topk, with fedavg, fedavgm or fedadam that exchange parameters": [
        {"strategy": "fedavg", "exchange.codec": "sign"}, {"strategy": "fedavgm", "exchange.codec": "topk"}],
    "exchange.segment_kb with a codec that is no floating-point type": [{"exchange.segment_kb": 64, "exchange.codec": "int8"}],
    "exchange.overlap = forward with a strategy other than ddp": [{"strategy": "ring", "exchange.overlap": "forward"}],
    "exchange.overlap = forward with train.precision = fp16": [
        {"strategy": "ddp", "exchange.overlap": "forward", "train.precision": "fp16"}],
    "optimiser muon, learning_rate.vector_factor or head_factor, or train.first_layer_epochs with a parameter server": [
        {"strategy": "ps-sync", "optimiser.name": "muon"}, {"strategy": "ps-async", "learning_rate.vector_factor": 2},
        {"strategy": "ps-ssp", "learning_rate.head_factor": 2}, {"strategy": "ps-sync", "train.first_layer_epochs": 1}],
    "optimiser.lookahead_every with workers whose weights others replace or mix between their steps": [
        {"strategy": name, "optimiser.lookahead_every": 4} for name in ("fedavg", "local-sgd", "diloco", "gossip-pairs", "ring-passes")],
    "optimiser.lookahead_every with train.precision = fp16": [
        {"strategy": "ddp", "optimiser.lookahead_every": 4, "train.precision": "fp16"}],
    "ps.placement = beside, ps.servers > workers": [
        {"strategy": "ps-sync", "ps.placement": "beside", "ps.servers": 3, "workers": 2}],
    "run.checkpoint_every with ps-async or ps-ssp": [
        {"strategy": "ps-async", "run.checkpoint_every": 1}, {"strategy": "ps-ssp", "run.checkpoint_every": 1}],
    "passes >= workers with ring-groups": [{"strategy": "ring-groups", "passes": 2, "workers": 2}],
    "passes > workers with ring-passes": [{"strategy": "ring-passes", "passes": 3, "workers": 2}],
    "local.fragments > local.steps": [{"strategy": "local-sgd", "local.fragments": 9, "local.steps": 8}],
    "local.delay > local.steps / local.fragments": [
        {"strategy": "diloco", "local.delay": 5, "local.fragments": 2, "local.steps": 8}],
    "data.partition = labels or dirichlet with a strategy that divides every batch among the workers": [
        {"strategy": "ring", "data.partition": "labels"}, {"strategy": "ps-sync", "data.partition": "dirichlet"}],
    "simulated.deaths_s with a strategy other than leader-ring": [
        {"strategy": "ring", "transport.kind": "simulated", "simulated.deaths_s": "[0, 1]"}],
}


def of(strategy, settings):
    """These settings for this strategy, without what it does not look at."""
    return {key: value for key, value in settings.items() if strategy in OWN_KEYS.get(key, {strategy})} | {"strategy": strategy}


class VirtualTimeTest(ProgramTest):
    def test_every_strategy_sends_the_bytes_of_its_closed_form(self):
        for info in self.json("list", "strategies"):
            strategy = info["name"]
            with self.subTest(strategy):
                settings = of(strategy, TINY | VIRTUAL | {"train.epochs": 2, "local.steps": 1})
                if strategy == "single":
                    settings["workers"] = 1
                summary = self.train(settings).summary
                sent = summary["exchange"]["payload_sent"]
                self.assertEqual(sent, 2 * summary["closed_form"]["payload_sent"])
                self.assertEqual(sent > 0, strategy != "single")
                self.assertEqual(summary["bytes"]["payload_sent"], summary["bytes"]["payload_received"])

    def test_each_family_sends_as_much_as_over_tcp(self):
        self.variables = {"RIPIENO_SHARED_MEMORY": "off"}  # which would be another route
        for strategy in FAMILIES:
            with self.subTest(strategy):
                settings = of(strategy, TINY | {"local.steps": 1})
                real, virtual = (self.train(settings | kind).summary for kind in ({}, VIRTUAL))
                self.assertEqual((real["kind"], virtual["kind"]), ("computed", "simulated"))
                for part in ("exchange", "bytes"):
                    self.assertEqual([rank[part] for rank in real["ranks"]], [rank[part] for rank in virtual["ranks"]], part)
                if strategy != "ps-async":
                    self.assertEqual([rank["parameters_hash"] for rank in real["ranks"]],
                                     [rank["parameters_hash"] for rank in virtual["ranks"]])


class TraceTest(ProgramTest):
    """Chrome's trace format: an array of events, those of ph X with a start `ts` and a length `dur` in microseconds."""

    SLOW_NET = TINY | VIRTUAL | {"strategy": "ddp", "run.trace": "true", "simulated.mbit_s": 500, "train.epochs": 2}

    def traces(self, run, ranks):
        """Each rank's events that last, without the first, which gives the rank's name."""
        all_events = [json.loads((run.folder / f"trace-{rank}.json").read_text()) for rank in range(ranks)]
        for rank, (first, *_) in enumerate(all_events):
            self.assertEqual((first["ph"], first["pid"], first["args"]["name"]), ("M", rank, f"rank {rank}"))
        return [[event for event in events[1:] if event["ph"] == "X"] for events in all_events]

    def spans(self, trace, what):
        """(index, begin, end), by begin; the name is what it is and its index."""
        events = [event for event in trace if event["cat"] == what]
        return sorted((int(event["name"].split()[-1]), event["ts"], event["ts"] + event["dur"]) for event in events)

    def overlap(self, one, other):
        return min(one[2], other[2]) - max(one[1], other[1])

    def test_the_file_is_chromes_format(self):
        for strategy in ("ddp", "ring", "fedavg", "local-sgd", "gossip-pairs", "ps-async"):
            with self.subTest(strategy):
                run = self.train(of(strategy, self.SLOW_NET | {"workers": 2}))
                ranks = len(run.summary["ranks"])
                passes = 0
                for rank, trace in enumerate(self.traces(run, ranks)):
                    for event in trace:
                        self.assertEqual(event["pid"], rank)
                        if event["cat"] != "message":  # whose name says which way it goes
                            self.assertEqual(event["name"].split()[0], event["cat"])
                        self.assertIsInstance(event["ts"], (int, float))
                        self.assertGreaterEqual(event["dur"], 0)
                        self.assertIn("tid", event)
                    # On one thread events nest, or come one after the other.
                    threads = collections.defaultdict(list)
                    for event in trace:
                        threads[event["tid"]].append((event["ts"], -event["dur"]))
                    for thread, events in threads.items():
                        ends = []
                        for begin, length in sorted(events):
                            while ends and ends[-1] <= begin + 1e-6:
                                ends.pop()
                            self.assertTrue(not ends or begin - length <= ends[-1] + 1e-6, f"{thread} at {begin}")
                            ends.append(begin - length)
                    forward, backward = (len(self.spans(trace, what)) for what in ("forward", "backward"))
                    self.assertEqual(forward, backward)
                    passes += forward
                steps = sum(line["type"] == "step" for rank in range(ranks) for line in run.metrics(rank))
                if strategy != "ps-async":  # whose servers put down a line for each gradient too
                    self.assertEqual(passes, steps)
        self.assertEqual(list(self.train(TINY | VIRTUAL).folder.glob("trace*")), [], "nobody asked for one")

    def test_one_file_has_all_ranks_with_every_message(self):
        for kind in ("simulated", "tcp"):
            with self.subTest(kind):
                settings = self.SLOW_NET | {"strategy": "ring", "workers": 2, "transport.kind": kind, "exchange.route": "ring"}
                if kind == "tcp":
                    del settings["simulated.mbit_s"]
                run = self.train(settings)
                events = json.loads((run.folder / "trace.json").read_text())
                alone = [json.loads((run.folder / f"trace-{rank}.json").read_text()) for rank in range(2)]
                self.assertEqual(events, alone[0] + alone[1])
                self.assertEqual([event["name"] for event in events if event["ph"] == "i"], ["end of epoch 1", "end of epoch 2"] * 2)
                for rank, summary in enumerate(run.summary["ranks"]):
                    sent = [event["args"] for event in events if event["pid"] == rank and event["name"] == f"send to {1 - rank}"]
                    exchanged = sum(args["bytes"] for args in sent if args["for"] == "exchange")
                    self.assertEqual(exchanged, summary["exchange"]["payload_sent"])
                    self.assertIn("ring", {args["operation"] for args in sent})

    def test_an_arrow_goes_from_every_send_to_its_receive(self):
        """Flow events of one id: `s` in the bar of the send, `f` in that of the receive; f comes later, within the clocks' error."""
        tenth = 1e-4  # of a nanosecond, the unit of times
        for kind, memory in (("simulated", ""), ("tcp", "off"), ("tcp", "")):
            for strategy in ("ring", "ddp", "ps-async", "local-sgd"):
                with self.subTest(kind=kind, memory=memory, strategy=strategy):
                    self.variables = {"RIPIENO_SHARED_MEMORY": memory} if memory else {}
                    settings = self.SLOW_NET | {"strategy": strategy, "workers": 2, "transport.kind": kind, "train.epochs": 1, "local.steps": 2}
                    if kind == "tcp":
                        del settings["simulated.mbit_s"]
                    run = self.train(of(strategy, settings))
                    events = json.loads((run.folder / "trace.json").read_text())
                    errors = {event["pid"]: event["args"]["clock_error_us"] for event in events if event["ph"] == "M"}
                    bars = collections.defaultdict(list)
                    for event in events:
                        if event["ph"] == "X" and event["cat"] == "message":
                            bars[event["pid"], event["tid"]].append(event)
                    starts, ends = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "sf")
                    self.assertEqual(len(starts) + len(ends), sum(event["ph"] in "sf" for event in events), "an id twice")
                    self.assertEqual(starts.keys(), ends.keys())
                    self.assertGreater(len(starts), 0)
                    for key, start in starts.items():
                        end = ends[key]
                        (sent,), (received,) = ([bar for bar in bars[point["pid"], point["tid"]] if bar["ts"] <= point["ts"] + tenth < bar["ts"] + bar["dur"]]
                                                for point in (start, end))
                        self.assertEqual(sent["args"], received["args"])
                        if sent["name"] != "all-reduce by all":
                            self.assertEqual((sent["name"], received["name"]), (f"send to {end['pid']}", f"receive from {start['pid']}"))
                        self.assertGreaterEqual(end["ts"] - start["ts"], -errors[start["pid"]] - errors[end["pid"]])

    def test_a_report_draws_a_step_of_all_ranks(self):
        run = self.train(of("ring", self.SLOW_NET | {"workers": 2}))
        plain = self.train(of("ring", TINY | VIRTUAL | {"workers": 2}))
        self.good("report", run.folder, plain.folder, "--step", 1)
        page = (self.folder / "report.html").read_text()
        self.assertEqual(page.count('<svg class="step"'), 1, "of the run that has a trace")
        self.assertIn("Step 1 of the run", page)
        tables = {table["id"]: table for table in json.loads(self.good("report", run.folder, "--format", "json"))["tables"]}
        rows = [row[0]["text"] for row in tables["step-1"]["rows"]]
        for rank in range(2):
            for what in ("forward", "backward", "exchange 0", "optimise"):
                self.assertIn(f"rank {rank}: {what}", rows)
            self.assertTrue(any(row.startswith(f"rank {rank}: ") and row.endswith(f"to rank {1 - rank}") for row in rows), rows)
        for folder, words in ((run.folder, ["--step 999", "has the steps 0 to"]), (plain.folder, ["no run has a trace", "run.trace=true"])):
            refused = self.ripieno("report", folder, "--step", 999)
            self.assertEqual(refused.code, USAGE)
            self.assert_one_line(refused.err, *words)

    def test_what_compute_waited_for_is_told_apart(self):
        for strategy in ("ddp", "ring", "fedavg", "local-sgd"):
            with self.subTest(strategy):
                run = self.train(of(strategy, self.SLOW_NET | {"workers": 2, "local.steps": 1}))
                for rank, trace in enumerate(self.traces(run, len(run.summary["ranks"]))):
                    exposed = sum(end - begin for _, begin, end in self.spans(trace, "exposed"))
                    self.assertGreater(exposed, 0)
                    self.assertAlmostEqual(exposed * 1e-6, run.summary["ranks"][rank]["seconds"]["stages"]["exchange"], places=6)

    def test_a_bucket_is_on_the_wire_during_anothers_backward(self):
        run = self.train(self.SLOW_NET)
        self.assertGreater(run.summary["seconds"]["stages"]["exchange_hidden"], 0)
        for rank, trace in enumerate(self.traces(run, 3)):
            exchanges, backwards = self.spans(trace, "exchange"), self.spans(trace, "backward")
            buckets = {index for index, _, _ in exchanges}
            self.assertGreater(len(buckets), 1)
            hidden = set()
            for backward in backwards:
                under = {one[0] for one in exchanges if self.overlap(one, backward) > 1e-6}
                # A bucket starts when its own backward is through: what it still overlaps is that of others.
                self.assertNotIn(max(buckets), under, "the last bucket is ready when backward ends")
                if rank == 0:  # at first, others are ahead, and wait for its order
                    self.assertTrue(under, f"nothing is exchanged under backward {backward[0]}")
                hidden |= under
            self.assertTrue(hidden, f"nothing is exchanged under rank {rank}'s backward passes")
            for forward in self.spans(trace, "forward"):
                self.assertFalse([one for one in exchanges if self.overlap(one, forward) > 1e-6], "under forward")
            self.assertEqual(self.spans(trace, "wait"), [])

    def test_with_forward_a_bucket_is_on_the_wire_during_the_next_forward(self):
        settings = self.SLOW_NET | {"exchange.overlap": "forward", "train.epochs": 1, "exchange.bucket_mb": 0.02, "exchange.in_flight": 1,
                                    "batch.per_worker": 16, "data.train_samples": 240}
        run, again = self.train(settings), self.train(settings)
        self.assertEqual(self.traces(run, 3), self.traces(again, 3))
        behind = self.train(settings | {"exchange.overlap": "backward"})
        self.assertEqual(run.hashes, behind.hashes)
        self.assertLess(run.summary["seconds"]["epoch"][0], behind.summary["seconds"]["epoch"][0])
        for trace in self.traces(run, 3):
            exchanges, waits = self.spans(trace, "exchange"), self.spans(trace, "wait")
            forwards = self.spans(trace, "forward")
            for forward in forwards[1:]:
                inside = [wait for wait in waits if self.overlap(wait, forward) > 0]
                computing = forward[2] - forward[1] - sum(end - begin for _, begin, end in inside)
                self.assertGreater(computing, 0)
                hidden = 0
                for one in exchanges:
                    hidden = max(hidden, self.overlap(one, forward) - sum(max(0, self.overlap(one, wait)) for wait in inside))
                self.assertGreater(hidden, 1e-6, f"nothing is exchanged while forward {forward[0]} computes")
            # A forward pass waits for a bucket until its exchange is over, and no longer.
            for bucket, _, end in waits:
                self.assertTrue(any(one[0] == bucket and abs(one[2] - end) < 1e-6 for one in exchanges), f"bucket {bucket}")


class DeathTest(ProgramTest):
    def test_leader_ring_goes_on_and_says_who_died(self):
        settings = TINY | VIRTUAL | {"strategy": "leader-ring", "workers": 4, "train.epochs": 3}
        whole = self.train(settings)
        end = whole.summary["seconds"]["total"]
        self.assertEqual([rank["rank"] for rank in whole.summary["ranks"]], [0, 1, 2, 3])
        for dead in (1, 3):  # 3 is the leader
            with self.subTest(dead=dead):
                deaths = [0, 0, 0, 0]
                deaths[dead] = end / 2
                before = set(self.runs())
                result = self.ripieno("train", *sets(self.small(settings | {"simulated.deaths_s": deaths})))
                self.assertEqual(result.code, 0, result.err)
                self.assertIn(f"rank {dead} died", result.err)
                (folder,) = set(self.runs()) - before
                summary = json.loads((folder / "summary.json").read_text())
                alive = [rank for rank in range(4) if rank != dead]
                self.assertEqual([rank["rank"] for rank in summary["ranks"]], alive)
                self.assertEqual(len({rank["parameters_hash"] for rank in summary["ranks"]}), 1)
                self.assertNotEqual(summary["ranks"][0]["parameters_hash"], whole.hashes[0])
                self.assertEqual(summary["steps"], whole.summary["steps"])
                lines = [(folder / f"metrics-{rank}.jsonl").read_text().count('"type":"step"') for rank in range(4)]
                self.assertEqual({lines[rank] for rank in alive}, {summary["steps"]})
                self.assertTrue(0 < lines[dead] < summary["steps"], lines)
        for form in ("html", "md", "json", "tensorboard"):
            self.good("report", self.folder / "runs", "--format", form, "-o", self.folder / f"report.{form}")
        self.assertIn("leader-ring", (self.folder / "report.md").read_text())

    def small(self, settings):
        return SMALL | {"run.folder": self.folder / "runs"} | settings


class AgesTest(ProgramTest):
    def test_metrics_hold_every_age_and_the_summary_their_histogram(self):
        slow = "[1, 1, 1, 5]"  # the server, three workers
        for strategy, bound in (("ps-async", None), ("ps-ssp", 1)):
            with self.subTest(strategy):
                run = self.train(of(strategy, TINY | VIRTUAL | {"train.epochs": 3, "simulated.slow": slow, "ps.staleness": 1}))
                oldest = 0
                for rank, summary in enumerate(run.summary["ranks"]):
                    ages = collections.Counter(str(line["age"]) for line in run.metrics(rank) if "age" in line)
                    self.assertEqual(summary.get("staleness"), dict(ages) if ages else None)
                    oldest = max([oldest, *map(int, ages)])
                server = run.summary["ranks"][0]["staleness"]
                self.assertEqual(sum(server.values()), sum(
                    sum(line["type"] == "step" for line in run.metrics(rank)) for rank in (1, 2, 3)))
                self.assertGreater(oldest, 0)
        ring = self.train(TINY | VIRTUAL).summary
        self.assertEqual({rank.get("staleness") for rank in ring["ranks"]}, {None})


class ExplainTest(ProgramTest):
    """The figures of Cheng 2020, in docs/strategies.md: rounds times a model of whole megabytes, beside the true bytes."""

    N = 4 * 11173962  # ResNet-18 in fp32
    TABLE = [  # strategy, batch, Cheng's figure for each epoch, as it is printed, true bytes
        ("gather-scatter", 256, 50000 / 256 * 44e6, "8.59 GB", 196 * 6 * N),
        ("gather-scatter", 2048, 50000 / 2048 * 44e6, "1.07 GB", 25 * 6 * N),
        ("fedavg", 256, 44e6, "44.0 MB", 6 * N),
        ("fedavg", 2048, 44e6, "44.0 MB", 6 * N),
    ]

    def test_chengs_figures(self):
        for strategy, batch, figure, printed, true_bytes in self.TABLE:
            job = of(strategy, {"model": "resnet18", "data.name": "cifar10", "batch.global": batch, "workers": 4, "fedavg.batch_norm": "local"})
            del job["strategy"]
            with self.subTest(strategy, batch=batch):
                for codec, part in (("auto", 1), ("fp16", 2)):
                    counted = self.json("explain", strategy, *sets(job | {"exchange.codec": codec}))
                    self.assertEqual(counted["as_cheng_2020_counts"], figure / part)
                    self.assertEqual(counted["bytes_sent"], true_bytes / part)
                    self.assertEqual(counted["parameters"], self.N // 4)
                text = self.good("explain", strategy, *sets(job))
                (line,) = [line for line in text.splitlines() if "Cheng" in line]
                self.assertIn(f" {printed} ", line)


class RefusalsTest(ProgramTest):
    def test_every_row_is_refused_at_once(self):
        table = {row["refused"]: row for row in self.json("list", "refusals")}
        self.assertEqual(set(table), set(REFUSED))
        (self.folder / "three.toml").write_text("workers = 3\nmodel = 'mnist-3conv'\n")
        self.assertEqual(self.train(VIRTUAL | {"strategy": "single"}, "three.toml").summary["world_size"], 1)
        for name, cases in REFUSED.items():
            for case in cases:
                with self.subTest(name, **{key.replace(".", "_"): value for key, value in case.items()}):
                    settings = {"batch.per_worker": 8, "run.folder": self.folder / "refused"} | case
                    result = self.ripieno("train", *sets(settings))
                    self.assertEqual((result.code, result.out), (USAGE, ""))
                    self.assert_one_line(result.err, name, table[name]["because"], table[name]["instead"],
                                         case.get("strategy", "ring"))
                    self.assertFalse((self.folder / "refused").exists(), "something had started")

    def test_a_grid_with_a_refused_cell_runs_the_others(self):
        (self.folder / "grid.toml").write_text(
            '[batch]\nper_worker = 64\n[data]\ntrain_samples = 128\ntest_samples = 50\n[transport]\nkind = "simulated"\n'
            '[exchange]\ncodec = "int8"\n[[grid]]\nstrategy = ["gossip-pairs", "ring"]\n'
            '[[grid]]\n"run.name" = ["nesterov"]\n"optimiser.nesterov" = [true]\n"optimiser.momentum" = [0.0]\n')
        result = self.ripieno("compare", "grid.toml")
        self.assertEqual(result.code, USAGE)
        told = [line for line in result.err.splitlines() if line.startswith("ripieno: ")]
        self.assertEqual(len(told), 2, result.err)
        for name, *words in (("gossip-pairs", "int8", "take fp16 or bf16"), ("nesterov", "needs a momentum")):
            (line,) = [one for one in told if f"cell {name}" in one]
            for word in words:
                self.assertIn(word, line)
            self.assertRegex(result.out, rf"(?m)^not here: {name}.*: ")
        lines = result.out.splitlines()
        rule = next(i for i, line in enumerate(lines) if line.startswith("──"))
        self.assertEqual(lines[rule + 1].split()[0], "ring", result.out)
        self.assertEqual(len(self.runs()), 1)

        none = self.ripieno("compare", "grid.toml", "--only", told[0].split()[2])
        self.assertEqual((none.code, none.out), (USAGE, ""))
        self.assertEqual(len(none.err.splitlines()), 1, none.err)


if __name__ == "__main__":
    unittest.main()
