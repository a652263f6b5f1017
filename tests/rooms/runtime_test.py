#!/usr/bin/env python3
"""Nothing goes around the Runtime (ripieno/core/runtime.h): threads, clocks, timers, sleeping and writing files appear in
core/, transport/ and train/ only (threads in data/ and c10d/ too, the clock in observe/ too); the environment is read in launch/ only; nothing holds global state."""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# what -> (pattern, rooms where it may stand)
RULES = {
    "a thread": (r"std::(jthread|thread\b(?!::(?:hardware_concurrency|id\b))|async)|asio::thread_pool|pthread_create", {"core", "transport", "data", "train", "c10d"}),
    "a clock": (r"(steady|system|high_resolution)_clock|clock_gettime|gettimeofday|\btime\(nullptr\)", {"core", "observe", "transport", "train"}),
    "a timer": (r"steady_timer|system_timer|timerfd", {"core", "transport"}),
    "sleeping": (r"\bsleep_for|\bsleep_until|\busleep\(|\bnanosleep\(", {"train"}),
    "writing a file": (r"ofstream|\bfopen\(|\bfwrite\(", {"core"}),
    "the environment": (r"\bgetenv\(", {"launch"}),
    "other randomness": (r"std::mt19937|random_device|\brand\(\)|std::\w+_distribution", set()),
}


def findings(name: str, room: str, content: str) -> list[str]:
    found = []
    for number, line in enumerate(content.splitlines(), 1):
        code = line.split("//")[0]
        for what, (pattern, allowed) in RULES.items():
            if re.search(pattern, code) and room not in allowed:
                found.append(f"{name}:{number}: {what}: {line.strip()}")
    return found


class AroundTheRuntime(unittest.TestCase):
    def test_nothing_goes_around_it(self):
        found, files = [], 0
        for path in sorted([*ROOT.glob("ripieno/*/**/*.h"), *ROOT.glob("ripieno/*/**/*.cpp")]):
            files += 1
            found += findings(str(path.relative_to(ROOT)), path.relative_to(ROOT).parts[1], path.read_text())
        self.assertEqual(found, [])
        self.assertGreater(files, 80)

    def test_faults_are_found(self):
        self.assertEqual(len(findings("x", "strategy", "std::thread t(f);\nstd::this_thread::sleep_for(1s);  // std::async")), 2)
        self.assertEqual(len(findings("x", "optim", 'auto s = std::getenv("HOME"); std::ofstream out(s);')), 2)
        self.assertEqual(findings("x", "core", "std::thread t; steady_clock::now();"), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
