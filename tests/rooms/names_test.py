#!/usr/bin/env python3
"""Each room has a namespace of its own, and a type's name is defined in one place: no room has one that another room has, too."""
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


NAMESPACE = re.compile(r"(?m)^namespace (\w[\w:]*) \{\n((?:.*\n)*?)^\}")
ONLY_NAMES = re.compile(r"^(class \w+;|struct \w+;|using [\w:, ]+;|namespace \w+ = [\w:]+;)?(  //.*)?$")


def namespace_of(path: str) -> str:
    room = path.split("/")[1]
    return "ripieno::program" if path.startswith("apps/") else "ripieno" if room == "core" else f"ripieno::{room}"


def strays(path: str, text: str) -> list[str]:
    """Namespaces other than the room's in which a file does more than to declare others' names, or to give its own a second place."""
    own = namespace_of(path)
    return [f"{path}: {name}, its room's is {own}" for name, body in NAMESPACE.findall(text)
            if name != own and not name.startswith(own + "::") and not all(ONLY_NAMES.match(line) for line in body.splitlines())]


class Names(unittest.TestCase):
    def test_each_file_is_in_its_rooms_namespace(self):
        files = {str(path.relative_to(ROOT)): path.read_text() for folder in ("ripieno", "apps") for path in ROOT.glob(f"{folder}/**/*.[hc]*")
                 if path.suffix in (".h", ".cpp")}
        self.assertGreater(sum(f"namespace {namespace_of(path)}" in text for path, text in files.items()), 300)
        self.assertEqual([stray for path, text in sorted(files.items()) for stray in strays(path, text)], [])

    def test_strays_are_found(self):
        room = "namespace ripieno::codec {\nint a;\n}  // namespace ripieno::codec\n"
        self.assertEqual(strays("ripieno/codec/x.h", room + "namespace ripieno {\nclass Error;\nusing codec::a;  // why\n}\n"), [])
        self.assertEqual(strays("ripieno/codec/x.h", room + "namespace ripieno {\nint b;\n}\n"),
                         ["ripieno/codec/x.h: ripieno, its room's is ripieno::codec"])
        self.assertEqual(strays("ripieno/core/x.h", "namespace ripieno::simulation {\nint b;\n}\n"), [])
        self.assertEqual(strays("apps/ripieno/x.h", room), ["apps/ripieno/x.h: ripieno::codec, its room's is ripieno::program"])

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
