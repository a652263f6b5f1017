"""Every collective as its users meet it: shown by `ripieno explain`, timed by `ripieno bench`."""

import json
import sys
import unittest

from program import BINARY, ProgramTest

ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("all-reduce", "reduce-scatter", "reduce")
IN_PARTS = ("reduce-scatter", "all-gather", "gather", "scatter", "all-to-all")
TYPES = {"fp32": 4, "fp64": 8, "fp16": 2, "bf16": 2, "int64": 8, "int32": 4, "uint8": 1}

# What is proved, with the root.
PROMISES = {
    "all-reduce": "every rank ends with the sum of all",
    "reduce-scatter": "every rank ends with its own chunk of the sum of all",
    "all-gather": "every rank ends with all ranks' chunks",
    "broadcast": "every rank ends with rank {}'s numbers",
    "reduce": "rank {} ends with the sum of all",
    "gather": "rank {} ends with all ranks' chunks",
    "scatter": "every rank ends with its own chunk of rank {}'s numbers",
    "all-to-all": "every rank ends with the block that every rank had for it",
}


def chunk(elements, parts, i):
    return range(elements * i // parts, elements * (i + 1) // parts)


class Copies:
    """What every rank's buffer holds, element by element: a set of (rank, element) that came together there."""

    def __init__(self, operation, ranks, root, elements):
        def has(rank, i):
            if operation in ("all-gather", "gather"):
                return i in chunk(elements, ranks, rank)
            return rank == root if operation in ("broadcast", "scatter") else True

        self.held = [[frozenset([(rank, i)] if has(rank, i) else []) for i in range(elements)] for rank in range(ranks)]

    def take(self, steps):
        """What all ranks do in one step: {rank: its step}."""
        before = [list(own) for own in self.held]
        for rank, step in steps.items():
            counted = {}
            for one in step["receives"]:
                peer, at = one["peer"], counted.setdefault(one["peer"], 0)
                counted[peer] += 1
                out = [other for other in steps[peer]["sends"] if other["peer"] == rank][at]
                assert (out["end"] - out["begin"], out["how"]) == (one["end"] - one["begin"], one["how"])
                for i in range(one["end"] - one["begin"]):
                    arriving, there = before[peer][out["begin"] + i], self.held[rank][one["begin"] + i]
                    self.held[rank][one["begin"] + i] = there | arriving if one["how"] == "add" else arriving


def promised(operation, ranks, root, elements):
    """(rank, element) -> what is to be there."""
    everyone = {
        (rank, i): frozenset((other, i) for other in range(ranks)) for rank in range(ranks) for i in range(elements)
    }
    owner = {i: rank for rank in range(ranks) for i in chunk(elements, ranks, rank)}
    block = elements // ranks
    if operation == "all-reduce":
        return everyone
    if operation == "reduce-scatter":
        return {at: what for at, what in everyone.items() if owner[at[1]] == at[0]}
    if operation == "reduce":
        return {at: what for at, what in everyone.items() if at[0] == root}
    if operation in ("all-gather", "gather"):
        return {(rank, i): {(owner[i], i)} for rank, i in everyone if operation == "all-gather" or rank == root}
    if operation in ("broadcast", "scatter"):
        return {(rank, i): {(root, i)} for rank, i in everyone if operation == "broadcast" or owner[i] == rank}
    return {
        (rank, i): {(i // block, rank * block + i % block) if i < ranks * block else (rank, i)} for rank, i in everyone
    }


class ExplainTest(ProgramTest):
    def routes(self):
        return [(row["operation"], row["name"], row["default"]) for row in self.routes_with_schedules()]

    def test_every_route_of_every_operation_does_what_it_says(self):
        elements = 13
        for operation, route, _ in self.routes():
            for ranks, root in ((1, 0), (2, 1), (3, 1), (5, 4)):
                rooted = operation in ROOTED
                with self.subTest(operation, route=route, ranks=ranks):
                    plan = self.json(
                        "explain",
                        route,
                        "--operation",
                        operation,
                        "-n",
                        ranks,
                        "--elements",
                        elements,
                        *(["--root", root] if rooted else []),
                    )
                    self.assertEqual(
                        [plan[key] for key in ("operation", "route", "ranks", "root", "elements")],
                        [operation, route, ranks, root if rooted else None, elements],
                    )
                    self.assertEqual(plan["promise"], PROMISES[operation].format(root))
                    copies, steps = Copies(operation, ranks, root, elements), {}
                    for rank in plan["per_rank"]:
                        for step in rank["steps"]:
                            self.assertTrue(step["sends"] or step["receives"], "an empty step")
                            steps.setdefault(step["step"], {})[rank["rank"]] = step
                    self.assertEqual(len(steps), plan["rounds"])
                    for k in sorted(steps):
                        copies.take(steps[k])
                    for (rank, i), what in promised(operation, ranks, root, elements).items():
                        self.assertEqual(copies.held[rank][i], what, f"rank {rank}, element {i}")
                    if operation in ("reduce-scatter", "all-gather", "reduce") or (
                        operation == "broadcast" and route != "scatter-gather"
                    ):
                        self.assertEqual(plan["bytes_sent"], (ranks - 1) * elements * 4)

    def test_an_operation_is_shown_along_its_default_route(self):
        defaults = {operation: route for operation, route, is_default in self.routes() if is_default}
        self.assertEqual(list(defaults), list(PROMISES))
        for operation, route in defaults.items():
            with self.subTest(operation):
                root = ["--root", 2] if operation in ROOTED else []
                text = self.good("explain", operation, "-n", 4, *root)
                self.assertEqual(text, self.good("explain", "--operation", operation, "-n", 4, *root))
                self.assertEqual(text, self.good("explain", route, "--operation", operation, "-n", 4, *root))
                self.assertTrue(text.startswith(f"{operation} along {route}: "), text)
                self.assertIn(f"; proved: {PROMISES[operation].format(2)}\n", text)
                self.assertEqual("root 2; proved" in text, operation in ROOTED)
                for line in text.splitlines()[3:6]:
                    self.assertNotIn("≈", line)
                self.assertEqual("added as it arrives" in text, operation in REDUCING)
        self.assertEqual(self.good("explain", "ring"), self.good("explain", "all-reduce"))
        self.assertIn("b1: the second of 4 equal blocks of the buffer", self.good("explain", "all-to-all"))
        quarters = self.good("explain", "halving-doubling", "-n", "6")
        self.assertIn("c1: the second of 4 chunks of the buffer", quarters)
        self.assertIn("c2-3→2  2→+c0-1", quarters)
        self.assertIn("more than a month", self.ripieno("explain", "direct", "-n", "512", "--elements", 10 ** 9, "--mbit-s", 1).err)
        self.assertIn("time on such links     0 s", self.good("explain", "all-to-all", "-n", "6", "--elements", "3"))
        self.assertIn(
            "(40 B), of which the last 1 stay, on 3 ranks",
            self.good("explain", "all-to-all", "-n", 3, "--elements", 10),
        )

    def test_routes_of_one_operation_are_listed(self):
        few = self.json("list", "routes", "all-gather")
        self.assertEqual(few, [row for row in self.json("list", "routes") if row["operation"] == "all-gather"])
        self.assertGreater(len(few), 1)


class BenchTest(ProgramTest):
    def check(self, rows, ranks, root=0, type="fp32", reduction="sum"):
        for row in rows:
            operation = row["operation"]
            with self.subTest(
                operation, route=row["route"], ranks=ranks, type=type, reduction=reduction, **self.variables
            ):
                self.assertEqual(row["wrong"], 0)
                self.assertEqual(
                    [row[key] for key in ("ranks", "type", "reduction", "root")],
                    [ranks, type, reduction if operation in REDUCING else None, root if operation in ROOTED else None],
                )
                self.assertEqual(row["bytes"], row["elements"] * TYPES[type])
                self.assertEqual(row["count"], row["elements"] // ranks if operation in IN_PARTS else row["elements"])
                self.assertTrue(0 < row["min_us"] <= row["time_us"] <= row["max_us"], row)
                self.assertAlmostEqual(row["algbw"], row["bytes"] / row["time_us"] / 1e3)
                factor = (
                    1
                    if operation in ("broadcast", "reduce")
                    else (2 if operation == "all-reduce" else 1) * (ranks - 1) / ranks
                )
                self.assertAlmostEqual(row["busbw"], row["algbw"] * factor)

    def test_ranks_of_a_launcher_are_the_workers(self):
        program = BINARY
        rows = json.loads(self.good("launch", "-n", 3, "--", program, "bench", "-b", "4K", "-e", "8K", "--format", "json"))
        self.assertEqual([row["bytes"] for row in rows], [4096, 8192])
        self.check(rows, 3)
        for further, words in ((("-n", 2), ["has started 3 processes", "-n 2"]), (("--transport", "mpi"), ["needs processes that an MPI's launcher started"]),
                               (("--route", "native"), ["--route native is MPI's own operation", "the transport is tcp"])):
            result = self.ripieno("launch", "-n", 3, "--", program, "bench", *further)
            self.assertNotEqual(result.code, 0)
            for word in words:
                self.assertIn(word, result.err)

    def test_every_route_of_every_operation(self):
        listed = [(row["operation"], row["name"]) for row in self.routes_with_schedules()]
        for memory in ("", "off"):
            self.variables = {"RIPIENO_SHARED_MEMORY": memory} if memory else {}
            for ranks in (1, 2, 3):
                rows = self.json(
                    "bench",
                    "all",
                    "--route",
                    "all",
                    "-n",
                    ranks,
                    "-b",
                    "1000",
                    "-e",
                    "5000",
                    "-f",
                    "5",
                    "-i",
                    "2",
                    "-w",
                    "1",
                )
                self.assertEqual([(row["operation"], row["route"]) for row in rows[::2]], listed)
                for row, size in zip(rows, [1000, 5000] * len(listed)):
                    part = 16 * ranks if row["operation"] in IN_PARTS else 4
                    self.assertEqual(row["bytes"], size // part * part)
                self.check(rows, ranks)

    def test_every_type_and_reduction(self):
        for type in TYPES:
            for reduction in ("sum", "mean", "product", "minimum", "maximum"):
                if reduction not in ("mean", "product") and type not in ("fp16", "int32"):
                    continue
                rows = self.json(
                    "bench",
                    "all",
                    "-n",
                    3,
                    "--root",
                    2,
                    "-b",
                    "4K",
                    "-e",
                    "4K",
                    "-i",
                    "1",
                    "-w",
                    "0",
                    "--type",
                    type,
                    "--reduction",
                    reduction,
                )
                self.assertEqual([row["operation"] for row in rows], list(PROMISES))
                self.check(rows, 3, 2, type, reduction)

    def test_wires_segments_and_several_operations(self):
        rows = self.json(
            "bench",
            "--operation",
            "scatter,broadcast",
            "-n",
            2,
            "--root",
            1,
            "-b",
            "64K",
            "-e",
            "64K",
            "-i",
            "2",
            "--segment-kb",
            "8",
        )
        self.assertEqual([row["operation"] for row in rows], ["scatter", "broadcast"])
        self.check(rows, 2, 1)
        for type in ("fp32", "fp64"):
            self.check(
                self.json("bench", "all", "-n", 2, "-b", "4K", "-e", "4K", "-i", "1", "--type", type, "--wire", "bf16"),
                2,
                type=type,
            )

    def test_the_table(self):
        text = self.good(
            "bench",
            "reduce",
            "-n",
            2,
            "--root",
            1,
            "-b",
            "4K",
            "-e",
            "4K",
            "-i",
            "2",
            "--type",
            "uint8",
            "--reduction",
            "maximum",
        )
        self.assertRegex(
            text.splitlines()[0], r"^# reduce on 2 processes, .*, wire uint8, 3 warm-up and 2 timed iterations$"
        )
        self.assertEqual(text.splitlines()[-1].split()[:6], ["4096", "4096", "uint8", "maximum", "1", "tree"])
        text = self.good("bench", "all-gather,all-to-all", "-n", 2, "-b", "4K", "-e", "4K", "-i", "2")
        self.assertEqual(
            [line.split()[:7] for line in text.splitlines()[-2:]],
            [
                ["all-gather", "4096", "512", "fp32", "none", "-1", "bruck"],
                ["all-to-all", "4096", "512", "fp32", "none", "-1", "pairwise"],
            ],
        )


if __name__ == "__main__":
    sys.exit(unittest.main())
