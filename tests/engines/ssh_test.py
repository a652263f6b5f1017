#!/usr/bin/env python3
"""`ripieno train --hosts` and `ripieno launch --hosts` through real sshds, a host each (ssh_hosts.py)."""
import json
import os
import signal
import subprocess
import time
import unittest

from launcher_case import ENVIRONMENT, RIPIENO, TRAIN, LauncherCase, in_full
from ssh_hosts import SshHosts


class Ssh(LauncherCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = SshHosts(3)
        cls.addClassCleanup(cls.hosts.close)

    def start_there(self, *command, cwd=None, **environment):
        """A command of the user's, on node0."""
        return self.hosts.start(0, command, cwd=cwd or self.folder, env=ENVIRONMENT | self.hosts.environment | environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def at_hosts(self, *command, **options):
        """(exit code, standard output, standard error)"""
        process = self.start_there(*command, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def start_training(self, *options, train=TRAIN, epochs=10000):
        """A job that has trained an epoch, and would train for long."""
        job = self.start_there(*train, "--hosts", "node1:2,node2:2", "--set", f"train.epochs={epochs}", "--set", f"run.folder={self.folder}/runs", *options)
        for line in job.stderr:
            if "epoch 1/" in line:
                break
        return job

    def ranks(self, host):
        """The workers' ids, as this test sees them."""
        mine = subprocess.run(("pgrep", "-f", f"^{RIPIENO} train .*{self.folder}"), capture_output=True, text=True).stdout.split()
        namespace = os.readlink(f"/proc/{self.hosts.first[host]}/ns/net")
        return [pid for pid in mine if os.readlink(f"/proc/{pid}/ns/net") == namespace]

    def test_it_trains_as_on_one_host(self):
        own = self.own()
        code, out, err = self.at_hosts(*TRAIN, "--hosts", "node1:2,node2:2")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.hashes(), own)
        self.assertRegex(out, r"ring +4 ")
        self.assertRegex(err, r"^ring: epoch 1/1, .*\n$", "the launcher alone shows the progress")
        self.assertEqual([rank["host"] for rank in self.summary()["ranks"]], ["node1", "node1", "node2", "node2"])
        ways = self.summary()["ranks"][0]["ways"]
        self.assertEqual((ways[1], ways[2][:3], ways[3][:3]), ("shared memory", "tcp", "tcp"))
        self.assertRegex(self.run_all(RIPIENO, "report", "runs", "--format", "md").stdout, r"\| 0002-ring-n4 +\| 2 on node1, 2 on node2 ")
        self.nothing_is_left()

    def test_the_recipe_chooses_the_interface_on_every_host(self):
        code, _, err = self.at_hosts(*TRAIN, "--hosts", "node1:1,node2:1", "--set", "transport.interface=net0")
        self.assertEqual(code, 0, err)
        self.nothing_is_left()

    def test_a_host_file_and_this_host(self):
        own = self.own()
        (self.folder / "hosts").write_text("# ours\nnode0 slots=2\nnode2:3\n")
        code, _, err = self.at_hosts(*TRAIN, "--hostfile", "hosts", "-n", "4", RIPIENO_RANK="0", RIPIENO_WORLD_SIZE="1")  # a job of its own
        self.assertEqual(code, 0, err)
        self.assertEqual(self.hashes(), own)

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        job = self.start_training()
        self.assertEqual((len(self.ranks(1)), len(self.ranks(2))), (2, 2))
        os.kill(int(self.ranks(2)[0]), signal.SIGKILL)
        _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 6, err)
        self.assertRegex(err, r"ripieno: node2: rank \d was killed by signal 9")
        self.assertEqual(err.count("ripieno:"), 1)
        self.nothing_is_left()

    def test_a_lost_host_ends_the_job_and_is_named(self):
        job = self.start_training()
        sshd = subprocess.run(("pgrep", "-f", f"ssh .* node2 exec '?{RIPIENO}"), capture_output=True, text=True).stdout.split()
        os.kill(int(sshd[0]), signal.SIGKILL)  # the connection breaks
        _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 6, err)
        self.assertRegex(err, r"ripieno: node2: the connection to it has ended")
        self.nothing_is_left()

    def test_with_leader_ring_the_others_go_on_without_a_rank_and_without_a_host(self):
        train = [word.replace("ring", "leader-ring") if word == "ring" else word for word in TRAIN]
        job = self.start_training(train=train, epochs=60)
        os.kill(int(self.ranks(1)[1]), signal.SIGKILL)  # not rank 0, which was started first
        for line in job.stderr:
            if "3 of 4 ranks go on" in line:
                break
        ssh, = subprocess.run(("pgrep", "-f", f"ssh .* node2 exec '?{RIPIENO}"), capture_output=True, text=True).stdout.split()[:1]
        os.kill(int(ssh), signal.SIGKILL)  # the connection breaks
        _, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, err)
        self.assertRegex(err, r"node2: the connection to it has ended.*; the other ranks go on\n")
        self.assertIn("1 of 4 ranks go on\n", err)
        self.assertEqual([rank["rank"] for rank in self.summary()["ranks"]], [0])
        self.assertEqual(self.summary()["epochs"], 60)
        self.nothing_is_left()

    @in_full
    def test_a_host_that_falls_silent_ends_the_job_within_two_minutes(self):
        """As if it had no power: nobody closes a connection."""
        job = self.start_training("--set", "transport.timeout_s=1800")
        network = self.hosts.networks[3]  # the first is the switch
        subprocess.run(("ip", "-n", network, "link", "set", "net0", "down"), check=True)
        self.addCleanup(subprocess.run, ("ip", "-n", network, "link", "set", "net0", "up"))
        began = time.monotonic()
        _, err = job.communicate(timeout=600)
        self.assertEqual(job.returncode, 6, err)
        self.assertRegex(err, r"ripieno: .*(rank \d|node2)")
        self.assertLess(time.monotonic() - began, 10 * 120)
        deadline = time.monotonic() + 300
        while self.ranks(2) and time.monotonic() < deadline:
            time.sleep(1)
        self.assertEqual(self.ranks(2), [], "the silent host's own workers end, too")

    @in_full
    def test_a_launcher_without_a_network_ends_all_ranks(self):
        """Nobody closes a connection, and the ranks can still exchange."""
        job = self.start_training("--set", "transport.timeout_s=1800")
        self.cut_off_node_0(lambda: self.ranks(1) + self.ranks(2))
        _, err = job.communicate(timeout=600)
        self.assertEqual(job.returncode, 6, err)
        self.nothing_is_left()

    @in_full
    def test_a_launcher_without_a_network_ends_workers_that_print(self):
        """Nobody reads what they print, so that whoever passes it on waits."""
        program = self.folder / "prints.py"
        program.write_text("import os, time\nwhile True: print('x' * 1000) if os.environ['RANK'] == '1' else time.sleep(1)\n")
        job = self.start_there(RIPIENO, "launch", "--hosts", "node1,node2", "--", "python3", program)
        self.assertIn("xxx", job.stderr.readline())
        printing = lambda: subprocess.run(("pgrep", "-f", rf"^\S*python3\S* {program}$"), capture_output=True, text=True).stdout.split()
        self.assertEqual(len(printing()), 2)
        self.cut_off_node_0(printing)
        job.communicate(timeout=600)
        self.nothing_is_left()

    def cut_off_node_0(self, left):
        network = self.hosts.networks[1]  # of node 0; the first is the switch
        subprocess.run(("ip", "-n", network, "link", "set", "net0", "down"), check=True)
        self.addCleanup(subprocess.run, ("ip", "-n", network, "link", "set", "net0", "up"))
        deadline = time.monotonic() + 10 * 60
        while left() and time.monotonic() < deadline:
            time.sleep(1)
        self.assertEqual(left(), [])

    def with_login(self, prefix):
        """ssh to hosts whose login scripts begin so."""
        script = self.folder / "my ssh"
        script.write_text("#!/usr/bin/env python3\nimport os, shlex, sys\n"
                          f"os.execvp('ssh', [*shlex.split({self.hosts.environment['RIPIENO_SSH']!r}), *sys.argv[1:-1], {prefix!r} + sys.argv[-1]])\n")
        script.chmod(0o755)
        return {"RIPIENO_SSH": f"'{script}'"}

    def test_a_launcher_that_hosts_cannot_reach_is_named_within_seconds(self):
        begun = time.monotonic()
        behind = self.with_login("export SSH_CONNECTION='10.77.0.2 9 10.77.0.3 22'; ")
        code, _, err = self.at_hosts(*TRAIN, "--hosts", "node1:1,node2:1", **behind)
        self.assertEqual(code, 5, err)
        self.assertRegex(err, r"^ripieno: node\d: cannot reach the launcher at 10.77.0.2:\d+: Connection refused \(from \S+ by \S+\). That is where ssh came from: "
                              r".*jump host")
        self.assertLess(time.monotonic() - begun, 50)
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1", "--", "echo", "done", **behind)  # which needs no way back
        self.assertEqual((code, out), (0, "done\n"), err)
        self.assertRegex(err, r"^\[rank 0\] cannot reach the launcher at 10.77.0.2:\d+: .* Its workers go on where the launcher's host is lost\n$")
        self.nothing_is_left()

    def test_login_scripts_that_print_or_end(self):
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1", "--", "echo", "done", **self.with_login("printf 'a title'; "))
        self.assertEqual((code, out), (0, "done\n"), err)
        self.assertEqual(err, "[node1] a title\n")
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1", "--", "echo", "done", **self.with_login("exit 0; "))
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, "ripieno: node1: ssh has ended with code 0 and no agent has come: does a login script there (.bashrc, .profile) wait, exit or "
                              "start another shell?\n")

    def test_what_a_worker_prints_comes_as_it_was(self):
        for what in ('b"x" * 1048564 + b"\\n"', 'b"\\x01" * 200000', 'bytes(range(256)) * 5000', 'b"no end"', 'b""', '"Grüße\\n".encode()'):
            with self.subTest(what):
                job = self.hosts.start(0, (RIPIENO, "launch", "--hosts", "node1", "--", "python3", "-c", f"import sys; sys.stdout.buffer.write({what})"),
                                       cwd=self.folder, env=ENVIRONMENT | self.hosts.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                out, err = job.communicate(timeout=120)
                self.assertEqual((job.returncode, err), (0, b""))
                self.assertTrue(out == eval(what), f"{len(out)} bytes")
        long = 'b"y" * 3000000 + b"\\n"'  # of another rank: a line with its number
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1,node2", "--", "python3", "-c",
                                       f"import os, sys; os.environ['RANK'] == '1' and sys.stdout.buffer.write({long})")
        self.assertEqual((code, out), (0, ""))
        self.assertTrue(err == "[rank 1] " + "y" * 3000000 + "\n", err[:100])

    def test_a_folder_that_shells_would_change(self):
        folder = self.folder / "it's a\\n!%41 fo\nlder"
        folder.mkdir()
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1", "--", "pwd", cwd=folder)
        self.assertEqual((code, out), (0, f"{folder}\n"), err)

    def test_ctrl_c_leaves_nothing(self):
        job = self.start_training()
        user, = subprocess.run(("pgrep", "-f", f"^{RIPIENO} train .*--hosts .*{self.folder}"), capture_output=True, text=True).stdout.split()
        os.kill(int(user), signal.SIGINT)
        _, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, err)
        self.assertRegex(err, r"interrupted by signal 2")
        self.nothing_is_left()

    def part(self, host):
        """From now on the host has another file system in this test's folder."""
        self.assertEqual(self.hosts.start(host, ("mount", "-t", "tmpfs", "tmpfs", self.folder), cwd="/").wait(), 0)
        self.addCleanup(lambda: self.hosts.start(host, ("umount", "--lazy", self.folder), cwd="/").wait())

    def test_hosts_that_share_no_folder_send_rank_0_their_part_of_the_run(self):
        own = self.own()
        self.part(2)
        code, _, err = self.at_hosts(*TRAIN, "--hosts", "node1:2,node2:2", "--set", "run.trace=true")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.hashes(), own)
        run = max(self.folder.glob("runs/*"))
        self.assertEqual(len(list(run.glob("metrics-*.jsonl"))), 4)
        self.assertEqual(len(list(run.glob("state-*.pt"))), 4)
        self.assertEqual({event.get("pid") for event in json.loads((run / "trace.json").read_text())} - {None}, {0, 1, 2, 3})
        self.assertEqual(list(run.glob("shared-*")), [])
        resumed = self.run_all(RIPIENO, "train", "--resume", run, "--set", "train.epochs=2")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        left = self.hosts.start(2, ("sh", "-c", 'ls -d /tmp/ripieno-run-* "$0"/*', self.folder), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertEqual(left.communicate()[0], b"", "nothing is left there")
        code, _, err = self.at_hosts(RIPIENO, "train", "--resume", run, "--set", "train.epochs=2", "--hosts", "node1:2,node2:2")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, rf"^ripieno: node2: rank \d: .*{run}")

    @in_full
    def test_what_a_host_lacks_is_named_before_training(self):
        moved = self.folder / "here"
        moved.mkdir()
        self.part(2)
        begun = time.monotonic()
        for words, options, code, said in (
                (("--hosts", "nowhere:2,node1"), {}, 5, r"nowhere: cannot be reached: ssh: Could not resolve hostname"),
                (("--hosts", "10.77.0.99,node1"), {}, 5, r"10.77.0.99: cannot be reached: ssh: .*(No route to host|timed out)"),
                (("--hosts", "node1,node2"), {"cwd": moved}, 2, r"node2: there is no folder .*/here on node2"),
                (("--hosts", "node1,node2", "--set", "data.name=mnist", "--set", "data.folder=/nowhere"), {}, 3, r"node\d: rank \d: mnist: there is no "),
                (("--hosts", "node1:x"), {}, 2, r"--hosts: 'x' workers: a host has 1 to"),
                (("--hosts", "node1", "-n", "2"), {}, 2, r"-n 2 asks for more workers than the hosts have, which is 1"),
                (("--hosts", "node1,node1"), {}, 2, r"--hosts: node1 is named twice")):
            with self.subTest(said):
                result, _, err = self.at_hosts(*TRAIN, *words, **options)
                self.assertEqual(result, code, err)
                self.assertRegex(err, rf"^ripieno: {said}.*\n$")
        self.assertLess(time.monotonic() - begun, 7 * 50)
        self.nothing_is_left()

    def test_launch_starts_own_programs_and_passes_their_exit_code_on(self):
        code, out, err = self.at_hosts(RIPIENO, "launch", "--hosts", "node1,node2", "--", "sh", "-c",
                                       "echo $RIPIENO_RANK of $RIPIENO_WORLD_SIZE on $(hostname); touch said-$RIPIENO_RANK; "
                                       "until [ -e said-0 ] && [ -e said-1 ]; do sleep 0.1; done; [ $RIPIENO_RANK = 0 ] || exit 9")
        self.assertEqual(code, 9, err)
        self.assertEqual(out, "0 of 2 on node1\n")
        self.assertIn("[rank 1] 1 of 2 on node2\n", err)
        self.assertIn("ripieno: node2: rank 1 exited with code 9", err)


if __name__ == "__main__":
    unittest.main()
