"""Trains by Ripieno on a Spark cluster: a worker is a barrier task, which runs `ripieno train` as one rank.

    from pyspark.sql import SparkSession
    import ripieno_spark

    spark = SparkSession.builder.master("spark://node1:7077").getOrCreate()
    result = ripieno_spark.run(spark, "recipes/mnist.toml", workers=4, sets={"strategy": "ring"})
    print(result.accuracy, result.folder)

Tasks agree on the address and the secret of the job by Spark's own messages, which are encrypted where spark.network.crypto.enabled
is set. The exchange goes over Ripieno's connections, not over Spark's. If Spark loses an executor, it starts the job again, as it
does with every barrier stage."""
import dataclasses
import gzip
import json
import os
import pathlib
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile

__all__ = ["Result", "TrainingFailed", "run"]

LINES = 20  # of a rank's standard error, for an error
_OF_EXECUTORS = ("RIPIENO_DATA", "RIPIENO_LISTEN", "RIPIENO_SHARED_MEMORY")  # the others name a job, and Spark's are this one


class TrainingFailed(RuntimeError):
    """A rank has failed; the message is its line."""


@dataclasses.dataclass
class Result:
    summary: dict  # as summary.json of the run (docs/runs.md)
    folder: pathlib.Path  # the run's folder, on the driver

    @property
    def hosts(self):
        """Of each rank."""
        return [rank["host"] for rank in self.summary["ranks"]]

    @property
    def accuracy(self):
        return self.summary["test"]["accuracy"] if self.summary["test"] else None


def run(spark, recipe, workers, sets=None, program="ripieno", folder="runs", train=None, test=None, scale=None, only=None):
    """Trains one model by `workers` workers, on as many free cores of the cluster. Returns a Result.

    recipe: a file on the driver; or "" for the defaults. sets: {"key": value} as --set takes them.
    scale, only: of a recipe with several runs, its scale and the run to take, as --scale and --only take them.
    program: `ripieno` on each host. folder: where on the driver the run's folder is made.
    train, test: DataFrames with a column `image` of 784 bytes (28 x 28 pixels) and a column `label`, in place of data.name and
    data.folder; each host gets all of them. Without them, the recipe's data are looked for on each host.

    ValueError: an argument or a DataFrame does not fit. OSError: the recipe cannot be read. TrainingFailed: a rank has failed; all
    have ended."""
    _check(recipe, workers, sets, train, test)
    text = pathlib.Path(recipe).read_text() if recipe else ""
    if (train is None) != (test is None):
        raise ValueError("train and test go together: give both DataFrames or none")
    if (scale or only) and not recipe:
        raise ValueError("scale and only choose one of a recipe's runs: give the recipe, too")
    if "run.folder" in (sets or {}):
        raise ValueError("run.folder is each task's own: say by `folder` where the driver is to put the run")
    chosen = [word for option, value in (("--scale", scale), ("--only", only)) if value for word in (option, value)]
    context = spark.sparkContext
    data = context.broadcast({} if train is None else _as_mnist(train, test))
    sets = dict(sets or {})

    def task(_):
        yield _rank(text, sets, program, data.value, chosen)

    ranks = context.parallelize(range(workers), workers).barrier().mapPartitions(task).collect()
    failed = [rank for rank in ranks if rank["code"]]
    if failed:
        raise TrainingFailed(_cause(failed))
    written, = [rank["run"] for rank in ranks if rank["run"]]
    return Result(*_unpack(written, pathlib.Path(folder)))


def _check(recipe, workers, sets, train, test):
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"workers is {workers!r}: give a whole number of at least 1")
    if recipe and not isinstance(recipe, (str, os.PathLike)):
        raise ValueError(f"recipe is {recipe!r}: give a file's path, or \"\" for the defaults")
    if sets is not None and not hasattr(sets, "items"):
        raise ValueError(f"sets is {sets!r}: give a dict of keys and values")
    asked = str((sets or {}).get("workers", workers))
    if not asked.isdigit() or int(asked) > workers:  # fewer leave tasks for servers
        raise ValueError(f"workers is {workers}, but sets has workers = {asked}: leave the latter out")
    for name, frame in (("train", train), ("test", test)):
        if frame is not None and not hasattr(frame, "columns"):
            raise ValueError(f"{name} is {type(frame).__name__}: give a DataFrame")


def _rank(recipe, sets, program, data, chosen):
    """One barrier task: a rank, from its start to its end. Never raises, since Spark would begin all of it again."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    rank, hosts = context.partitionId(), [info.address.rsplit(":", 1)[0] for info in context.getTaskInfos()]
    said = context.allGather(json.dumps({"port": _free_port(), "token": secrets.token_hex(32)}) if rank == 0 else "")
    meeting = json.loads(said[0])
    with tempfile.TemporaryDirectory(prefix="ripieno-spark-", dir=os.getcwd()) as name:  # Spark removes what a killed task leaves
        here = pathlib.Path(name)
        command = [program, "train"]
        if recipe:
            (here / "recipe.toml").write_text(recipe)
            command += [str(here / "recipe.toml"), *chosen]
        sets = sets | {"run.folder": str(here / "runs")}
        if data:
            (here / "data").mkdir()
            for file, content in data.items():
                (here / "data" / file).write_bytes(content)
            sets |= {"data.name": "mnist", "data.folder": str(here / "data")}
        for key, value in sets.items():
            command += ["--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("RIPIENO_") or key in _OF_EXECUTORS} | {
            "RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": str(hosts[:rank].count(hosts[rank])),
            "LOCAL_WORLD_SIZE": str(hosts.count(hosts[rank])), "MASTER_ADDR": hosts[0], "MASTER_PORT": str(meeting["port"]),
            "RIPIENO_SPARK": f"{context.stageId()}.{context.attemptNumber()}", "RIPIENO_TOKEN": meeting["token"], "TMPDIR": str(here)}
        result = {"rank": rank, "host": hosts[rank], "run": None}
        try:
            process = subprocess.Popen(command, cwd=here, env=environment, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, preexec_fn=_end_with_parent)
        except OSError as error:
            return result | {"code": 2, "said": f"rank {rank}: cannot run {program} on {hosts[rank]}: {error.strerror}"}
        lines = []
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)  # into the executor's log
            lines = lines[1 - LINES:] + [line.rstrip("\n")]
        code = process.wait()
        if code == 0 and rank == 0:
            result["run"] = _pack(here / "runs")
        return result | {"code": code, "said": _line(lines, rank, code)}


def _line(lines, rank, code):
    own = [line.removeprefix("ripieno: ") for line in lines if line.startswith("ripieno: ")]
    how = f"was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
    return own[-1] if own and code > 0 else f"rank {rank} {how}"


def _cause(failed):
    """The line of a rank whose failure does not follow from another's, as exit code 6 says."""
    return min(failed, key=lambda rank: (rank["code"] == 6, rank["rank"]))["said"]


def _end_with_parent():
    """If Spark ends the task, its rank ends too."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _pack(runs):
    """(name, {file: content}) of the run's folder."""
    run, = runs.iterdir()
    return run.name.split("-", 1)[1], {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}


def _unpack(run, runs):
    """The summary, and the run's new folder, under the next free number."""
    name, files = run
    runs.mkdir(parents=True, exist_ok=True)
    number = max([int(path.name[:4]) for path in runs.iterdir() if path.name[:4].isdigit()], default=0) + 1
    folder = runs / f"{number:04}-{name}"
    folder.mkdir()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return json.loads((folder / "summary.json").read_text()), folder


def _as_mnist(train, test):
    """The files of MNIST (IDX), gzipped, by name."""
    files = {}
    for frame, name in ((train, "train"), (test, "t10k")):
        missing = {"image", "label"} - set(frame.columns)
        if missing:
            raise ValueError(f"a DataFrame needs the columns image and label, but one has {', '.join(frame.columns)}")
        images, labels = bytearray(), bytearray()
        for row in frame.select("image", "label").toLocalIterator():
            image, label = row.image, row.label
            if not isinstance(image, (bytes, bytearray)) or len(image) != 784 or not isinstance(label, int) or not 0 <= label <= 9:
                raise ValueError(f"row {len(labels)} of {name} is not an image of 784 bytes with a label from 0 to 9")
            images += image
            labels.append(label)
        files[f"{name}-images-idx3-ubyte.gz"] = gzip.compress(struct.pack(">4i", 0x803, len(labels), 28, 28) + images)
        files[f"{name}-labels-idx1-ubyte.gz"] = gzip.compress(struct.pack(">2i", 0x801, len(labels)) + labels)
    return files
