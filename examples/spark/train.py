#!/usr/bin/env python3
"""Trains on a Spark cluster: python examples/spark/train.py spark://node1:7077 recipes/mnist.toml 4 strategy=ring

Words after the number of workers are settings; scale=SCALE and only=RUN choose one of a recipe's runs."""
import sys

import ripieno_spark
from pyspark.sql import SparkSession

master, recipe, workers, *sets = sys.argv[1:]
spark = SparkSession.builder.master(master).appName("ripieno").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
settings = dict(one.split("=", 1) for one in sets)
chosen = {option: settings.pop(option, None) for option in ("scale", "only")}
result = ripieno_spark.run(spark, recipe, int(workers), settings, **chosen)
print(f"{result.accuracy:.2%} of the test set, on {', '.join(result.hosts)}: {result.folder}")
spark.stop()
