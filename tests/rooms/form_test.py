#!/usr/bin/env python3
"""The form of the code that no formatter makes: lines of at most 120 columns, files of at most 400 lines, only the program knows the
settings of a recipe, and nothing looks for words in an error's message (it has values: core/error.h)."""
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


# For people alone.
MAY_READ_WORDS = {
    "ripieno/launch/failure.cpp": "puts the rank before an error's message, unless it is there",
    "ripieno/report/summary.cpp": "cuts the JSON library's messages short",
}


def reads_words(text: str) -> list[str]:
    """Where words are looked for in what an exception says. A single character, at which a line is cut, is none."""
    kept = set(re.findall(r"(\w+) = [^;]*\bwhat\(\)", text))
    found = []
    for name in sorted(kept | {r"what\(\)\)?"}):
        found += re.findall(rf"\b{name}\.(?:find|rfind|contains|starts_with|ends_with|compare)\((?!')[^;]*;", text)
        found += re.findall(rf"\b{name} [=!]= [^;]*;", text)
    return found


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

    def test_nothing_decides_by_the_words_of_an_error(self):
        code = {name: text for name, text in self.files.items() if not name.startswith(("tests/", "examples/", "bench/"))}
        readers = [name for name, text in code.items() if reads_words(text)]
        self.assertEqual(sorted(readers), sorted(MAY_READ_WORDS))

    def test_faults_are_found(self):
        self.assertTrue(reads_words('const std::string said = error.what();\nif (said.find("lost rank") != npos) return;'))
        self.assertTrue(reads_words('if (std::string_view(error.what()).starts_with("rank")) return;'))
        self.assertFalse(reads_words("std::string all = error.what();\nall = all.substr(0, all.find('\\n'));"))
        self.assertEqual(too_long("a", "x" * 120 + "\n" + "é" * 121), ["a:2: 121 columns"])
        self.assertEqual(len(too_long("a", "\n" * 401)), 1)
        self.assertTrue(knows_settings("int f(const Settings& settings);"))
        self.assertFalse(knows_settings('// Settings\nfail("Settings", settings);'))


if __name__ == "__main__":
    sys.exit(unittest.main())
