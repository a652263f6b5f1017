"""Workers that are killed, a launcher that is killed or interrupted, strangers on its ports: jobs end with a reason
that names who was lost, nobody is left, and what does not belong to a job does not disturb it."""

import contextlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import threading
import unittest

from program import BINARY, IO, PEER, SMALL, WATCHDOG, ProgramTest, Run, children, free_port, sets, workers_of

LONG = SMALL | {"run.folder": "runs", "train.epochs": 100000, "data.train_samples": 128, "data.test_samples": 10,
                "batch.per_worker": 32}
SOCKET_STATE_LISTEN = "0A"  # in /proc/net/tcp


def listening_ports(pids):
    """TCP ports that these processes listen on."""
    inodes = set()
    for pid in pids:
        try:
            for descriptor in os.listdir(f"/proc/{pid}/fd"):
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
        except OSError:
            continue  # it has ended since
    ports = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == SOCKET_STATE_LISTEN and fields[9] in inodes:
            ports.add(int(fields[1].split(":")[1], 16))
    return ports


class Strangers:
    """Connect to every port of a job, again and again, and send garbage; some stay, some leave at once."""

    def __init__(self, pids):
        self.pids = pids
        self.hit = set()  # ports that took a connection
        self.sent = 0
        self.random = random.Random(7)
        self.open = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.003):
            for port in listening_ports(self.pids()):
                self.visit(port)

    def visit(self, port):
        stranger = socket.socket()
        stranger.settimeout(1)
        try:
            stranger.connect(("127.0.0.1", port))
            self.hit.add(port)
            stranger.sendall(self.random.randbytes(self.random.choice([0, 1, 7, 64, 5000])))
            self.sent += 1
        except OSError:
            pass  # put out, or the port is closed since
        self.open.append(stranger)
        if len(self.open) > 20:
            self.open.pop(0).close()

    def end(self):
        self.ended.set()
        self.thread.join(WATCHDOG)
        for stranger in self.open:
            stranger.close()


class FailureTest(ProgramTest):
    def started(self, settings=None, *arguments):
        """A long run of 2 workers after its first epoch: launcher, and the workers' process ids in order of rank."""
        launcher = self.start("train", *sets(LONG | (settings or {})), *arguments)
        first = launcher.stderr.readline()
        self.assertIn("epoch 1/", first)
        workers = workers_of(launcher)
        self.assertEqual(len(workers), 2)
        return launcher, workers

    def finish(self, launcher):
        out, err = launcher.communicate(timeout=WATCHDOG)
        return out, err

    def test_a_killed_worker(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                launcher, workers = self.started({"run.trace": "true", "run.folder": f"runs/{rank}"})
                # The epoch is told of by whichever rank ends it first.
                (own,) = self.folder.glob(f"runs/{rank}/*/trace-0.json")
                self.wait_until("rank 0 ends its epoch", lambda: "end of epoch 1" in own.read_text())
                os.kill(workers[rank], signal.SIGKILL)
                out, err = self.finish(launcher)
                self.assertEqual(launcher.returncode, PEER, err)
                self.assertEqual(out, "")
                self.assert_one_line(err, f"rank {rank} was killed by signal 9 (Killed)")
                self.assert_no_summary()
                self.assert_nobody_left()
                (trace,) = self.folder.glob(f"runs/{rank}/*/trace.json")
                marks = [(event["pid"], event["name"]) for event in json.loads(trace.read_text()) if event["ph"] == "i"]
                self.assertIn((0, "end of epoch 1"), marks)

    def test_a_killed_server(self):
        launcher, (server, _) = self.started({"strategy": "ps-sync", "workers": 1})
        os.kill(server, signal.SIGKILL)
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, PEER, err)
        self.assert_one_line(err, "rank 0 was killed by signal 9 (Killed)")
        self.assert_no_summary()
        self.assert_nobody_left()

    def test_no_descriptor_outlives_an_exec(self):
        """What a worker, or a library in it, starts would else keep the connections of a worker that has died."""
        for memory in ("on", "off"):
            with self.subTest(memory=memory):
                self.variables = {"RIPIENO_SHARED_MEMORY": memory}
                launcher, workers = self.started({"run.trace": "true", "run.sample_s": 0.01, "run.folder": f"runs/{memory}"})
                for process in (launcher.pid, *workers):
                    sockets = 0
                    for descriptor in os.listdir(f"/proc/{process}/fd"):
                        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                            target = os.readlink(f"/proc/{process}/fd/{descriptor}")
                            info = pathlib.Path(f"/proc/{process}/fdinfo/{descriptor}").read_text()
                            flags = int(re.search(r"flags:\s*(\d+)", info)[1], 8)
                            sockets += target.startswith("socket:")
                            self.assertTrue(int(descriptor) <= 2 or flags & os.O_CLOEXEC, f"{descriptor} -> {target}")
                    self.assertTrue(sockets or process == launcher.pid)
                self.end(launcher)

    def fill_disk(self, pid, size):
        """No file of this process may grow beyond so many bytes: to it, the disk is full."""
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]))

    def test_a_full_disk(self):
        """Metrics are written from a timer, too: its error is the job's."""
        launcher, workers = self.started({"run.sample_s": 0.01})
        (metrics,) = self.folder.glob("runs/*/metrics-1.jsonl")
        self.fill_disk(workers[1], metrics.stat().st_size)
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, IO, err)
        self.assert_one_line(err, "rank 1: ", "metrics-1.jsonl: cannot write")
        self.assert_no_summary()
        self.assert_nobody_left()

    def test_ranks_that_end_with_states_of_different_epochs(self):
        """The job goes on from what all of them have."""
        launcher, workers = self.started({"run.checkpoint_every": 1, "run.sample_s": 0})
        (folder,) = self.folder.glob("runs/*")
        self.wait_until("all ranks save", lambda: all(list(folder.glob(f"state-{rank}.*pt")) for rank in (0, 1)))
        self.fill_disk(workers[1], 1 << 20)  # more than its metrics take, less than its state
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, IO, err)
        self.assert_one_line(err, "rank 1: ", "state-1", "cannot write")
        parts = [path.name for path in folder.iterdir() if path.name.startswith("state-") and path.suffix != ".pt"]
        self.assertEqual(parts, [], "half a file is left")
        done = sum(json.loads(line)["type"] == "epoch" for line in (folder / "metrics-0.jsonl").read_text().splitlines())
        self.good("train", "--resume", folder, "--set", f"train.epochs={done + 2}", "--set", "run.checkpoint_every=1")
        (resumed,) = set(self.folder.glob("runs/*")) - {folder}
        start = Run(resumed).metrics(0)[0]
        self.assertGreaterEqual(start["first_epoch"], 1)
        self.assertLessEqual(start["first_epoch"], done + 1)
        self.assertEqual(sorted(path.name for path in resumed.glob("state-*")), ["state-0.pt", "state-1.pt"])

    def test_a_program_that_is_replaced_while_it_runs(self):
        own = self.folder / "ripieno"
        shutil.copy(BINARY, own)
        (self.folder / "grid.toml").write_text('[grid]\nstrategy = ["ring", "fedavg"]\n')
        launcher = self.start("compare", "grid.toml", *sets(SMALL | {"workers": 1}), program=own)
        self.assertIn("epoch 1/", launcher.stderr.readline())
        own.unlink()
        own.write_text("another version")
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertEqual(len(self.runs()), 2)

    def test_a_killed_launcher(self):
        launcher, _ = self.started()
        launcher.kill()
        launcher.wait(WATCHDOG)
        self.wait_until("workers end after their launcher", lambda: not self.processes())
        self.assert_no_summary()

    def test_an_interrupted_launcher(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(number.name):
                launcher, _ = self.started()
                launcher.send_signal(number)
                out, err = self.finish(launcher)
                self.assertEqual(launcher.returncode, code, err)
                self.assertEqual(out, "")
                self.assertIn(f"ripieno: interrupted by signal {int(number)}", err)  # interrupt_test.py has the rest
                self.assert_no_summary()
                self.assert_nobody_left()

    def test_an_interrupted_group(self):
        """Ctrl-C at a terminal reaches the launcher and whoever is in its process group."""
        launcher, _ = self.started()
        os.killpg(launcher.pid, signal.SIGINT)
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, 130, err)
        *_, told, command = err.splitlines()
        self.assertIn("interrupted by signal 2 (Interrupt); saved after", told)
        self.assertTrue(command.startswith("ripieno train --resume runs/"), command)
        self.assert_nobody_left()

    def test_a_worker_that_hangs_is_named_by_those_that_wait(self):
        """Workers wait for the server, whose watchdog is not the first; the server waits for the worker that hangs."""
        launcher = self.start("train", *sets(LONG | {"strategy": "ps-sync", "workers": 3, "transport.timeout_s": 15, "run.sample_s": 0.5}))
        self.assertIn("epoch 1/", launcher.stderr.readline())
        os.kill(workers_of(launcher)[1], signal.SIGSTOP)
        line = next(line for line in launcher.stderr if "epoch" not in line)
        self.assertRegex(line, r"^ps-sync: waiting for rank 1 for \d+ s$")
        self.assertRegex(self.good("watch"), r"epoch \d+/100000  waiting for rank 1 for \d+ s")
        _, err = self.finish(launcher)
        self.assertEqual(launcher.returncode, PEER, err)
        self.assert_one_line(err, "gave up on rank 1 after 15 s of", "1 does not answer")
        self.assert_nobody_left()

    def test_strangers_do_not_disturb_a_run(self):
        settings = {"strategy": "ring", "workers": 3, "train.epochs": 3}
        undisturbed = self.train(settings)
        port = free_port()
        launcher = self.start("train", *sets(SMALL | {"run.folder": "disturbed"} | settings |
                                             {"transport.listen": f"127.0.0.1:{port}"}))
        strangers = Strangers(lambda: [launcher.pid, *children(launcher.pid)])
        try:
            out, err = self.finish(launcher)
        finally:
            strangers.end()
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn(port, strangers.hit, "nobody came to the rendezvous")
        self.assertGreater(strangers.sent, 0)
        (folder,) = (self.folder / "disturbed").iterdir()
        disturbed = Run(folder)
        self.assertEqual(disturbed.hashes, undisturbed.hashes)
        self.assertEqual(disturbed.summary["bytes"]["payload_sent"], undisturbed.summary["bytes"]["payload_sent"])
        self.assert_nobody_left()


class LaunchTest(ProgramTest):
    """`ripieno launch`: any program as the workers."""

    def test_ranks_and_output(self):
        threads = max(1, len(os.sched_getaffinity(0)) // 3)  # of each, so that all have their part of the cores
        script = 'echo "out $RIPIENO_RANK of $RIPIENO_WORLD_SIZE with $OMP_NUM_THREADS"'
        for threads, variables in ((threads, {}), (7, {"OMP_NUM_THREADS": "7"})):
            self.variables = variables
            result = self.ripieno("launch", "-n", "3", "--", "sh", "-c", script)
            self.assertEqual(result.code, 0, result.err)
            self.assertEqual(result.out, f"out 0 of 3 with {threads}\n")  # rank 0 shares the launcher's standard output
            self.assertEqual(sorted(result.err.splitlines()),
                             [f"[rank {rank}] out {rank} of 3 with {threads}" for rank in (1, 2)])

    def test_a_program_that_fails(self):
        result = self.ripieno("launch", "-n", "2", "--", "sh", "-c", '[ "$RIPIENO_RANK" = 1 ] && exit 42; sleep 600')
        self.assertEqual(result.code, 42, result.err)
        self.assert_one_line(result.err, "rank 1 exited with code 42")
        self.assert_nobody_left()

    def test_a_program_that_is_missing(self):
        result = self.ripieno("launch", "-n", "2", "--", "./missing")
        self.assertNotEqual(result.code, 0)
        self.assert_one_line(result.err, "./missing", "No such file")


if __name__ == "__main__":
    unittest.main()
