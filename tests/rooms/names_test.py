#!/usr/bin/env python3
"""A type's name is defined in one place: no room has one that another room has, too, and no two files of a room share one."""
import re
import sys
import unittest
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFINITION = re.compile(r"^(?:template <.*> )?(?:class|struct|enum class|union) (?:alignas\(\S+\) )?(\w+)\b(?!\s*;)(?!::)[^;]*$|^using (\w+) =")


def definitions(text: str) -> list[str]:
    """Names of the types that are defined at a file's outermost level."""
    return [found.group(1) or found.group(2) for line in text.splitlines() if (found := DEFINITION.match(line))]


def of_file(path: Path) -> str:
    """A .cpp file may give a type a short name for itself."""
    text = path.read_text()
    return text if path.suffix == ".h" else re.sub(r"(?m)^using .*$", "", text)


def twice(files: dict[str, str]) -> list[str]:
    places = defaultdict(set)
    for path, text in files.items():
        for name in definitions(text):
            places[name].add(path)
    return [f"{name}: {', '.join(sorted(paths))}" for name, paths in sorted(places.items()) if len(paths) > 1]


class Names(unittest.TestCase):
    def test_each_is_defined_once(self):
        paths = [*ROOT.glob("ripieno/**/*.h"), *ROOT.glob("ripieno/**/*.cpp"), *ROOT.glob("apps/**/*.h"), *ROOT.glob("apps/**/*.cpp")]
        files = {str(path.relative_to(ROOT)): of_file(path) for path in paths}
        self.assertGreater(len(files), 300)
        self.assertEqual(twice(files), [])

    def test_faults_are_found(self):
        self.assertEqual(definitions("struct A;\nstruct B {\n  struct Inner {\n};\nclass C final : public B {\nusing D = int;\nstruct C::E {\n"),
                         ["B", "C", "D"])
        self.assertEqual(twice({"x/a.h": "struct A {", "y/b.cpp": "enum class A : int {", "y/c.h": "struct C {"}), ["A: x/a.h, y/b.cpp"])


if __name__ == "__main__":
    sys.exit(unittest.main())
