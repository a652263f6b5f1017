"""Nodes on this machine: each has a network, a host name, processes, shared memory and a /tmp of its own, as a machine has, and
one link to a switch; they know each other by name. Needs root. Everything is gone when the Nodes are closed, or their process has
ended."""
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN = ("/tmp", "/run", "/dev/shm")  # of each node
# What a node's first process does: the node lives as long as it.
BECOME = f"""hostname "$0" && mount -t proc proc /proc && for f in {" ".join(OWN)}; do mount -t tmpfs tmpfs $f; done &&
printf "%s" "$1" > /run/hosts && mount --bind /run/hosts /etc/hosts && exec sleep infinity"""


def ip(*words):
    done = subprocess.run(("ip", *words), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Nodes:
    def __init__(self, count):
        """Named node0, node1, .."""
        for own in OWN:
            if ROOT.is_relative_to(own):
                raise RuntimeError(f"{ROOT} lies in {own}, of which each node has its own: put this clone into another folder")
        self.prefix, self.networks, self.holders, self.first = f"rp{os.getpid()}", [], [], []
        self.hosts = "127.0.0.1 localhost\n" + "".join(f"{self.address(i)} node{i}\n" for i in range(count))
        try:
            switch = self._network("s")
            ip("-n", switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", switch, "link", "set", "bridge", "up")
            for i in range(count):
                network = self._network(str(i))
                ip("-n", network, "link", "add", "net0", "type", "veth", "peer", "name", f"to{i}", "netns", switch)
                ip("-n", switch, "link", "set", f"to{i}", "master", "bridge", "up")
                ip("-n", network, "addr", "add", f"{self.address(i)}/24", "dev", "net0")
                ip("-n", network, "link", "set", "net0", "up")
                self._node(network, i)
        except BaseException:
            self.close()
            raise

    def _network(self, name):
        network = f"{self.prefix}{name}"
        ip("netns", "add", network)
        self.networks.append(network)
        ip("-n", network, "link", "set", "lo", "up")
        return network

    def _node(self, network, number):
        holder = subprocess.Popen(("ip", "netns", "exec", network, "unshare", "--uts", "--ipc", "--pid", "--mount", "--fork", "--kill-child",
                                   "sh", "-c", BECOME, f"node{number}", self.hosts), stderr=subprocess.DEVNULL)
        self.holders.append(holder)
        for _ in range(500):
            children = subprocess.run(("pgrep", "-P", str(holder.pid), "-f", "sleep infinity"), capture_output=True, text=True).stdout.split()
            if children or holder.poll() is not None:
                break
            time.sleep(0.01)
        if not children:
            raise RuntimeError(f"node {number} does not come up")
        self.first.append(children[0])

    @staticmethod
    def address(node):
        return f"10.77.0.{node + 1}"

    def start(self, node, command, cwd, **options):
        """A process on a node, in the folder `cwd`."""
        enter = ("nsenter", "--target", self.first[node], "--net", "--uts", "--ipc", "--pid", "--mount")
        return subprocess.Popen((*enter, "sh", "-c", 'cd "$0" && exec "$@"', cwd, *map(str, command)), **options)

    def close(self):
        for pid in self.first:  # the first process of its namespace: all others end with it
            subprocess.run(("kill", "-9", pid), capture_output=True)
        for holder in self.holders:
            holder.wait()
        for network in self.networks:
            subprocess.run(("ip", "netns", "delete", network), capture_output=True)
        self.networks, self.holders, self.first = [], [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
