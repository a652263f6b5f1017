"""What is kept of a finished run, a line in docs/evidence/REPORT.jsonl."""

import json
import math
import os
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from lib import machine  # noqa: E402

KEPT = ROOT / "docs/evidence"
PROGRAM = os.environ.get("RIPIENO_BINARY") or ROOT / "build/release/bin/ripieno"
# What is kept of each rank's part of a summary, besides its stages.
OF_A_RANK = ("bytes", "exchange", "dropped", "process", "own_accuracy", "staleness")


def flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def measures(folders):
    """Each run's measures, by its folder."""
    told = subprocess.run([PROGRAM, "report", *folders, "--format", "json"], check=True, capture_output=True, text=True)
    return {folder: run["measures"] for folder, run in zip(folders, json.loads(told.stdout)["runs"], strict=True)}


def defaults():
    told = subprocess.run([PROGRAM, "train", "--set", "batch.per_worker=1", "--print-config"], check=True, capture_output=True, text=True)
    return dict(flat(tomllib.loads(told.stdout)))


def epochs_of(folder):
    """Of each epoch: rank 0's seconds and test (None where there was none), and the bytes that all ranks' exchanges had sent by its
    end."""
    epochs = {"seconds": [], "accuracy": [], "loss": [], "sent": []}
    for path in sorted(folder.glob("metrics-*.jsonl"), key=lambda one: (len(one.name), one.name)):
        by_now, ended = 0, 0
        for line in map(json.loads, path.read_text().splitlines()):
            if line["type"] in ("step", "epoch"):
                by_now += line["bytes"]["payload_sent"]
            if line["type"] != "epoch":
                continue
            if path.name == "metrics-0.jsonl":
                test = line.get("test") or {}
                for key, value in (("seconds", line["seconds"]), ("accuracy", test.get("accuracy")), ("loss", test.get("loss")), ("sent", 0)):
                    epochs[key].append(value)
            epochs["sent"][ended] += by_now
            ended += 1
    return epochs


def sent_by_seconds(folder, of="bytes_sent"):
    """What each rank's node sent in each second of the time that rates count (measure.skip_steps), or without the first and last two
    seconds. [] if no network was seen."""
    ranks = [[json.loads(line) for line in path.read_text().splitlines()]
             for path in sorted(folder.glob("metrics-*.jsonl"), key=lambda one: (len(one.name), one.name))]
    begin, end = 0, math.inf
    if left_out := json.loads((folder / "summary.json").read_text()).get("steps_left_out", 0):
        steps = [times for times in ([line["time"] for line in lines if line["type"] == "step"] for lines in ranks) if times]
        begin, end = max(times[left_out - 1] for times in steps), max(times[-1] for times in steps)
    rates = []
    for lines in ranks:
        rates.append([])
        seconds = sent = 0
        for line in lines:
            if line["type"] != "sample" or line["time"] - line["seconds"] < begin or line["time"] > end:
                continue
            seconds, sent = seconds + line["seconds"], sent + line["network"].get(of, 0)
            if seconds >= 0.99:
                rates[-1].append(sent / seconds)
                seconds = sent = 0
        if not left_out:
            rates[-1] = rates[-1][2:-2]
    return [] if any(len(one) < 2 or not sum(one) for one in rates) else rates


def sent(folder):
    """Of the bytes that nodes sent in each second: rank 0's mean, and how they varied (standard deviation over mean, averaged over
    ranks). Of packets: rank 0's mean, and that of all."""
    measured = {}
    if rates := sent_by_seconds(folder):
        measured |= {"mb_s_sent_0": 1e-6 * statistics.mean(rates[0]),
                     "variation_sent": statistics.mean(statistics.pstdev(one) / statistics.mean(one) for one in rates)}
    if rates := sent_by_seconds(folder, "packets_sent"):
        measured |= {"packets_s_sent_0": statistics.mean(rates[0]), "packets_s_sent": statistics.mean(map(statistics.mean, rates))}
    return measured


def iterations(folder, steps=20):
    """Of the seconds that rank 0 takes for so many steps, without the first and an unfinished last one of them: the mean, the standard
    deviation over it, and how many there are. {} of a run with less than three."""
    times = [line["time"] for line in map(json.loads, (folder / "metrics-0.jsonl").read_text().splitlines()) if line["type"] == "step"]
    ends = times[steps - 1::steps]
    found = [later - earlier for earlier, later in zip(ends, ends[1:])]
    if len(found) < 3:
        return {}
    return {"s_iteration": statistics.mean(found), "variation_iteration": statistics.pstdev(found) / statistics.mean(found), "iterations": len(found)}


def short(value):
    """Numbers with six digits that count."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def launcher_of(folder):
    path = folder / "env.json"
    return json.loads(path.read_text()).get("launcher", "ripieno") if path.exists() else "ripieno"


def workers_left(summary):
    """Of a run that went on without a rank."""
    left = len(summary["ranks"])
    return {"workers_left": left} if left < summary.get("world_size", left) else {}


def record(folder, measured, standard):
    """What is kept of a run: its settings that differ from the defaults, its measures, its summary, and each epoch's figures."""
    settings = dict(flat(tomllib.loads((folder / "config.toml").read_text())))
    settings = {key: value for key, value in settings.items() if value != standard.get(key) and not key.startswith(("run.folder", "data.folder", "data.cache"))}
    summary = json.loads((folder / "summary.json").read_text())
    summary["ranks"] = [{"stages": rank["seconds"]["stages"], **{key: rank[key] for key in OF_A_RANK if rank.get(key) is not None}}
                        for rank in summary["ranks"]]
    return {"run": summary["name"], "seed": summary["seed"], "machine": machine.name(settings.get("train.device") == "cuda"), "date": machine.date(), "launcher": launcher_of(folder),
            "engine": settings.get("transport.kind", "tcp"), "settings": settings,
            "measures": short({**measured, **sent(folder), **iterations(folder), **workers_left(summary)}),
            "summary": short(summary), "epochs": short(epochs_of(folder))}


def identity(run):
    samples = run["settings"].get("data.train_samples", 0)
    return run["run"], run["seed"], run["summary"]["model"], samples, run["settings"].get("train.epochs", 1)


def keep(report, folders, place=None):
    path, standard = (place or KEPT) / f"{report}.jsonl", defaults()
    kept = {identity(run): run for run in map(json.loads, path.read_text().splitlines())} if path.exists() else {}
    taken = 0
    for folder in folders:
        finished = [summary.parent for summary in sorted(Path(folder).glob("**/summary.json"))]
        if not finished:
            sys.exit(f"scripts/evidence: {folder} holds no finished run (summary.json): give the folder of a comparison")
        measured = measures(finished)
        for one in finished:
            run = record(one, measured[one], standard)
            kept[identity(run)] = run
            taken += 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(run, separators=(",", ":")) + "\n" for _, run in sorted(kept.items(), key=lambda one: str(one[0]))))
    print(f"{os.path.relpath(path)}: {taken} runs taken, {len(kept)} kept")
