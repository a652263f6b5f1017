"""`ripieno explain ROUTE --html` as its users meet it: the page in a real browser, stepped through."""

import html
import json
import re
import shutil
import sys
import unittest

from program import USAGE, ProgramTest
from report_test import chromium

# Opens a page at round 2 in a frame and steps through it by its buttons, keys and slider.
PROBE = """<!doctype html><iframe id="f" style="border:0;width:WIDTHpx;height:900px"></iframe><pre id="found"></pre><script>
const frame = document.getElementById("f");
frame.onload = () => {
  const page = frame.contentDocument, at = (id) => page.getElementById(id), said = [], box = (e) => e.getBoundingClientRect();
  const say = () => said.push(at("sentence").textContent);
  const press = (key) => page.body.dispatchEvent(new frame.contentWindow.KeyboardEvent("keydown", { key, bubbles: true }));
  const drawing = at("drawing"), arrows = () => drawing.querySelectorAll(".arrow").length;
  say();
  const opened = { arrows: arrows(), rows: at("messages").rows.length };
  at("next").click(); say();
  press("ArrowLeft"); press("ArrowLeft"); say();
  at("slider").value = 4; at("slider").dispatchEvent(new Event("input")); say();
  press("Home"); say();
  const start = arrows();
  at("last").click(); say();
  document.getElementById("found").textContent = JSON.stringify({
    said, opened, start, hash: frame.contentWindow.location.hash, next: at("next").disabled, wholes: drawing.querySelectorAll(".whole").length,
    theme: page.documentElement.dataset.theme, wide: page.documentElement.scrollWidth,
    small: [...page.querySelectorAll("h1,p,td,th,dt,dd,button,text")].filter((e) => parseFloat(frame.contentWindow.getComputedStyle(e).fontSize) < 11).length,
    outside: [...drawing.querySelectorAll("rect,text")].filter((e) => box(e).left < box(drawing).left - 1 || box(e).right > box(drawing).right + 1).length,
  });
};
frame.src = "PAGE#round=2&theme=dark";
</script>"""


class ExplainPageTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromium"):
            raise RuntimeError("there is no chromium: scripts/setup tests installs it")

    def stepped(self, page, width):
        (self.folder / "probe.html").write_text(PROBE.replace("WIDTH", str(width)).replace("PAGE", page))
        dom, complaints = chromium(self.folder, "--dump-dom", f"file://{self.folder}/probe.html")
        self.assertEqual(complaints, [])
        return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.S).group(1)))

    def test_a_page_is_stepped_through(self):
        sums, chunks_of_all = "every rank holds the sum of all", "every rank holds all ranks' chunks"
        for arguments, rounds, arrows, chunks, words, end in (
                (("ring", "-n", 6), 10, 6, 36, "every rank sends 1 chunk (460 kB) to its right neighbour, which adds it.", sums),
                (("double-binary-tree", "-n", 8), 10, 4, 16, "ranks send", sums),
                (("hierarchical", "-n", 8, "--per-node", 4), 6, 2, 16, "2 ranks send the whole buffer (2.76 MB) each, 2 → 0, 6 → 4; the receivers add it.", sums),
                (("ring", "-n", 6, "--operation", "all-gather"), 5, 6, 36, "its right neighbour, which keeps it. Then 18 of all 36 chunks are in place.", chunks_of_all),
                (("pairwise", "-n", 5, "--operation", "all-to-all"), 5, 4, 25, "to its partner, which keeps it.", "every rank holds the block that every rank had for it"),
                (("scatter-gather", "-n", 5, "--operation", "broadcast", "--root", 2), 7, 1, 25, "rank 2 sends", "every rank holds rank 2's numbers"),
                (("flat", "-n", 6, "--operation", "reduce", "--root", 3), 5, 1, 6, "No chunk is the sum of all yet.", "rank 3 holds the sum of all"),
                (("flat", "-n", 6, "--operation", "scatter", "--root", 3), 5, 1, 6, "3 of all 6 chunks are in place.", "every rank holds its own chunk of rank 3's numbers")):
            operation = arguments[4] if "--operation" in arguments else "all-reduce"
            route = "-".join([operation] * (operation != "all-reduce") + [arguments[0]])
            done = self.ripieno("explain", *arguments, "--html")
            self.assertEqual((done.code, done.out), (0, ""), done.err)
            self.assertEqual(done.err, f"{route}.html: open it in a browser\n")
            totals = self.good("explain", *arguments)
            page = (self.folder / f"{route}.html").read_text()
            for line in totals.splitlines()[3:7]:  # what it costs
                self.assertIn(f"<dt>{line[:23].strip()}</dt><dd>{line[23:]}</dd>", page)
            self.assertIsNone(re.search(r'(src|href)="', page), "it needs nothing else")
            for width in (1280, 400):
                with self.subTest(route, width=width):
                    found = self.stepped(f"{route}.html", width)
                    self.assertEqual([sentence.split(":")[0] for sentence in found["said"]],
                                     [f"Round 2 of {rounds}", f"Round 3 of {rounds}", f"Round 1 of {rounds}", f"Round 4 of {rounds}", "Start",
                                      f"Round {rounds} of {rounds}"])
                    self.assertIn(words, found["said"][0])
                    self.assertTrue(found["said"][-1].endswith(f" Then {end}."), found["said"][-1])
                    self.assertEqual(found["opened"], {"arrows": arrows, "rows": arrows})
                    self.assertEqual((found["start"], found["wholes"], found["next"]), (0, chunks, True))
                    self.assertEqual((found["theme"], found["hash"]), ("dark", f"#round={rounds}&theme=dark"))
                    self.assertLessEqual(found["wide"], width)
                    self.assertEqual((found["small"], found["outside"]), (0, 0))

    def test_a_picture_shows_what_arrives_and_where(self):
        """Two messages of a rank that meet around the buffer's end are one arrow; of an all-to-all, what is sent and what it becomes differ."""
        for arguments, words in ((("bruck", "-n", 6, "--operation", "all-gather"), {"from": 5, "to": 3, "first": 5, "last": 0, "into": 5, "bytes": "921 kB", "adds": False}),
                                 (("direct", "-n", 3, "--operation", "all-to-all"), {"from": 0, "to": 2, "first": 2, "last": 2, "into": 0, "bytes": "921 kB", "adds": False})):
            with self.subTest(arguments):
                self.assertEqual(self.ripieno("explain", *arguments, "--html", "-o", "page.html").code, 0)
                data = json.loads(re.search(r'id="data">(.*?)</script>', (self.folder / "page.html").read_text(), re.S).group(1))
                self.assertIn(words, [one for one in data["rounds"][min(2, len(data["rounds"]) - 1)]["transfers"]])
                self.assertEqual(data["rounds"][-1]["held"], [[1 << owner for owner in range(arguments[2])]] * arguments[2])
                self.assertEqual(data["goal"], data["rounds"][-1]["held"])
        (ranks, root), blank = (4, 2), [0] * 4
        self.assertEqual(self.ripieno("explain", "scatter", "-n", ranks, "--root", root, "--html", "-o", "page.html").code, 0)
        data = json.loads(re.search(r'id="data">(.*?)</script>', (self.folder / "page.html").read_text(), re.S).group(1))
        self.assertEqual(data["rounds"][0]["held"], [blank, blank, [1 << root] * 4, blank])
        self.assertEqual(data["goal"], [[(1 << root) * (own == rank) for own in range(ranks)] for rank in range(ranks)])

    def test_what_cannot_be_drawn_is_refused(self):
        for arguments, words in ((("ring", "-n", 17, "--html"), ["up to 16 ranks, not 17"]),
                                 (("topk", "--html"), ["codec topk", "route"]),
                                 (("fedavg", "--html"), ["strategy fedavg", "route"]),
                                 (("ring", "--html", "--set", "workers=2"), ["strategy ring", "--set"]),
                                 (("ring", "-o", "x.html"), ["x.html", "--html"]),
                                 (("ring", "--html", "--format", "json"), ["--format json"])):
            with self.subTest(arguments):
                result = self.ripieno("explain", *arguments)
                self.assertEqual(result.code, USAGE)
                self.assert_one_line(result.err, *words)
        self.assertEqual(list(self.folder.glob("*.html")), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
