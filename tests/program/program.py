"""The program as its tests meet it: its binary, a temporary folder for each test, runs and what they leave behind.

RIPIENO_BINARY names the binary; without it, the newest of build/*/bin/ripieno is taken.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
import unittest
from subprocess import PIPE
from typing import NamedTuple

for ending in (signal.SIGINT, signal.SIGHUP):  # which a shell's background jobs were started to ignore, and would hand on
    if signal.getsignal(ending) == signal.SIG_IGN:
        signal.signal(ending, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parents[2]
WATCHDOG = 120  # seconds after which a command hangs; no test depends on how much faster it is

USAGE, DATA, IO, NETWORK, PEER = 2, 3, 4, 5, 6  # exit codes, by ErrorKind

# A run that takes a second, and whose last batches are smaller than the others.
SMALL = {
    "batch.per_worker": 64,
    "data.train_samples": 250,
    "data.test_samples": 100,
    "optimiser.momentum": 0.9,
    "learning_rate.base": 0.02,
}


def find_binary():
    if "RIPIENO_BINARY" in os.environ:
        return os.path.abspath(os.environ["RIPIENO_BINARY"])
    built = sorted(ROOT.glob("build/*/bin/ripieno"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise RuntimeError("no build/*/bin/ripieno: build the program, or set RIPIENO_BINARY")
    return str(built[-1])


BINARY = find_binary()


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Run:
    """A run's folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    @property
    def config(self):
        return tomllib.loads((self.folder / "config.toml").read_text())

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def hashes(self):
        return [rank["parameters_hash"] for rank in self.summary["ranks"]]

    def metrics(self, rank):
        return [json.loads(line) for line in (self.folder / f"metrics-{rank}.jsonl").read_text().splitlines()]


def sets(settings):
    """--set arguments."""
    arguments = []
    for key, value in settings.items():
        arguments += ["--set", f"{key}={value}"]
    return arguments


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def workers_of(launcher):
    """Their process ids, in order of rank: they are started in that order, but ids may wrap around."""

    started = []
    for pid in children(launcher.pid):
        with contextlib.suppress(OSError):  # it has ended since
            ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
            started.append((ticks, pid))
    return [pid for _, pid in sorted(started)]


class ProgramTest(unittest.TestCase):
    """Each test has a folder of its own, is run in it, and leaves no process behind."""

    variables = {}  # of the environment, for the commands that follow

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ripieno-program-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self):
        others = ("RIPIENO_", "OMPI_", "SLURM_", "PMI_", "TORCHELASTIC_", "WORLD_SIZE", "OMP_NUM_THREADS")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
        return kept | {"XDG_CACHE_HOME": str(self.folder / "cache"), "LC_ALL": "C.UTF-8"} | self.variables

    def ripieno(self, *arguments, output=PIPE):
        """Runs a command in the test's folder. Its standard output: what it wrote, a file's name, or closed (None)."""
        closed = (lambda: os.close(1)) if output is None else None
        with open(output or os.devnull, "w") if output != PIPE else contextlib.nullcontext(PIPE) as target:
            done = subprocess.run([BINARY, *map(str, arguments)], cwd=self.folder, env=self.environment(), text=True, preexec_fn=closed,
                                  stdin=subprocess.DEVNULL, stdout=target, stderr=PIPE, timeout=WATCHDOG, encoding="utf-8",
                                  errors="surrogateescape")
        return Result(done.returncode, done.stdout or "", done.stderr)

    def good(self, *arguments):
        """The same for a command that must succeed; its standard output."""
        result = self.ripieno(*arguments)
        self.assertEqual(result.code, 0, f"{arguments}: {result.err}")
        return result.out

    def routes_with_schedules(self, *operation):
        """All but MPI's own, which needs an MPI."""
        return [row for row in self.json("list", "routes", *operation) if row["name"] != "native"]

    def json(self, *arguments):
        return json.loads(self.good(*arguments, "--format", "json"))

    def runs(self):
        return sorted((self.folder / "runs").glob("[0-9]*"))

    def train(self, settings=None, *arguments):
        """A small run of these settings; arguments: further ones of the command line."""
        before = set(self.runs())
        self.good("train", *arguments, *sets(SMALL | {"run.folder": self.folder / "runs"} | (settings or {})))
        (new,) = set(self.runs()) - before
        return Run(new)

    def start(self, *arguments, program=BINARY):
        """Starts a command whose standard error is read line by line. It is ended with the test."""
        process = subprocess.Popen([program, *map(str, arguments)], cwd=self.folder, env=self.environment(), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   encoding="utf-8", start_new_session=True)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        for pid in [process.pid, *self.processes()]:
            try:
                if process.poll() is None or pid != process.pid:
                    os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait(WATCHDOG)
        process.stdout.close()
        process.stderr.close()

    def processes(self):
        """Those of the program that work in this test's folder."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                command = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
                where = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue
            if str(self.folder) in command or where.startswith(str(self.folder)):
                found.append(int(entry))
        return found

    def wait_until(self, what, condition):
        """Polls; `what` is for the failure."""
        end = time.monotonic() + WATCHDOG
        while not condition():
            if time.monotonic() > end:
                self.fail(f"{what}: not within {WATCHDOG} s")
            time.sleep(0.01)

    def assert_nobody_left(self):
        self.assertEqual(self.processes(), [], "processes are left")

    def assert_one_line(self, err, *words):
        """Standard error holds one line of the program's, which has all these words, and else progress only."""
        lines = [line for line in err.splitlines() if not is_progress(line)]
        self.assertEqual(len(lines), 1, err)
        self.assertTrue(lines[0].startswith("ripieno: "), err)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertLess(len(lines[0]), 600, err)

    def assert_no_summary(self):
        self.assertEqual(list(self.folder.rglob("summary.json")), [])


def is_progress(line):
    """ "ring: epoch 1/3, 9.00 % of the test set, 367 ms" """
    return ": epoch " in line and " of the test set, " in line
