#!/usr/bin/env python3
"""Holds the includes against the table of rooms in ripieno/CMakeLists.txt: a room includes only itself and the rooms that
it uses, directly or through those; what the folders in a room share does not include them. LibTorch is seen by the rooms
marked TORCH only, TOML by apps/ only."""
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"transports"}  # files of a room that name the folders in it


def rooms(cmake: str) -> dict[str, tuple[set[str], bool]]:
    """name -> (rooms it may include, whether it may include LibTorch)"""
    direct = {}
    for name, rest in re.findall(r"ripieno_room\((\w+)([^)]*)\)", cmake):
        uses = re.search(r"USES((?: \w+)*?)(?: LINK| TORCH|$)", rest.strip() + " ".rstrip())
        used = set(uses.group(1).split()) if uses else set()
        before, torch = direct.get(name, (set(), False))  # a room may have a row for each way to build it
        direct[name] = (before | used, torch or "TORCH" in rest)
    allowed = {}
    for name, (uses, torch) in direct.items():
        reach, todo = {name}, list(uses)
        while todo:
            room = todo.pop()
            if room not in reach:
                reach.add(room)
                todo += direct[room][0]
        allowed[name] = (reach, torch)
    return allowed


def violations(root: Path) -> list[str]:
    table = rooms((root / "ripieno/CMakeLists.txt").read_text())
    found = []
    for path in sorted([*root.glob("ripieno/*/**/*.h"), *root.glob("ripieno/*/**/*.cpp")]):
        room_of_path = path.relative_to(root / "ripieno").parts[0]
        reach, torch = table[room_of_path]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
            if not include:
                continue
            name = include.group(1)
            where = f"{path.relative_to(root)}:{number}: includes {name}"
            room = re.match(r"ripieno/(\w+)/", name)
            if room and room.group(1) not in reach:
                found.append(f"{where}; {room_of_path}/ may use {', '.join(sorted(reach))}")
            folder = re.match(r"(ripieno/\w+)/\w+/", name)
            if folder and path.parent == root / folder.group(1) and path.stem not in TABLES:
                found.append(f"{where}; what all folders of {room_of_path}/ share knows none of them")
            if name.startswith("apps/"):
                found.append(f"{where}; rooms do not know the program")
            if re.match(r"(torch|ATen|c10|caffe2)/", name) and not torch:
                found.append(f"{where}; {room_of_path}/ does without LibTorch")
            if name.startswith("toml"):
                found.append(f"{where}; only apps/ knows TOML")
    return found


class Includes(unittest.TestCase):
    def test_every_folder_is_a_room(self):
        table = rooms((ROOT / "ripieno/CMakeLists.txt").read_text())
        folders = {p.name for p in ROOT.glob("ripieno/*") if p.is_dir()}
        self.assertEqual(folders - set(table), set())
        self.assertGreater(len(table), 10)

    def test_the_tree_holds(self):
        self.assertEqual(violations(ROOT), [])

    def test_faults_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "ripieno/core").mkdir(parents=True)
            (root / "ripieno/data").mkdir()
            (root / "ripieno/CMakeLists.txt").write_text("ripieno_room(core)\nripieno_room(data USES core LINK ZLIB::ZLIB)\n")
            (root / "ripieno/data/a.h").write_text('#include "ripieno/core/error.h"\n')
            self.assertEqual(violations(root), [])
            (root / "ripieno/core/b.cpp").write_text('#include "ripieno/data/a.h"\n#include <torch/torch.h>\n')
            self.assertEqual(len(violations(root)), 2)
            (root / "ripieno/core/deep").mkdir()
            (root / "ripieno/core/deep/c.h").write_text('#include "ripieno/data/a.h"\n#include "ripieno/core/b.h"\n')
            (root / "ripieno/core/b.h").write_text('#include "ripieno/core/deep/c.h"\n')
            self.assertEqual(len(violations(root)), 4)


if __name__ == "__main__":
    sys.exit(unittest.main())
