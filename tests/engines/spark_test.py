#!/usr/bin/env python3
"""ripieno_spark.run() on a real Spark cluster (spark.py): a host of the driver's, a master and two workers."""
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from launcher_case import RIPIENO, ROOT, TRAIN, LauncherCase, in_full
from spark import PYTHON, Spark

RECIPE = """model = "mnist-3conv"
batch.global = 64
data.train_samples = 640
data.test_samples = 100
[[grid]]
strategy = ["gather-scatter", "ring"]
"""
FROM_FRAMES = """
import ripieno_spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("spark://node1:7077").getOrCreate()
rows = [(bytearray([25 * (i % 10)] * 784), i % 10) for i in range(640)]  # a digit is its brightness
frame = spark.createDataFrame(rows, "image binary, label int")
sets = {"workers": 2, "model": "mnist-3conv", "batch.global": 64, "data.train_samples": 0, "data.test_samples": 0, "train.epochs": 12}
result = ripieno_spark.run(spark, "", 2, sets | {"strategy": "ring", "learning_rate.base": 0.05}, train=frame, test=frame)
print("accuracy", result.accuracy, result.summary["dataset"])
for train, test in ((frame.select("image"), frame), (frame, None), (frame.withColumn("label", frame.label + 5), frame)):
    try:
        ripieno_spark.run(spark, "", 2, train=train, test=test)
    except ValueError as error:
        print("refused:", error)
try:
    ripieno_spark.run(spark, "", 2, only="ring")
except ValueError as error:
    print("refused:", error)
"""


class OnSpark(LauncherCase):
    @classmethod
    def setUpClass(cls):
        cls.spark = Spark(2, program=Path(RIPIENO).parent)
        cls.addClassCleanup(cls.spark.close)

    def start_job(self, *sets):
        (self.folder / "recipe.toml").write_text(RECIPE)
        return self.start_driver(ROOT / "examples/spark/train.py", self.spark.master, "recipe.toml", "4", "only=ring", *sets)

    def start_driver(self, *words):
        return self.spark.submit(PYTHON, *words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ranks(self):
        said = subprocess.run(("pgrep", "-f", "^(/.*/)?ripieno train /.*/ripieno-spark-"), capture_output=True, text=True).stdout
        return [pid for pid in said.split() if os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")]

    def has_trained(self, pid):
        """Whether it has written its first lines."""
        try:
            open_files = [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()]
            return any(Path(f"/proc/{pid}/root{file}").stat().st_size > 1000 for file in open_files if "/metrics-" in file)
        except FileNotFoundError:  # a file that was closed meanwhile
            return False

    def wait_for_training(self):
        for _ in range(600):
            ranks = self.ranks()
            if len(ranks) == 4 and all(self.has_trained(pid) for pid in ranks):
                return ranks
            time.sleep(0.1)
        self.fail(f"{self.ranks()} train")

    def nothing_is_left(self):
        for _ in range(300):
            if not self.ranks():
                return
            time.sleep(0.1)
        self.fail(f"{self.ranks()} are left")

    def test_it_trains_as_ripienos_own_launcher(self):
        done = self.run_all(*TRAIN, "-n", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        own = self.hashes()
        job = self.start_job()
        out, err = job.communicate(timeout=180)
        self.assertEqual(job.returncode, 0, err)
        self.assertRegex(out, r"16.00% of the test set, on node\d, node\d, node\d, node\d: runs/0002-ring-n4\n")
        self.assertEqual(self.hashes(), own)
        summary = self.summary()
        self.assertEqual((summary["launcher"], {rank["host"] for rank in summary["ranks"]}), ("spark", {"node2", "node3"}))
        self.assertEqual(len(list((self.folder / "runs/0002-ring-n4").glob("metrics-*.jsonl"))), 4)
        self.nothing_is_left()

    def test_a_killed_rank_ends_the_job_and_is_named(self):
        job = self.start_job("train.epochs=10000")
        os.kill(int(self.wait_for_training()[-1]), signal.SIGKILL)
        _, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 1)
        self.assertRegex(err, r"ripieno_spark.TrainingFailed: rank \d was killed by signal 9 \(SIGKILL\)\n")
        self.nothing_is_left()

    @in_full
    def test_a_driver_that_is_interrupted_leaves_nothing(self):
        job = self.start_job("train.epochs=10000")
        self.wait_for_training()
        driver, = subprocess.run(("pgrep", "-f", f"^{PYTHON} {ROOT}/examples/spark/train.py"), capture_output=True, text=True).stdout.split()
        os.kill(int(driver), signal.SIGINT)
        job.communicate(timeout=120)
        self.assertNotEqual(job.returncode, 0)
        self.nothing_is_left()

    @in_full
    def test_a_rank_without_data_says_so_in_a_line(self):
        job = self.start_job("data.name=mnist", "data.folder=/nowhere")
        _, err = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 1)
        self.assertRegex(err, r"ripieno_spark.TrainingFailed: rank \d: mnist: there is no train-images-idx3-ubyte")

    @in_full
    def test_data_come_from_frames(self):
        (self.folder / "job.py").write_text(FROM_FRAMES)
        job = self.start_driver("job.py")
        out, err = job.communicate(timeout=240)
        self.assertEqual(job.returncode, 0, err)
        lines = out.splitlines()
        accuracy, data = lines[0].split()[1:]
        self.assertGreater(float(accuracy), 0.3)  # guesses: 0.1
        self.assertEqual(data, "mnist")
        self.assertEqual(lines[1:], ["refused: a DataFrame needs the columns image and label, but one has image",
                                     "refused: train and test go together: give both DataFrames or none",
                                     "refused: row 5 of train is not an image of 784 bytes with a label from 0 to 9",
                                     "refused: scale and only choose one of a recipe's runs: give the recipe, too"])


if __name__ == "__main__":
    unittest.main()
