#!/usr/bin/env python3
"""docs/strategies.md says what the source's tables say: every strategy, route, codec and refusal is there as it stands
in registry.cpp, routes.cpp, codec.cpp and refusals.cpp, and every recipe key that it names exists.
With --write, rewrites the page's table of refusals from the source."""
import itertools
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/strategies.md"
MARKERS = ("<!-- refusals -->", "<!-- /refusals -->")
FILES = (".h", ".cpp", ".py", ".md", ".toml", ".json", ".jsonl", ".pt")


def source(path: str) -> str:
    return (ROOT / path).read_text()


# ---- C++ tables, as far as they are tables

def arguments(code: str) -> list[str]:
    """`"a, b", c, f({1, 2})` -> ['a, b', 'c', 'f({1, 2})']: split at the top level's commas, adjacent strings joined"""
    parts, depth, part = [], 0, ""
    for token in re.findall(r'"(?:\\.|[^"\\])*"|[^"]', code):
        if token == "," and depth == 0:
            parts.append(part)
            part = ""
            continue
        depth += (token in "({[") - (token in ")}]") if len(token) == 1 else 0
        part += token
    parts.append(part)
    strings = [re.findall(r'"((?:\\.|[^"\\])*)"', p) for p in parts]
    whole = [re.fullmatch(r'\s*(?:"(?:\\.|[^"\\])*"\s*)+', p) for p in parts]
    return [re.sub(r"\\(.)", r"\1", "".join(s)) if w else p.strip() for p, s, w in zip(parts, strings, whole)]


def body(code: str, at: int) -> str:
    """What is between the bracket at `at` and its own closing one."""
    depth = 0
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[({\[)}\]]', code[at:]):
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(token.group(), 0)
        if depth == 0:
            return code[at + 1:at + token.start()]
    raise ValueError("a bracket is not closed")


def table(code: str) -> str:
    code = re.sub(r"^\s*//.*$", "", code, flags=re.M)
    return body(code, code.index("{", code.index("constexpr std::array ")))


def entries(code: str, name: str) -> list[list[str]]:
    """The arguments of every NAME{..} or NAME(..) in a table."""
    return [arguments(body(code, m.end() - 1)) for m in re.finditer(rf"(?<![\w:]){name}[({{]", code)]


def strategies(code: str) -> list[dict]:
    fields = ("name", "title", "what", "when", "route", "exact", "agrees")
    rows = [(code.index(f'"{row[0]}"'), row) for row in entries(table(code), "StrategyInfo")]
    for helper in re.finditer(r"constexpr StrategyInfo (\w+)\(([^)]*)\) \{\s*return (?=\{)", code):
        names = [parameter.split()[-1] for parameter in helper.group(2).split(",")]
        form = arguments(body(code, helper.end()))
        for given in entries(table(code), helper.group(1)):
            values = dict(zip(names, given))
            rows.append((code.index(f'"{given[0]}"'), [values.get(field, field) for field in form]))
    flags = {"exact": "yes", "!exact": "no", "agrees": "yes", "!agrees": "no"}
    return [dict(zip(fields, row[:5] + [flags[row[5]], flags[row[6]]])) for _, row in sorted(rows)]


def routes(code: str) -> list[dict]:
    return [dict(zip(("name", "title", "rounds", "bytes"), row)) for row in entries(table(code), "Route")]


def other_routes(code: str) -> list[list[str]]:
    """Collective, name, rounds and bytes of the routes that are not all-reduces'."""
    rows = []
    for part in re.findall(r"constexpr std::array \w+\{.*?\n\};", code, re.S):
        collective = re.search(r"Collective::(\w+)", part)
        if collective and collective[1] != "all_reduce":
            rows += [[collective[1].replace("_", "-"), row[0], row[2], row[3]] for row in entries(part, "Route")]
    return rows


def codecs(code: str) -> list[dict]:
    kinds = dict(re.findall(r"(as_\w+) = CodecKind::(\w+)", code))
    rows = [arguments(row[0].strip()[1:-1]) for row in entries(table(code), "Entry")]
    return [{"name": row[0], "kind": kinds.get(row[2], row[2].split("::")[-1]).replace("_", "-"),
             "lossless": {"true": "yes", "false": "no"}[row[3]], "bytes": row[4]} for row in rows]


def refusals(code: str) -> list[list[str]]:
    return [row[:3] for row in entries(table(code), "Refusal")]


def settings(code: str) -> set[str]:
    return set(re.findall(r'\b(?:flag|whole|number|list|word|folder|choice|kib|converted|duration)\(\s*"([^"]+)"', code))


# ---- the page

def without_code(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows_after(page: str, header: str) -> list[list[str]]:
    """The rows of the table whose header line begins so."""
    lines = page[page.index(header):].splitlines()[2:]
    return [cells(line) for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]


def plain(cell: str) -> str:
    """[`ring`](#ring) -> ring"""
    return re.sub(r"^\[?`([^`]+)`.*$", r"\1", cell)


def sections(page: str) -> dict[str, tuple[str, str]]:
    """(heading of the second level, name in a heading of the third below it) -> (the text below this heading, the text
    between the two)"""
    found = {}
    for family in re.split(r"^## ", page, flags=re.M)[1:]:
        parts = re.split(r"^### (.*)$", family, flags=re.M)
        for heading, content in zip(parts[1::2], parts[2::2]):
            for name in re.findall(r"`([^`]+)`", heading):
                found[(parts[0].split("\n")[0], name)] = (content, parts[0])
    return found


def section_of(page: str, name: str, codec: bool = False) -> tuple[str, str] | None:
    return next((text for (family, known), text in sections(page).items()
                 if known == name and (family == "Codecs") == codec), None)


def printed(rows: list[list[str]]) -> str:
    lines = ["| what | reason | instead |", "|---|---|---|"]
    return "\n".join(lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows])


def with_refusals(page: str, rows: list[list[str]]) -> str:
    begin, end = page.index(MARKERS[0]) + len(MARKERS[0]), page.index(MARKERS[1])
    return page[:begin] + "\n" + printed(rows) + "\n" + page[end:]


def unknown_keys(page: str, known: set[str]) -> set[str]:
    named = re.findall(r"`([a-z_]+\.[a-z0-9_]+)(?:\s*=[^`]*)?`", without_code(page))
    return {key for key in named if not key.endswith(FILES)} - known


class Page(unittest.TestCase):
    page = PAGE.read_text()

    def test_every_strategy_has_its_row(self):
        rows = [[plain(row[0]), *row[1:6]] for row in rows_after(self.page, "| strategy | what |")]
        known = [[s["name"], s["what"], s["when"], s["route"], s["exact"], s["agrees"]]
                 for s in strategies(source("ripieno/strategy/registry.cpp"))]
        self.assertGreater(len(known), 20)
        self.assertEqual(sorted(rows), sorted(known))

    def test_every_strategy_has_its_section(self):
        for strategy in strategies(source("ripieno/strategy/registry.cpp")):
            with self.subTest(strategy["name"]):
                section = section_of(self.page, strategy["name"])
                self.assertIsNotNone(section, "there is no heading")
                own, family = section
                for what in ("**Bytes**", "**Commits.**", "**Use it**"):
                    self.assertIn(what, own.replace("**Bytes.**", "**Bytes**"))
                self.assertRegex(own + family, r"```bibtex\n@|Source: `[a-z]+\d{4}[a-z]+`")
                self.assertRegex(own + family, r"(?m)^1\. ")

    def test_every_route_has_its_row(self):
        rows = [[plain(row[0]), *row[1:3]] for row in rows_after(self.page, "| route | rounds |")]
        known = [[r["name"], r["rounds"], r["bytes"]] for r in routes(source("ripieno/collective/routes.cpp"))]
        self.assertGreater(len(known), 5)
        self.assertEqual(rows, known)

    def test_every_other_collectives_route_has_its_row(self):
        page = source("docs/collectives.md")
        rows = [[plain(row[0]), plain(row[1]), *row[3:5]] for row in rows_after(page, "| operation | route |")]
        known = other_routes(source("ripieno/collective/routes.cpp"))
        self.assertGreater(len(known), 15)
        self.assertEqual(rows, known)

    def test_every_codec_has_its_row_and_section(self):
        known = codecs(source("ripieno/codec/codec.cpp"))
        rows = [[plain(row[0]), *row[1:4]] for row in rows_after(self.page, "| codec | kind |")]
        self.assertGreater(len(known), 8)
        self.assertEqual(rows, [[c["name"], c["kind"], c["bytes"], c["lossless"]] for c in known])
        for codec in known:
            with self.subTest(codec["name"]):
                section = section_of(self.page, codec["name"], codec=True)
                self.assertIsNotNone(section, "there is no heading")
                self.assertIn("**Bytes**", section[0])
                self.assertIn("**Use it**", section[0])

    def test_the_refusals_are_the_sources(self):
        known = refusals(source("ripieno/strategy/refusals.cpp"))
        self.assertGreater(len(known), 10)
        self.assertEqual(with_refusals(self.page, known), self.page, "run tests/rooms/strategies_doc_test.py --write")

    def test_every_key_exists(self):
        known = settings(source("apps/ripieno/settings_table.cpp") + source("apps/ripieno/running_settings.cpp"))
        self.assertGreater(len(known), 50)
        self.assertEqual(unknown_keys(self.page, known), set())

    def test_bibtex_keys_are_distinct_and_found(self):
        keys = re.findall(r"^@\w+\{(\w+),$", self.page, flags=re.M)
        self.assertEqual(len(keys), len(set(keys)))
        cited = set(re.findall(r"`([a-z]+(?:19|20)\d\d[a-z]+)`", self.page))
        self.assertGreater(len(cited), 0)
        self.assertEqual(cited - set(keys), set())

    def test_links_within_the_page_lead_somewhere(self):
        headings = re.findall(r"^#+ (.*)$", without_code(self.page), flags=re.M)
        anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
        self.assertEqual(set(re.findall(r"\]\(#([^)]+)\)", self.page)) - anchors, set())


class Faults(unittest.TestCase):
    """The reading itself, on small sources."""

    def test_arguments(self):
        self.assertEqual(arguments('"a, b", f(1, 2), "c"\n "d", [](const C& c) { return c(1, 2); }'),
                         ["a, b", "f(1, 2)", "cd", "[](const C& c) { return c(1, 2); }"])

    def test_strategies(self):
        code = ('constexpr StrategyInfo make(std::string_view name, std::string_view title) {\n'
                '  return {name, title, "p", "w", "any", !exact, agrees, DataUse::shards, x};\n}\n'
                'constexpr std::array table{\n    make("b", "B"),\n'
                '    StrategyInfo{"a", "A", "g", "s", "r", exact, !agrees, y},\n};')
        self.assertEqual([list(s.values()) for s in strategies(code)],
                         [["b", "B", "p", "w", "any", "no", "yes"], ["a", "A", "g", "s", "r", "yes", "no"]])

    def test_refusals(self):
        code = ('constexpr std::array table{Refusal{"what", "because "\n  "it is", "take x", '
                '[](const C& c) { return c.a; }}};')
        self.assertEqual(refusals(code), [["what", "because it is", "take x"]])
        page = with_refusals("a\n" + "\n".join(MARKERS) + "\nb", refusals(code))
        self.assertIn("\n| what | because it is | take x |\n", page)
        self.assertEqual(with_refusals(page, refusals(code)), page)
        self.assertNotEqual(with_refusals(page, refusals(code)[:0]), page)

    def test_keys(self):
        page = "`a.b` `a.c = 3` `x.h` `recipes/a.toml`\n```\n`a.d`\n```\n"
        self.assertEqual(unknown_keys(page, {"a.b"}), {"a.c"})
        self.assertEqual(unknown_keys(page, {"a.b", "a.c"}), set())


if __name__ == "__main__":
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_refusals(PAGE.read_text(), refusals(source("ripieno/strategy/refusals.cpp"))))
    else:
        sys.exit(unittest.main())
