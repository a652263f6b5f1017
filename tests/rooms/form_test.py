#!/usr/bin/env python3
"""The form of the code that no formatter makes: lines of at most 120 columns, files of at most 400 lines, and only the program knows the
settings of a recipe."""
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, LINES = 120, 400


def too_long(name: str, text: str) -> list[str]:
    lines = text.splitlines()
    found = [f"{name}:{number}: {len(line)} columns" for number, line in enumerate(lines, 1) if len(line) > COLUMNS]
    return found + ([f"{name}: {len(lines)} lines"] if len(lines) > LINES else [])


def knows_settings(text: str) -> bool:
    code = re.sub(r'//.*|"(?:\\.|[^"\\])*"', "", text)
    return re.search(r"\bSettings\b", code) is not None


class Form(unittest.TestCase):
    def setUp(self):
        names = subprocess.run(["git", "ls-files", "*.h", "*.cpp"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        self.files = {name: (ROOT / name).read_text() for name in names}
        self.assertGreater(len(self.files), 500)

    def test_nothing_is_too_long(self):
        self.assertEqual([one for name, text in self.files.items() for one in too_long(name, text)], [])

    def test_only_the_program_knows_settings(self):
        rooms = {name: text for name, text in self.files.items() if name.startswith("ripieno/")}
        self.assertEqual([name for name, text in rooms.items() if knows_settings(text)], [])

    def test_faults_are_found(self):
        self.assertEqual(too_long("a", "x" * 120 + "\n" + "é" * 121), ["a:2: 121 columns"])
        self.assertEqual(len(too_long("a", "\n" * 401)), 1)
        self.assertTrue(knows_settings("int f(const Settings& settings);"))
        self.assertFalse(knows_settings('// Settings\nfail("Settings", settings);'))


if __name__ == "__main__":
    sys.exit(unittest.main())
