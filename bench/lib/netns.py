"""Rate-limited links on one machine: a network namespace for each rank, joined by a bridge in one more. Each rank's veth
is limited by a token bucket (tc tbf) in both directions, as a cable to a switch is. TCP's congestion control is cubic, Linux's
default, whatever this machine prefers; Reno where it allows its namespaces no cubic. Needs root.

    with Network(ranks=3, mbit=1000) as net:
        net.namespaces, net.addresses          # by rank; the interface is called INTERFACE in each
        streams(net, bytes_each=10**6, repetitions=5)

Everything is removed when the `with` ends, however it ends; what a killed process left is removed by the next one."""

import contextlib
import ctypes
import hashlib
import os
import re
import resource
import socket
import sys
import threading
import time
from mmap import mmap
from pathlib import Path

from . import processes
from .enter import enter_namespace

PREFIX = "rpn"  # rpn<pid>-<rank>, rpn<pid>-hub
INTERFACE = "wire0"
QUEUE_S = 0.1   # of a link's queue when it is full, in seconds at its rate


def default_burst(mbit):
    """Bytes that an idle link may send at once: what it carries in 2 ms, or a late timer costs throughput; at least one
    packet of 64 KiB, or tbf cuts every one of them, which costs processor time that a network card would not."""
    return max(66000, int(mbit * 1e6 / 8 * 0.002))


def congestion_control():
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    return "cubic" if "cubic" in allowed else "reno"


class Network:
    def __init__(self, ranks, mbit, burst=None, offload=True):
        """mbit: 10^6 bits a second each way of each rank, None for no limit. offload: whether the kernel may pass packets
        of up to 64 KiB through a link; turn it off where packets are counted."""
        self.ranks, self.mbit, self.offload = ranks, mbit, offload
        self.burst = burst or (default_burst(mbit) if mbit else 0)
        names = f"{PREFIX}{os.getpid()}-"
        self.namespaces = [f"{names}{rank}" for rank in range(ranks)]
        self.hub = f"{names}hub"
        self.addresses = [f"10.77.0.{rank + 1}" for rank in range(ranks)]
        self.hub_address = "10.77.0.254"

    def __enter__(self):
        if os.geteuid() != 0:
            raise processes.Failed("links need root: network namespaces and tc")
        remove_left_over()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _make(self):
        ip("netns", "add", self.hub)
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "addr", "add", f"{self.hub_address}/24", "dev", "bridge")
        for device in ("lo", "bridge"):
            ip("-n", self.hub, "link", "set", "dev", device, "up")
        for rank, (namespace, address) in enumerate(zip(self.namespaces, self.addresses)):
            port = f"port{rank}"
            ip("netns", "add", namespace)
            ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", namespace)
            ip("-n", namespace, "addr", "add", f"{address}/24", "dev", INTERFACE)
            processes.run(["ip", "netns", "exec", namespace, "sysctl", "-qw",
                           f"net.ipv4.tcp_congestion_control={congestion_control()}"])
            for device in ("lo", INTERFACE):
                ip("-n", namespace, "link", "set", "dev", device, "up")
            ip("-n", self.hub, "link", "set", "dev", port, "master", "bridge", "up")
            for where, device in ((namespace, INTERFACE), (self.hub, port)):
                if not self.offload:
                    processes.run(["ip", "netns", "exec", where, "ethtool", "-K", device,
                                   "tso", "off", "gso", "off", "gro", "off"])
                if self.mbit:
                    limit = self.burst + int(self.mbit * 1e6 / 8 * QUEUE_S)
                    processes.run(["tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                                   f"{self.mbit}mbit", "burst", self.burst, "limit", limit])

    def _remove(self):
        for namespace in [*self.namespaces, self.hub]:
            with contextlib.suppress(processes.Failed):
                ip("netns", "del", namespace)

    def counts(self):
        """(bytes, packets) that each rank has sent into its link. With offload, a packet may be of 64 KiB."""
        found = []
        for namespace in self.namespaces:
            shown = processes.run(["tc", "-n", namespace, "-s", "qdisc", "show", "dev", INTERFACE])
            found.append(tuple(map(int, re.search(r"Sent (\d+) bytes (\d+) pkt", shown).groups())))
        return found

    @contextlib.contextmanager
    def must_carry(self, bytes_each):
        """Fails where a rank sends clearly less than this in the meantime: it found a way around its link, such as memory
        that it shares with others of this host."""
        before = self.counts()
        yield
        sent = [after[0] - start[0] for after, start in zip(self.counts(), before)]
        if min(sent) < 0.9 * bytes_each:
            raise processes.Failed(f"the links carried {sent} bytes where each rank sends {bytes_each}: not all went over them")

    def listener(self):
        """A socket that listens in the hub; every rank reaches it at hub_address."""
        return in_namespace(self.hub, lambda: socket.create_server((self.hub_address, 0)))


def ip(*arguments):
    processes.run(["ip", *arguments])


def remove_left_over():
    for line in processes.run(["ip", "netns", "list"]).splitlines():
        owned = re.match(rf"{PREFIX}(\d+)-", line)
        if owned and not Path(f"/proc/{owned.group(1)}").exists():
            with contextlib.suppress(processes.Failed):
                ip("netns", "del", line.split()[0])


def in_namespace(namespace, work):
    """work()'s value, by a thread in that namespace: sockets stay where they were made."""
    result = []

    def enter():
        enter_namespace(namespace)
        result.append(work())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if not result:
        raise processes.Failed(f"nothing can be done in the namespace {namespace}")
    return result[0]


# ---- raw streams: what the links can do

PORT = 5201
CHUNK = 1 << 20


class _Meeting:
    """A barrier of processes: each has a slot in shared memory and waits until all slots are as far as its own. It spins,
    because who sleeps refills the bucket that was drained."""

    def __init__(self, ranks):
        self.slots = (ctypes.c_uint32 * ranks).from_buffer(mmap(-1, 4096))

    def meet(self, rank, deadline):
        self.slots[rank] += 1
        here = self.slots[rank]
        while min(self.slots) < here:
            os.sched_yield()
            if time.monotonic() > deadline:
                raise TimeoutError


class _Work:
    """A process on each core that computes without pause and counts what it does. What it could not do beside a stream is what
    the stream costs: accounts of the stream's process lack the interrupts, in which a network does much of its work."""

    BLOCK = bytes(16 << 10)

    def __init__(self, cores):
        self.cores, self.pids = cores, []
        self.done = (ctypes.c_uint64 * len(cores)).from_buffer(mmap(-1, 4096))

    def __enter__(self):
        for slot, core in enumerate(self.cores):
            pid = os.fork()
            if pid == 0:
                try:
                    processes.with_parent()
                    os.sched_setaffinity(0, {core})
                    while True:
                        hashlib.sha256(self.BLOCK).digest()
                        self.done[slot] += 1
                finally:
                    os._exit(1)
            self.pids.append(pid)
        time.sleep(0.2)
        before, start = list(self.done), time.monotonic()
        time.sleep(1)
        took = time.monotonic() - start
        self.speed = [(now - then) / took for now, then in zip(self.done, before)]
        return self

    def __exit__(self, *_):
        _end(self.pids)

    def seconds(self, rank):
        """Of computing that was done on a rank's core so far, at the speed that it has alone."""
        slot = rank % len(self.cores)
        return self.done[slot] / self.speed[slot]


def _end(pids):
    for pid in pids:
        processes.kill_tree(pid)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def streams(net, bytes_each, repetitions, cores=None, timeout=300, beside_work=False):
    """Rank r sends bytes_each to rank r + 1, all at once, over connections that stay. Each timing begins within a stream
    that already flows, when twice the links' burst has come through: buckets are empty, windows open. Returns for each
    repetition {"time_s": until a rank has received all, the mean over ranks; "cpu_s": processor time of a rank in that
    time, the mean over ranks: of its process, or, with beside_work, what computing on its core lost}."""
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(_Work(cores)) if beside_work else None
        return _streams(net, bytes_each, repetitions, cores, timeout, work)


def _streams(net, bytes_each, repetitions, cores, timeout, work):
    if net.ranks < 2:
        raise ValueError("a stream needs two ranks")
    meeting = _Meeting(net.ranks)
    results = mmap(-1, 16 * repetitions * net.ranks)
    table = (ctypes.c_double * (2 * repetitions * net.ranks)).from_buffer(results)
    deadline = time.monotonic() + timeout
    pids = []
    try:
        for rank in range(net.ranks):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    processes.with_parent()
                    if cores:
                        os.sched_setaffinity(0, {cores[rank % len(cores)]})
                    own = _stream(net, rank, bytes_each, repetitions, meeting, deadline, work)
                    table[2 * repetitions * rank:2 * repetitions * (rank + 1)] = own
                    code = 0
                except BaseException as error:
                    print(f"stream of rank {rank}: {error!r}", file=sys.stderr, flush=True)
                finally:
                    os._exit(code)
            pids.append(pid)
        bad = []
        while pids and not bad:
            for pid in list(pids):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    pids.remove(pid)
                    bad += [status] if status else []
            time.sleep(0.005)
        if bad:
            raise processes.Failed("raw streams: a rank failed")
    finally:
        _end(pids)
    found = []
    for i in range(repetitions):
        times = [table[2 * (repetitions * rank + i)] for rank in range(net.ranks)]
        cpu = [table[2 * (repetitions * rank + i) + 1] for rank in range(net.ranks)]
        found.append({"time_s": sum(times) / net.ranks, "cpu_s": sum(cpu) / net.ranks})
    return found


def _stream(net, rank, bytes_each, repetitions, meeting, deadline, work):
    enter_namespace(net.namespaces[rank])
    door = socket.create_server((net.addresses[rank], PORT))
    meeting.meet(rank, deadline)
    out = socket.create_connection((net.addresses[(rank + 1) % net.ranks], PORT), timeout=30)
    into, _ = door.accept()
    for connection in (out, into):
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    drain = max(2 * net.burst, 1)
    payload, place = memoryview(bytearray(drain + bytes_each)), memoryview(bytearray(CHUNK))

    def receive(count):
        while count > 0:
            got = into.recv_into(place, min(count, CHUNK), socket.MSG_WAITALL)
            if got == 0:
                raise ConnectionError("the neighbour has gone")
            count -= got

    def cpu():
        if work:
            return time.monotonic() - work.seconds(rank)
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    figures = []
    for number in range(-1, repetitions):  # the first is not counted: TCP's windows open
        meeting.meet(rank, deadline)
        sender = threading.Thread(target=out.sendall, args=(payload,))
        sender.start()
        receive(drain)
        start, used = time.monotonic(), cpu()
        receive(bytes_each)
        took, used = time.monotonic() - start, cpu() - used
        sender.join()
        if number >= 0:
            figures += [took, used]
    meeting.meet(rank, deadline)
    return figures


if __name__ == "__main__":  # python3 -m lib.netns RANKS MBIT BYTES, in bench/: what the links do
    ranks, mbit, count = map(int, sys.argv[1:4])
    with Network(ranks, mbit) as network:
        for figure in streams(network, count, 5):
            print(f"{figure['time_s'] * 1e3:.2f} ms, {count * 8e-6 / figure['time_s']:.1f} Mb/s, "
                  f"{figure['cpu_s'] * 1e3:.2f} ms of processor time a rank")
