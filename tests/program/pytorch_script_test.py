"""A script for torchrun, unchanged, under `ripieno launch`: it finds the variables that torchrun sets, and ranks meet."""

import sys
import unittest

from program import BINARY, SMALL, ProgramTest, Run, sets

SCRIPT = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "TORCHELASTIC_RESTART_COUNT")
print(int(total), *(f"{name}={os.environ[name]}" for name in names), dist.is_torchelastic_launched(), flush=True)
dist.destroy_process_group()
"""


# No rank ends before all have said what is wrong.
FAILS = """
import os, pathlib, sys, time, traceback
try:
    raise ValueError("of mine")
except ValueError:
    traceback.print_exc()
pathlib.Path("said-" + os.environ["RANK"]).touch()
while len(list(pathlib.Path().glob("said-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
sys.exit(1)
"""


class PytorchScriptTest(ProgramTest):
    def environment(self):
        """But for what other launchers would say."""
        others = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        return {key: value for key, value in super().environment().items() if key not in others} | {"GLOO_SOCKET_IFNAME": "lo"}

    def test_meets_by_gloo(self):
        (self.folder / "train.py").write_text(SCRIPT)
        self.variables = {"MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}  # of an outer job
        done = self.ripieno("launch", "-n", "2", "--", sys.executable, "train.py")
        self.assertEqual(done.code, 0, done.err)
        said = "3 RANK={0} WORLD_SIZE=2 LOCAL_RANK={0} LOCAL_WORLD_SIZE=2 GROUP_RANK=0 ROLE_RANK={0} TORCHELASTIC_RESTART_COUNT=0 True"
        self.assertEqual(done.out.splitlines(), [said.format(0)])
        self.assertIn("[rank 1] " + said.format(1), done.err.splitlines())

    def test_an_error_of_all_is_shown_once(self):
        (self.folder / "train.py").write_text(FAILS)
        done = self.ripieno("launch", "-n", "3", "--", sys.executable, "train.py")
        self.assertEqual(done.code, 1, done.err)
        self.assertEqual(done.err.count("Traceback"), 1, done.err)
        self.assertEqual(done.err.count("ValueError: of mine"), 3, done.err)  # each rank's own
        last = done.err.splitlines()[-1]
        self.assertRegex(last, "^ripieno: rank . exited with code 1$")

    def test_our_own_ranks_are_not_confused(self):
        """`ripieno train` as a rank of `ripieno launch`: what has started it is Ripieno, whatever PyTorch is told."""
        self.good("launch", "-n", "2", "--", BINARY, "train", *sets(SMALL | {"strategy": "ring"}))
        (run,) = self.runs()
        self.assertEqual(Run(run).summary["launcher"], "ripieno")


if __name__ == "__main__":
    unittest.main()
