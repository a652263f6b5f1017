"""Reports and samples as a user meets them: the page in a real browser, its other forms, what is in the metrics."""

import csv
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import unittest
import urllib.parse
from pathlib import Path

import sentences
from program import DATA, SMALL, USAGE, ProgramTest, is_progress, sets

GRID = """title = "ways to agree"
workers = 2
seeds = 2

[batch]
per_worker = 32

[data]
train_samples = 640
test_samples = 100

[train]
epochs = 2

[learning_rate]
base = 0.02

[run]
sample_s = 0.05

[grid]
strategy = ["ring", "fedavg", "ps-async"]
"""

# Asks a page, in a frame of a window as wide as a small laptop's or a telephone's, what cannot be seen from its text: at first as it
# opens, then with all that is folded away, and with a run that was chosen.
PROBE = """<!doctype html><iframe id="f" style="border:0;width:WIDTHpx;height:800px"></iframe><pre id="found"></pre><script>
const frame = document.getElementById("f"), found = {};
const box = (e) => e.getBoundingClientRect(), seen = (e) => e.getClientRects().length > 0;  // Plotly hides a label that finds no room
frame.onload = () => setTimeout(look, 1000);
function look() {
  const page = frame.contentDocument, root = page.documentElement, style = (e) => frame.contentWindow.getComputedStyle(e);
  const all = (what) => [...page.querySelectorAll(what)];
  Object.assign(found, {
    theme: root.dataset.theme, wide: root.scrollWidth, nav: box(page.querySelector("nav")).height, links: all("nav a").map((a) => a.textContent),
    sentences: all(".sentences li").length, sentences_end: box(page.querySelector(".sentences")).bottom,
    plots_at: all(".picture .plot").map((p) => [box(p).top, box(p).bottom]), folded: all("details[open]").length,
    chosen: all("#run-figures > *").length, cut: all(".wide").filter((w) => seen(w) && w.scrollWidth > w.clientWidth).map((w) => w.parentElement.id),
    sticky: all("td:first-child").every((td) => style(td).position === "sticky"),
    ground: style(page.body).backgroundColor, ink: style(page.body).color,
    looks: all(".picture svg.main-svg").length && [...page.querySelectorAll("#plot-progress .scatterlayer .trace")].map((t) => style(t.querySelector(".js-line")).stroke),
  });
  all("details").forEach((one) => { one.open = true; });
  const choice = page.getElementById("run");
  found.runs = [...choice.options].map((one) => one.value).filter(Boolean);
  choice.value = found.runs.at(-1);
  choice.dispatchEvent(new Event("change"));
  setTimeout(() => {
    const plots = all(".plot");
    Object.assign(found, {
      plots: plots.length, drawn: plots.filter((p) => p.querySelector(".main-svg")).length, of_the_run: all("#run-figures .plot").length,
      opened_wide: root.scrollWidth, small: all("h1,h2,h3,p,li,td,th,text").filter((e) => parseFloat(style(e).fontSize) < 11).length,
      outside: plots.filter((p) => [...p.querySelectorAll("text")].some((t) => seen(t) && (box(t).right > box(p).right + 1 || box(t).left < box(p).left - 1))).map((p) => p.id),
      numbers: all(".numbers tbody tr").length, number_links: all(".numbers td a").length,
    });
    const number = page.querySelector("#cells td:nth-child(4) a");
    number.click();
    const shown = page.querySelector("#source[open]");
    found.line = shown && [number.textContent, shown.querySelector("b").textContent, shown.querySelector(".here").textContent];
    page.querySelector("#source button").click();
    found.closed = !page.querySelector("#source[open]");
    const column = () => all("#cells tbody td:nth-child(4)").map((td) => parseFloat(td.textContent));
    page.querySelector("#cells th:nth-child(4)").click();
    found.sorted = column();
    page.querySelector("#cells th:nth-child(4)").click();
    found.turned = column();
    document.getElementById("found").textContent = JSON.stringify(found);
  }, 1500);
}
frame.src = "report.html#theme=THEME";
</script>"""


def chromium(folder, *arguments):
    """Its standard output; its complaints, but for those about the machine it is on, and for Plotly's that a margin, which follows labels,
    still moved a little when it stopped: tests look for what is cut."""
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--allow-file-access-from-files",
                           f"--user-data-dir={folder}/chromium", "--enable-logging=stderr", "--window-size=1320,1000", "--virtual-time-budget=20000",
                           *arguments], capture_output=True, text=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line and "auto-margin redraws" not in line]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def message(data):
    """A message in protocol buffers: a list of values a field; numbers of fixed width as they are written."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        length = {1: 8, 5: 4}.get(kind) or (varint() if kind == 2 else 0)
        value = varint() if kind == 0 else data[at:at + length]
        at += length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def brightness(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3]))


class ReportTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromium"):
            raise RuntimeError("there is no chromium: scripts/setup tests installs it")

    def grid(self):
        (self.folder / "grid.toml").write_text(GRID)
        self.good("compare", "grid.toml")

    def tables(self, runs):
        """The rows of each CSV file, each a table with heads."""
        self.good("report", runs, "--format", "csv", "-o", "tables")
        return {file.name: list(csv.DictReader(file.open())) for file in (self.folder / "tables").glob("*.csv")}

    def probe(self, theme, width):
        (self.folder / "probe.html").write_text(PROBE.replace("THEME", theme).replace("WIDTH", str(width)))
        dom, complaints = chromium(self.folder, "--dump-dom", f"file://{self.folder}/probe.html")
        self.assertEqual(complaints, [])
        return json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom, re.S).group(1))

    def test_a_grid_in_a_browser(self):
        self.grid()
        result = self.ripieno("report", "runs", "--title", "Ways to agree")
        self.assertEqual(result.code, 0, result.err)
        self.assertRegex(result.out, r"^mnist-cnn on digits, 2 workers, batch 32 a worker, .*; compared with ring, a ring in fp32\.\n")
        self.assertIn("report.html", result.err)
        self.assertEqual(sentences.wrong(self.json("report", "runs")), [])
        for theme, width in (("light", 1280), ("dark", 1280), ("light", 400)):
            with self.subTest(f"{theme}, {width}"):
                found = self.probe(theme, width)
                self.assertEqual(found["theme"], theme)
                self.assertEqual(found["links"], ["Summary", "Compare", "Runs"])
                self.assertLess(found["nav"], 50, "one line")
                self.assertEqual(found["sentences"], 3)
                self.assertEqual(len(found["plots_at"]), 3)
                self.assertLess(found["plots_at"][0][0], 700, "the picture begins on the first screen")
                if width == 1280:
                    self.assertLess(max(bottom for _, bottom in found["plots_at"]), 800, "and ends on it")
                    self.assertEqual(found["cut"], [], "tables that are cut")
                self.assertEqual((found["folded"], found["chosen"]), (0, 0), "what is folded away, and runs' figures, wait to be asked for")
                self.assertTrue(found["sticky"])
                self.assertEqual(len(found["looks"]), 3)
                self.assertEqual(len(set(found["looks"])), 3, "a colour each")
                self.assertEqual(len(found["runs"]), 6)
                self.assertEqual(found["of_the_run"], 3)
                self.assertGreater(found["plots"], 10)
                self.assertEqual(found["drawn"], found["plots"])
                self.assertLessEqual(found["opened_wide"], width)
                self.assertEqual(found["small"], 0, "texts below 11 pixels")
                self.assertEqual(found["outside"], [], "texts that stick out of their figure")
                self.assertGreater(found["numbers"], 50)
                self.assertGreater(found["number_links"], 20)
                number, title, line = found["line"]
                self.assertRegex(title, r"^runs/\d+-[a-z-]+/summary\.json, line \d+$")
                self.assertRegex(line, r'^\d+ +"epoch": ')
                self.assertTrue(found["closed"])
                self.assertEqual((found["sorted"], found["turned"]), (sorted(found["sorted"], reverse=True), sorted(found["sorted"])))
                bright, dim = ("ground", "ink") if theme == "light" else ("ink", "ground")
                self.assertGreater(brightness(found[bright]), brightness(found[dim]) + 400)
                shot = self.folder / f"{theme}.png"
                _, complaints = chromium(self.folder, f"--screenshot={shot}", f"file://{self.folder}/report.html#theme={theme}")
                self.assertEqual(complaints, [])
                self.assertGreater(shot.stat().st_size, 20_000)
                if kept := os.environ.get("RIPIENO_SCREENSHOTS"):
                    shutil.copy(shot, kept)

    def test_numbers_link_to_their_lines(self):
        self.grid()
        self.good("report", "runs")
        page = (self.folder / "report.html").read_text()
        table = page[page.index('<section id="runs">'):]
        rows = re.findall(r"<tr>(<td.*?)</tr>", table[:table.index("</table>")])
        self.assertEqual(len(rows), 6)
        for run, row in zip(self.runs(), rows, strict=True):
            summary = json.loads((run / "summary.json").read_text())
            cells = re.findall(r'<td.*?><a href="(.*?)#L(\d+)".*?>(.*?)</a>', row)
            self.assertEqual(cells[0][2], run.name)
            lines = (self.folder / cells[4][0]).read_text().splitlines()
            self.assertIn(f'"accuracy": {summary["test"]["accuracy"]}', lines[int(cells[4][1]) - 1])
            self.assertEqual(cells[4][2], f'{100 * summary["test"]["accuracy"]:.2f}')
            self.assertGreater(summary["evaluation"]["payload_sent"], 0)
            self.assertEqual(sum(rank["evaluation"]["payload_sent"] for rank in summary["ranks"]), summary["evaluation"]["payload_sent"])
        first = page[page.index('<ul class="sentences">'):]
        for address, line, _ in re.findall(r'<a href="(.*?)#L(\d+)".*?>(.*?)</a>', first[:first.index("</ul>")]):
            self.assertRegex((self.folder / address).read_text().splitlines()[int(line) - 1], r"\d|epoch")
        self.assertNotRegex(page[page.index("<main>"):], r"± 0[.0]*[ <]")

    def test_other_forms(self):
        run = self.train({"train.epochs": 2, "run.sample_s": 0.05})
        losses = self.tables(run.folder)["figure-loss.csv"]
        self.assertEqual([row["epochs"] for row in losses], ["1", "2"])
        steps = [line for rank in range(2) for line in run.metrics(rank) if line["type"] == "step" and line["epoch"] == 0]
        mean = sum(step["loss"] * step["samples"] for step in steps) / sum(step["samples"] for step in steps)
        self.assertAlmostEqual(float(losses[0]["cross-entropy"]), mean)
        file, line = losses[1]["source"].rsplit(":", 1)
        self.assertEqual(json.loads(Path(file).read_text().splitlines()[int(line) - 1])["type"], "epoch")

        figures = {figure["id"]: figure for figure in json.loads(self.good("report", run.folder, "--format", "json"))["figures"]}
        self.assertLessEqual({"accuracy", "loss", "stages", "blocks-1", "cpu-1", "network-1", "cpu-means"}, figures.keys())
        self.assertIn("## Accuracy", self.good("report", run.folder, "--format", "md"))
        self.good("report", run.folder, "--format", "md", "-o", "out.md")
        self.assertTrue((self.folder / "out.md").read_text().startswith("# Runs"))
        self.assertRegex((self.folder / "out.md").read_text(), r"\n- ring took .* an epoch, .* waiting for the exchange; its busiest rank sent .*\.\n")
        told = json.loads(self.good("report", run.folder, "--format", "json"))["conclusions"][0]
        self.assertIn("mnist-", told["setting"])
        self.assertIn(told["sentences"][0]["text"], {row["sentence"] for row in self.tables(run.folder)["sentences.csv"]})

        self.good("report", run.folder, "--format", "png", "-o", "plots")
        for figure in ["summary", *figures]:
            self.assertEqual((self.folder / f"plots/{figure}.png").read_bytes()[:4], b"\x89PNG")
        self.variables = {"PATH": "/nowhere"}
        missing = self.ripieno("report", run.folder, "--format", "png")
        self.assertEqual(missing.code, USAGE)
        self.assert_one_line(missing.err, "Chromium", "apt-get install chromium")

    def events(self, path):
        """The Event messages of a file, whose checksums hold."""
        data = (self.folder / "tensorboard" / path / "events.out.tfevents.0.ripieno").read_bytes()
        found, at = [], 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            found.append(data[at + 12:at + 12 + length])
            crc = crc32c(found[-1])
            self.assertEqual(struct.unpack_from("<I", data, at + 12 + length)[0], ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
            at += 16 + length
        self.assertEqual(at, len(data))
        self.assertIn(b"brain.Event:2", found[0])
        return found

    def test_tensorboard(self):
        run = self.train({"train.epochs": 2})
        self.good("report", run.folder, "--format", "tensorboard")
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        found = self.events(f"{run.folder.name}/rank-1")
        losses = [struct.unpack_from("<f", event, event.index(b"train/loss") + 11)[0] for event in found if b"train/loss" in event]
        self.assertEqual(losses, [struct.unpack("<f", struct.pack("<f", line["loss"]))[0] for line in run.metrics(1) if line["type"] == "step"])
        self.assertEqual(sum(b"test/accuracy" in event for event in found), 2)

    def test_tensorboards_hparams(self):
        runs = [self.train({"strategy": strategy, "learning_rate.base": rate}) for strategy, rate in (("ring", 0.05), ("fedavg", 0.1))]
        self.good("report", "runs", "--format", "tensorboard")

        def hparams(event):
            (summary,) = message(event)[5]
            (value,) = message(summary)[1]
            (plugin,) = message(message(value)[9][0])[1]
            self.assertEqual(message(plugin)[1], [b"hparams"])
            return message(value)[1][0], message(message(plugin)[2][0])

        tag, content = hparams(self.events("")[1])
        self.assertEqual(tag, b"_hparams_/experiment")
        experiment = message(content[2][0])
        keys = {message(one)[1][0] for one in experiment[4]}
        self.assertEqual(keys, {b"strategy", b"exchange.codec", b"learning_rate.base"}, "what runs differ in")
        tags = [message(message(one)[1][0])[2][0].decode() for one in experiment[5]]
        self.assertIn("run/accuracy", tags)
        for run, strategy, rate in zip(runs, (b"ring", b"fedavg"), (0.05, 0.1)):
            _, start, scalars, end = self.events(run.folder.name)
            tag, content = hparams(start)
            self.assertEqual(tag, b"_hparams_/session_start_info")
            values = {message(one)[1][0]: message(message(one)[2][0]) for one in message(content[3][0])[1]}
            self.assertEqual(values[b"strategy"], {3: [strategy]})
            self.assertEqual(struct.unpack("<d", values[b"learning_rate.base"][2][0])[0], rate)
            measured = {message(one)[1][0].decode(): struct.unpack("<f", message(one)[2][0])[0] for one in message(message(scalars)[5][0])[1]}
            self.assertEqual(set(measured), set(tags))
            self.assertAlmostEqual(measured["run/accuracy"], 100 * run.summary["test"]["accuracy"], places=4)
            tag, content = hparams(end)
            self.assertEqual((tag, message(content[4][0])[1]), (b"_hparams_/session_end_info", [1]))

    def test_watching(self):
        self.assert_one_line(self.ripieno("watch").err, "there is no run in it")
        job = self.start("train", *sets(SMALL | {"run.sample_s": 0.05, "train.epochs": 1000}))
        view = lambda: self.ripieno("watch").out
        self.wait_until("both ranks", lambda: re.search(r"epoch \d+/1,000|epoch \d+/1000", view()) and "left" in view() and len(re.findall(r"^ +[01]  ", view(), re.M)) == 2)
        self.assertRegex(view(), r"images/s .*\n\nrank +step +images/s +loss +CPU +memory +network +a step's time")
        job.kill()
        job.wait(60)
        self.wait_until("the workers' end", lambda: not self.processes())
        (killed,) = self.runs()
        self.assertRegex(self.good("watch", killed), r"epoch \d+/1000  .* images/s  ended unfinished: it was killed, or failed")
        self.assertNotIn(" left", view())
        tables = self.tables(killed)
        self.assertRegex(tables["runs.csv"][0]["kind"], r"^computed, unfinished: [\d.]+ epochs?$")
        self.assertIn("figure-accuracy.csv", tables)
        done = self.train({"train.epochs": 1})
        both = self.good("report", "runs", "--format", "md")
        self.assertIn(f"{killed.name} …", both)
        self.assertIn(done.folder.name, both)
        self.assertIn("ended", self.good("watch", done.folder, "--once"))
        self.assertIn("100 %", self.good("watch", "--once"))
        self.assertIn("100 %", self.good("watch", "runs", "--once"))
        self.assert_one_line(self.ripieno("watch", self.folder).err, "there is no run in it")

    def test_a_loss_that_is_not_finite_is_told_of_once_and_marked(self):
        settings = SMALL | {"learning_rate.base": 1000, "batch.per_worker": 16, "run.folder": self.folder / "exp#3 100%25"}
        result = self.ripieno("train", *sets(settings))
        self.assertEqual(result.code, 0, result.err)
        (line,) = [line for line in result.err.splitlines() if not is_progress(line)]
        self.assertRegex(line, r"warning: the training loss of rank \d was (nan|inf) at step \d+, in epoch \d; ")
        (run,) = (self.folder / "exp#3 100%25").iterdir()
        marked = json.loads((run / "summary.json").read_text())["not_finite"]
        self.assertIn(f"step {marked['step']}", line)
        self.assertIn(f"of rank {marked['rank']} was {marked['value']} at step {marked['step']}", result.out)
        self.good("report", run)
        page = (self.folder / "report.html").read_text()
        self.assertIn(">not finite<", page)
        links = set(re.findall(r'<a href="([^"]*)#L\d+"', page))
        self.assertGreater(len(links), 0)
        for link in links:
            self.assertTrue((self.folder / urllib.parse.unquote(link)).is_file(), link)
            self.assertNotRegex(link, r"[#? ]")

    def test_samples_are_on_the_clock_of_the_steps(self):
        run = self.train({"train.epochs": 3, "run.sample_s": 0.1})
        for rank in range(2):
            start, *lines = run.metrics(rank)
            self.assertEqual((start["type"], start["schema"], start["rank"], start["ranks"], start["epochs"]), ("start", 1, rank, 2, 3))
            times = [line["time"] for line in lines]
            self.assertEqual(times, sorted(times))
            samples = [line for line in lines if line["type"] == "sample"]
            self.assertGreater(len(samples), 0)
            self.assertGreater(sum(one["process"]["cpu_user"] for one in samples), 0)
            self.assertGreater(samples[-1]["process"]["resident"], 10_000_000)
        without = self.train({"run.sample_s": 0})
        self.assertNotIn("sample", {line["type"] for line in without.metrics(0)})

    def test_what_is_no_run_is_named(self):
        (self.folder / "empty").mkdir()
        for path, code, words in (("nowhere", USAGE, ["nowhere", "no such folder"]), ("empty", DATA, ["empty", "no summary.json"])):
            result = self.ripieno("report", path)
            self.assertEqual(result.code, code)
            self.assert_one_line(result.err, *words)
        self.assertEqual(list(self.folder.glob("*.html")), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
