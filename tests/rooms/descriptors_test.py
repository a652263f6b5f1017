#!/usr/bin/env python3
"""Every descriptor is closed at an exec from the moment that it is made: programs that a rank starts, or a library in it, would
else keep the connections and locks of a rank that has died."""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MEANT = {"apps/ripieno/standard_output.cpp"}  # where a closed 0, 1 or 2 becomes /dev/null

# Calls that take a flag for it, and must have it.
FLAGGED = (r"(?<![\w:])::(?:open|socket)\(|\bopen\((?=\"/|path|file|\(\")|"
           r"\b(?:openat|pipe2|memfd_create|socketpair|accept4|epoll_create1|eventfd|timerfd_create|mkostemp)\(")
# Calls, and streams, that cannot have it; Asio's own (rendezvous/sockets.h has others).
BARE = (r"\bpipe\(|(?<![\w:])::accept\(|\bdup\(|\bmkstemp\(|\bfopen\(|\bpopen\(|\bF_DUPFD\b|std::[io]?fstream|async_accept|\bsignalfd\(|\btmpfile\(|"
        r"(?:acceptor|socket|probe)\w*\.open\(")


def findings(name: str, content: str) -> list[str]:
    code = "\n".join(line.split("//")[0] for line in content.splitlines())
    found = [f"{name}: {match[0]} makes descriptors that are inherited" for match in re.finditer(BARE, code)]
    for match in re.finditer(FLAGGED, code):
        call = code[match.start():code.find(";", match.start())]
        if "CLOEXEC" not in call:
            found.append(f"{name}: without CLOEXEC: {' '.join(call.split())}")
    return found


class Descriptors(unittest.TestCase):
    def test_none_is_inherited(self):
        found, files = [], 0
        for folder in ("ripieno", "apps", "python"):
            for path in sorted([*ROOT.glob(f"{folder}/**/*.h"), *ROOT.glob(f"{folder}/**/*.cpp")]):
                files += 1
                name = str(path.relative_to(ROOT))
                found += [] if name in MEANT else findings(name, path.read_text())
        self.assertEqual(found, [])
        self.assertGreater(files, 300)

    def test_faults_are_found(self):
        for fault in ("::open(path.c_str(), O_RDONLY);", "std::ifstream in(path);", "::socket(AF_INET, SOCK_STREAM, 0);", "pipe(ends);",
                      "co_await acceptor_.async_accept(*connection, token);", "acceptor_.open(tcp::v4());", "memfd_create(\"a\", 0);",
                      "Descriptor d(open((\"/a/\" + b).c_str(),\n  O_RDONLY));", "eventfd(0, EFD_NONBLOCK);"):
            self.assertEqual(len(findings("x", fault)), 1, fault)
        for good in ("::open(path.c_str(),\n O_RDONLY | O_CLOEXEC);", "pipe2(ends, O_CLOEXEC);", "gates_.open(bucket);", "open_socket(a, b, error);",
                     "// std::ifstream", "return find(name).open(split, options);"):
            self.assertEqual(findings("x", good), [], good)


if __name__ == "__main__":
    sys.exit(unittest.main())
