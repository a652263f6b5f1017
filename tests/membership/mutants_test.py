#!/usr/bin/env python3
"""The proof of views (view_proof_test.cpp) finds mistakes in them: each of these, planted into view.cpp, gives a world that it refuses.
By default some of them; with RIPIENO_FULL all, which takes some minutes. What takes the dead's words for those of the living is not
among them: four seats and a witness must lose two and suspect one for that, which are too many worlds."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FULL = os.environ.get("RIPIENO_FULL") == "1"

# name -> (what view.cpp says, what it says instead, tests that find it)
MUTANTS = {
    "half of the voters can decide": ("return 2 * static_cast<std::size_t>(in_favour) > seats.size()",
                                      "return 2 * static_cast<std::size_t>(in_favour) >= seats.size()"),
    "silent counts as dead": ("return has(state.dead, seat) || has(voters, seat); }", "return has(state.dead, seat) || has(state.silent, seat) || has(voters, seat); }"),
    "what was voted for is ignored": ("return highest ? highest->seats : without", "return without"),
    "votes for a lower ballot than promised": ("if (message.ballot < promised) return", "if (asks && message.ballot < promised) return"),
    "promises do not tell of votes": ("if (asks) answer.voted = voted;", ""),
    "late seats get no answer": ("if (from != witness_seat) say(from, decided());", ""),
    "who does not hear a seat is not missed by it": ("has(s.silent, seat) || has(s.deaf, seat);", "has(s.silent, seat);"),
    "proposes before all that are heard have promised": ("return std::all_of(s.view.seats.begin(), s.view.seats.end(), has_promised) && can", "return can"),
    "who was deaf in the last view is so in the next": ("s.deaf.clear();", ""),
    "the dead are forgotten": ("s.deaf.clear();", "s.deaf.clear(); s.dead.clear();"),
    "does not tell of the dead": ("message.dead = s.dead;", ""),
    "views are taken one after the other only": ("return message.number <= state.view.number;\n    case ViewWord::promise",
                                                 "return message.number != state.view.number + 1;\n    case ViewWord::promise"),
    "late seats stay for ever": ("(s.is_late || !can_decide", "(!can_decide"),
    "a voter forgets its promise": ("if (message.number > number) *this", "if (message.number >= number) *this"),
}
BY_DEFAULT = ["half of the voters can decide", "the dead are forgotten"]


class Mutants(unittest.TestCase):
    def violations(self, code: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "view.cpp").write_text(code)
            flags = ["-std=c++20", "-O1", "-w", f"-I{ROOT}"]
            sources = [ROOT / "tests/membership/view_proof_test.cpp", Path(folder) / "view.cpp", ROOT / "ripieno/core/error.cpp"]
            subprocess.run(["g++", *flags, *sources, "-lgtest", "-lgtest_main", "-pthread", "-o", f"{folder}/proof"], check=True)
            environment = {key: value for key, value in os.environ.items() if key != "RIPIENO_FULL"}
            run = subprocess.run([f"{folder}/proof"], env=environment, capture_output=True, text=True, timeout=900)
        return re.findall(r'all\.violation\n    Which is: "(.+)"', run.stdout)

    def test_each_is_found(self):
        code = (ROOT / "ripieno/membership/view.cpp").read_text()
        for name, (before, after) in MUTANTS.items():
            if not FULL and name not in BY_DEFAULT:
                continue
            with self.subTest(name):
                self.assertEqual(code.count(before), 1, "the mutant does not fit the code any more")
                self.assertTrue(self.violations(code.replace(before, after)))

    def test_they_fit_the_code(self):
        code = (ROOT / "ripieno/membership/view.cpp").read_text()
        self.assertEqual([name for name, (before, _) in MUTANTS.items() if code.count(before) != 1], [])


if __name__ == "__main__":
    sys.exit(unittest.main())
