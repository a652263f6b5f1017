"""What the tests of launchers share: a short training, whose weights are those of Ripieno's own launcher to the bit.
RIPIENO_FULL=1: also what CI has no time for."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

for ending in (signal.SIGINT, signal.SIGHUP):  # which a shell's background jobs were started to ignore, and would hand on
    if signal.getsignal(ending) == signal.SIG_IGN:
        signal.signal(ending, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[2]
RIPIENO = os.environ["RIPIENO_BINARY"]
TRAIN = [RIPIENO, "train", "--strategy", "ring", "--set", "model=mnist-3conv", "--set", "batch.global=64", "--set", "data.train_samples=640",
         "--set", "data.test_samples=100"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("RIPIENO_")} | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1"}

in_full = unittest.skipUnless(os.environ.get("RIPIENO_FULL") == "1", "scripts/test full runs it")


class LauncherCase(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="ripieno-launcher-", dir=Path(RIPIENO).parent)  # /tmp is each node's own
        self.addCleanup(held.cleanup)
        self.folder = Path(held.name)

    def run_all(self, *command, **environment):
        return subprocess.run([str(word) for word in command], cwd=self.folder, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=120)

    def summary(self):
        """Of the last run."""
        return json.loads(max(self.folder.glob("runs/*/summary.json")).read_text())

    def hashes(self):
        """Of the last run's weights, which all ranks share."""
        summary = self.summary()
        self.assertEqual(summary["world_size"], 4)
        return {rank["parameters_hash"] for rank in summary["ranks"]}

    def own(self):
        done = self.run_all(*TRAIN, "-n", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.hashes()

    def start_training(self, launcher, runs, train=TRAIN):
        """A job that has trained an epoch, and would train for long."""
        command = [str(word) for word in (*launcher, *train, "--set", "train.epochs=10000", "--set", f"run.folder={runs}")]
        job = subprocess.Popen(command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in job.stdout:
            if "epoch 1/" in line:
                break
        return job

    def kill_a_rank(self, launcher, runs, train=TRAIN):
        """What the job then says, which ends with an error."""
        job = self.start_training(launcher, runs, train)
        ranks = subprocess.run(("pgrep", "-f", f"^{RIPIENO} train .*{runs}"), capture_output=True, text=True).stdout.split()
        self.assertEqual(len(ranks), 4)
        os.kill(int(ranks[-1]), signal.SIGKILL)
        said, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.nothing_is_left()
        return said

    def interrupt(self, launcher, runs, train=TRAIN):
        job = self.start_training(launcher, runs, train)
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.nothing_is_left()

    def nothing_is_left(self):
        for _ in range(100):
            left = subprocess.run(("pgrep", "-f", str(self.folder)), capture_output=True, text=True).stdout.split()
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, [])
        mine = Path(f"/tmp/ripieno-{os.getuid()}")
        self.assertEqual(list(mine.iterdir()) if mine.exists() else [], [])
