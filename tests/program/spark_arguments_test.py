"""What ripieno_spark.run() refuses before it asks Spark for anything: each is a ValueError that names the argument."""

import sys
import unittest

from program import ROOT

sys.path.insert(0, str(ROOT / "python"))
import ripieno_spark


class SparkArgumentsTest(unittest.TestCase):
    def test_each_is_named(self):
        for arguments, says in (({"workers": 0}, "workers is 0: give a whole number of at least 1"),
                                ({"workers": "4"}, "workers is '4': give a whole number"),
                                ({"workers": 2.0}, "workers is 2.0: give a whole number"),
                                ({"workers": True}, "workers is True: give a whole number"),
                                ({"recipe": 7}, "recipe is 7: give a file's path"),
                                ({"sets": ["strategy=ring"]}, r"sets is \['strategy=ring'\]: give a dict"),
                                ({"workers": 1, "sets": {"workers": 4}}, "workers is 1, but sets has workers = 4: leave the latter out"),
                                ({"sets": {"workers": "many"}}, "workers is 2, but sets has workers = many"),
                                ({"sets": {"run.folder": "here"}}, "run.folder is each task's own"),
                                ({"train": [1], "test": [1]}, "train is list: give a DataFrame"),
                                ({"scale": "full"}, "scale and only choose one of a recipe's runs")):
            with self.subTest(says), self.assertRaisesRegex(ValueError, f"^{says}"):
                ripieno_spark.run(None, **({"recipe": "", "workers": 2} | arguments))


if __name__ == "__main__":
    unittest.main()
