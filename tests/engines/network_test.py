#!/usr/bin/env python3
"""Hosts with networks that are odd (nodes.py): two interfaces of which one leads nowhere, IPv6 alone, names that do not resolve. Ranks
train, or each says within seconds what cannot be reached, and by which interface it tried."""
import json
import subprocess
import time
import unittest

from launcher_case import ENVIRONMENT, TRAIN, LauncherCase, in_full
from nodes import Nodes, ip

HEADERS = 66  # bytes of Ethernet, IP and TCP, with TCP's time stamps
LONGEST = 50  # seconds; an error is said within 5 on a quiet machine


class OddNetworks(LauncherCase):
    def nodes(self):
        nodes = Nodes(2)
        self.addCleanup(nodes.close)
        (self.folder / "secret").touch(mode=0o600)
        (self.folder / "secret").write_text("ab" * 32)
        for node, network in enumerate(nodes.networks[1:]):  # a second interface each, which is connected to nothing
            ip("-n", network, "link", "add", "net1", "type", "veth", "peer", "name", "away1")
            ip("-n", network, "addr", "add", f"10.78.{node}.1/24", "dev", "net1")
            ip("-n", network, "-6", "addr", "add", f"fd00:77::{node + 1}/64", "dev", "net0", "nodad")
            for end in ("net1", "away1"):
                ip("-n", network, "link", "set", end, "up")
        return nodes

    def train(self, nodes, address, *words, **variables):
        """A rank on each node, by hand; how long rank 1 takes. [(exit code, what it said)]"""
        ranks = []
        for rank in range(2):
            place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": address, "MASTER_PORT": "29400",
                     "RIPIENO_TOKEN_FILE": str(self.folder / "secret")}
            ranks.append(nodes.start(rank, (*TRAIN, *words), cwd=self.folder, env=ENVIRONMENT | place | variables, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True))
        begun = time.monotonic()
        said = [ranks[1].communicate(timeout=120)[0]]
        self.took = time.monotonic() - begun
        if ranks[1].returncode:  # a launcher would end the others; by hand, rank 0 waits a minute for those that may still come
            try:
                ranks[0].wait(timeout=5)
            except subprocess.TimeoutExpired:
                subprocess.run(("pkill", "-P", str(ranks[0].pid)), check=True)
        said.insert(0, ranks[0].communicate(timeout=120)[0])
        return [(rank.returncode, what) for rank, what in zip(ranks, said)]

    def assert_trained(self, results):
        self.assertEqual([code for code, _ in results], [0, 0], results)
        self.assertEqual(self.summary()["ranks"][1]["ways"][0], "tcp (another host)")

    @in_full
    def test_an_interface_that_leads_nowhere_is_named(self):
        nodes = self.nodes()
        self.assert_trained(self.train(nodes, nodes.address(0)))  # by the one along which the address is reached
        self.assert_trained(self.train(nodes, nodes.address(0), "--set", "transport.interface=net0"))
        (code0, said0), (code1, said1) = self.train(nodes, nodes.address(0), "--set", "transport.interface=net1")
        self.assertLess(self.took, LONGEST)
        self.assertRegex(said1, r"rank 1: (cannot connect to rank 0|the rendezvous) at 10\.\d+\.0\.1:\d+(:| cannot be reached:) .*\((from 10\.\S+ by net\d|there is no way)")
        self.assertTrue(code0 and code1, (said0, said1))
        for rank, (code, said) in enumerate(self.train(nodes, nodes.address(0), "--set", "transport.interface=eth9")):
            self.assertEqual(code, 2, said)
            self.assertRegex(said, rf"^ripieno: rank {rank}: node{rank} has no interface eth9 with an address; it has lo \(127.0.0.1\), net0 \(10.77.0.\d\), net1 ")

    @in_full
    def test_an_address_without_a_way_is_named(self):
        nodes = self.nodes()
        results = self.train(nodes, "10.79.0.1")
        self.assertLess(self.took, LONGEST)
        self.assertRegex(results[1][1], r"^ripieno: rank 1: the rendezvous at 10.79.0.1:29400 cannot be reached: Network is unreachable \(there is no way: Network is "
                                        r"unreachable\)\n$")
        results = self.train(nodes, "10.77.0.99")
        self.assertLess(self.took, LONGEST)
        self.assertRegex(results[1][1], r"^ripieno: rank 1: the rendezvous at 10.77.0.99:29400 cannot be reached: (No route to host|no answer in time) "
                                        r"\(from 10.77.0.2 by net0\)\n$")

    def sent(self, nodes, node):
        """(bytes, packets) that the node's interface has sent"""
        said = subprocess.run(("ip", "-n", nodes.networks[1 + node], "-s", "-j", "link", "show", "net0"), capture_output=True, text=True, check=True)
        sent = json.loads(said.stdout)[0]["stats64"]["tx"]
        return sent["bytes"], sent["packets"]

    def test_interfaces_carry_what_the_ledger_counts(self):
        nodes = self.nodes()
        before = [self.sent(nodes, node) for node in range(2)]
        self.assert_trained(self.train(nodes, nodes.address(0), "--set", "train.epochs=4"))
        for node in range(2):
            bytes_now, packets = (now - then for now, then in zip(self.sent(nodes, node), before[node]))
            counted = self.summary()["ranks"][node]["bytes"]
            self.assertAlmostEqual((bytes_now - HEADERS * packets) / (counted["payload_sent"] + counted["framing_sent"]), 1, delta=0.02)

    def test_a_name_that_does_not_resolve_is_named(self):
        nodes = self.nodes()
        results = self.train(nodes, "nowhere")
        self.assertLess(self.took, LONGEST)
        for rank, (code, said) in enumerate(results):
            self.assertEqual(code, 5, said)
            self.assertRegex(said, rf"^ripieno: rank {rank}: the host of nowhere:29400 cannot be found: ")

    def test_without_ipv4_it_trains_by_ipv6(self):
        nodes = self.nodes()
        for node, network in enumerate(nodes.networks[1:]):
            ip("-n", network, "addr", "del", f"{nodes.address(node)}/24", "dev", "net0")
        self.assert_trained(self.train(nodes, "fd00:77::1"))
        self.assert_trained(self.train(nodes, "fd00:77::1", "--set", "transport.interface=net0"))


if __name__ == "__main__":
    unittest.main()
