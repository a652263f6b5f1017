"""Strategies that are not exact, and codecs with error feedback, against references of at most 30 lines of NumPy in
fp64: every worker's parameters after every step agree to 1e-10, and do not once a constant of the reference is
another.

A reference is the file next to this one that a case names: reference(job) -> what the library's job came to. It
shares with the others the problem and its gradient, below, and nothing with the library."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np

sys.dont_write_bytecode = True  # nothing beside the sources
FOLDER = pathlib.Path(__file__).parent
TRAJECTORY = os.environ["RIPIENO_TRAJECTORY"]
TOLERANCE = 1e-10  # largest difference over largest magnitude, of each vector
LINES = 30         # of a reference, but for empty ones
STEPS = 10         # at least, of every worker that lives

# Case: its reference, and constants that are not the job's, each of which must show.
CASES = {
    "fedavg": ("fedavg", {"momentum": 0.8, "clients": [[0, 1, 2, 3]] * 6}),
    "fedavg-deltas": ("fedavg", {"momentum": 0.8, "local_epochs": 1}),
    "fedavg-topk": ("fedavg_topk", {"momentum": 0.8, "fraction": 0.3}),
    "fedavgm": ("fedavgm", {"momentum": 0.8, "outer_momentum": 0.8, "outer_rate": 0.9}),
    "fedadam": ("fedadam", {"momentum": 0.8, "beta1": 0.8, "beta2": 0.999, "epsilon": 1e-4, "outer_rate": 0.02}),
    "local-sgd": ("local_sgd", {"momentum": 0.8, "local_steps": 5}),
    "diloco": ("diloco", {"momentum": 0.8, "local_steps": 4, "outer_momentum": 0.8, "outer_rate": 1.0}),
    "diloco-delay": ("streaming_diloco", {"momentum": 0.8, "delay": 2, "outer_momentum": 0.8}),
    "diloco-fragments": ("streaming_diloco", {"momentum": 0.8, "fragments": [[0, 5], [5, 9], [9, 13]]}),
    "diloco-fragments-delay": ("streaming_diloco", {"momentum": 0.8, "delay": 1, "local_steps": 9}),
    "ring-passes-1": ("ring_passes", {"momentum": 0.8, "passes": 2}),
    "ring-passes-2": ("ring_passes", {"momentum": 0.8, "passes": 3}),
    "ring-passes-3": ("ring_passes", {"momentum": 0.8, "passes": 2}),
    "ring-passes-4": ("ring_passes", {"momentum": 0.8, "passes": 2}),
    "ring-passes-2-fp16": ("ring_passes", {"momentum": 0.8, "passes": 3, "wire": "f8"}),
    "gossip-pairs": ("gossip_pairs", {"momentum": 0.8, "partners": [[1] * 99, [0] * 99, [3] * 99, [2] * 99]}),
    "gossip-pairs-odd": ("gossip_pairs", {"momentum": 0.8, "partners": [[k] * 99 for k in range(5)]}),
    "gossip-pairs-fp16": ("gossip_pairs", {"momentum": 0.8, "wire": "f8"}),
    "gossip-exponential": ("gossip_exponential", {"momentum": 0.8}),
    "gossip-exponential-odd": ("gossip_exponential", {"momentum": 0.8}),
    "leader-ring-death": ("leader_ring", {"momentum": 0.8, "dies": 2, "dies_in": 6}),
    "ps-sync": ("ps_sync", {"momentum": 0.8}),
    "ps-async": ("ps_async", {"momentum": 0.8, "times": [[1 + k] * 99 for k in range(4)]}),
    "ps-async-shards": ("ps_async", {"momentum": 0.8, "times": [[1 + k] * 99 for k in range(3)]}),
    "ps-ssp-0": ("ps_ssp", {"momentum": 0.8, "staleness": 1}),
    "ps-ssp-1": ("ps_ssp", {"momentum": 0.8, "staleness": 2}),
    "topk": ("topk", {"momentum": 0.8, "fraction": 0.3}),
    "topk-sampled": ("topk", {"momentum": 0.8, "fraction": 0.3}),
    "sign": ("sign", {"momentum": 0.8, "block": 4}),
    "int8": ("int8", {"momentum": 0.8, "block": 4}),
    "sign-hops": ("sign_hops", {"momentum": 0.8}),
    "int8-hops": ("int8_hops", {"momentum": 0.8}),
    "qsgd": ("qsgd", {"momentum": 0.8, "bits": 5}),
    "powersgd-1": ("powersgd", {"momentum": 0.8, "factors": [[1, 0, 0, 0, 0]]}),
    "muon": ("muon", {"momentum": 0.8, "sgd_momentum": 0.8, "newton_schulz": 4, "vector_factor": 1, "head_factor": 1, "weight_decay": 0.2}),
    "lookahead": ("lookahead", {"momentum": 0.8, "lookahead_every": 4, "lookahead_decay": 0.5, "lookahead_power": 1, "total_steps": 15}),
    "powersgd-2": ("powersgd", {"momentum": 0.8, "factors": [[1, 0, 0, 0, 0, 1, 0, 0]]}),
}


class JobOf:
    """What the library's job was made from."""

    def __init__(self, values):
        self.wire = {"fp16": "f2"}.get(values["codec"], "f8")
        self.__dict__.update(values)
        self.x, self.y, self.start = np.array(values["x"]), np.array(values["y"]), np.array(values["start"])
        self.batches = [[batch for epoch in epochs for batch in epoch] for epochs in self.epochs]

    def gradient(self, w, batch):
        """Of half the mean squared error; 0 of no samples."""
        x, y = self.x[batch], self.y[batch]
        return (x @ w - y) @ x / len(batch) if batch else np.zeros_like(w)


def trajectory(*case):
    made = subprocess.run([TRAJECTORY, *case], capture_output=True, text=True)
    if made.returncode != 0:
        raise AssertionError(f"trajectory {case}: {made.stderr}")
    return json.loads(made.stdout)


def difference(ours, theirs):
    """The largest relative one, of lists of lists of vectors that must be as many and as long."""
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], list):
        if len(ours) != len(theirs):
            return np.inf
        return max(difference(a, b) for a, b in zip(ours, theirs))
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    if ours.shape != theirs.shape:
        return np.inf
    return float(np.max(abs(ours - theirs), initial=0) / np.max(abs(theirs), initial=1e-300))


def compared(name, values, **changed):
    """How far a case's reference is from the library, under each heading of the reference's result."""
    result = importlib.import_module(name).reference(JobOf({**values, **changed}))
    return {what: difference(result[what], values["result"][what]) for what in result}


class ReferenceTest(unittest.TestCase):
    def test_every_case_has_a_reference_and_every_reference_a_case(self):
        self.assertEqual(sorted(trajectory()), sorted(CASES))
        files = {path.stem for path in FOLDER.glob("*.py")} - {"reference_test"}
        self.assertEqual(files, {name for name, _ in CASES.values()})

    def test_references_are_short_and_independent(self):
        for path in FOLDER.glob("*.py"):
            if path.name == "reference_test.py":
                continue
            lines = [line for line in path.read_text().splitlines() if line.strip()]
            imports = {line for line in lines if line.startswith(("import", "from"))}
            with self.subTest(path.name):
                self.assertLessEqual(len(lines), LINES)
                self.assertLessEqual(imports, {"import numpy as np", "import heapq"})

    def test_the_library_does_as_its_references(self):
        for case, (name, _) in CASES.items():
            with self.subTest(case):
                values = trajectory(case)
                result = values["result"]
                living = [steps for k, steps in enumerate(result["workers"]) if k != values["dies"]]
                self.assertGreaterEqual(min(map(len, living)), STEPS)
                self.assertEqual({"workers", "consensus"} - set(compared(name, values)), set())
                for what, off in compared(name, values).items():
                    self.assertLessEqual(off, TOLERANCE, what)

    def test_a_reference_with_another_constant_does_not_agree(self):
        for case, (name, constants) in CASES.items():
            values = trajectory(case)
            for constant, other in constants.items():
                with self.subTest(case, constant=constant):
                    self.assertNotEqual(getattr(JobOf(values), constant), other)
                    self.assertGreater(max(compared(name, values, **{constant: other}).values()), 1e3 * TOLERANCE)


if __name__ == "__main__":
    unittest.main()
