"""Bad input of every kind: one line that names it, the exit code of its kind, and nothing left behind."""

import socket
import struct
import subprocess
import unittest

from program import BINARY, DATA, IO, NETWORK, USAGE, WATCHDOG, ProgramTest, Result, sets, SMALL

B = "batch.per_worker=8"

# Arguments, exit code, words of the line. Nothing of this starts a worker.
LINES = [
    # the command line
    ((), USAGE, ["see ripieno --help"]),
    (("trian",), USAGE, ['no command "trian"', "did you mean train?", "ripieno --help"]),
    (("help", "trian"), USAGE, ['no command "trian"', "did you mean train?"]),
    (("train", "--fast"), USAGE, ["--fast", "ripieno train --help"]),
    (("train", "--epochs", "3"), USAGE, ["--epochs", "did you mean --set train.epochs=3?"]),
    (("train", "--batch-size=32"), USAGE, ["did you mean --set batch.per_worker=32?", "batch.global"]),
    (("compare", "--compute", "replay"), USAGE, ["--compute", "did you mean --set train.compute=replay?"]),
    (("explain", "ring", "--gbit-s", "1"), USAGE, ["--gbit-s", "did you mean --mbit-s?", "1 Gb/s is 1000"]),
    (("explain", "ring", "--bandwidth", "1"), USAGE, ["did you mean --mbit-s?"]),
    (("explain", "parameter-server"), USAGE, ["did you mean ps-sync?"]),
    (("train", "--set", "data.samples=9"), USAGE, ["data.samples", "did you mean data.train_samples?"]),
    (("train", "--set", B, "--strategy", "ring-allreduce"), USAGE, ['"ring-allreduce"', 'did you mean "ring"?']),
    (("train", "--set", B, "--strategy", "async"), USAGE, ['"async"', 'did you mean "ps-async"?']),
    (("train", "--stategy", "ring"), USAGE, ["did you mean --strategy?"]),
    (("train", "--workers", "x"), USAGE, ["--workers", "x", "1 to 4096"]),
    (("train", "-n", "-1"), USAGE, ["--workers", "-1", "1 to 4096"]),
    (("list", "colours"), USAGE, ["colours", "strategies"]),
    (("list", "strategy"), USAGE, ['"strategy"', "did you mean strategies?"]),
    (("list", "settings", "optimizer"), USAGE, ['"optimizer"', "did you mean optimiser"]),
    (("list", "models", "vgg"), USAGE, ["list models vgg", "settings"]),
    (("compare",), USAGE, ["recipe is required"]),
    (("launch", "-n", "2"), USAGE, ["command is required"]),
    # settings
    (("train", "--set", "learning_rat.base=1"), USAGE, ["learning_rat.base", "did you mean learning_rate.base?"]),
    (("train", "--set", "momentum=1"), USAGE, ["momentum", "did you mean optimiser.momentum?"]),
    (("train", "--set", "workers"), USAGE, ["--set workers", "KEY=VALUE"]),
    (("train", "--set", "train.epochs=many"), USAGE, ["train.epochs", "whole number", '"many"']),
    (("train", "--set", "train.epochs=1e300"), USAGE, ["train.epochs", "whole number"]),
    (("train", "--set", "learning_rate.base=nan"), USAGE, ["learning_rate.base", "nan", "above 0"]),
    (("train", "--set", B, "--set", "batch.global=8"), USAGE, ["batch.global", "batch.per_worker", "state one"]),
    (("train",), USAGE, ["no batch size", "batch.global", "batch.per_worker"]),
    (("train", "--strategy", "local-sgd", "-n", "8", "--set", "batch.global=4"), USAGE,
     ["batch.global = 4", "8 workers", "at least 8"]),
    (("train", "--set", B, "--set", "optimiser.nesterov=true"), USAGE, ["nesterov", "momentum"]),
    # keys without effect
    (("train", "--set", B, "--set", "lab.mbit_s=10"), USAGE, ["lab.mbit_s = 10.0 (--set)", "lab.nodes = 0 (default)", "above 0"]),
    (("train", "--set", B, "--strategy", "single", "-n", "4"), USAGE, ["workers = 4", 'strategy = "single"']),
    (("train", "--set", B, "--set", "model=mnist-3conv", "--set", "train.dropout=0.5"), USAGE,
     ["train.dropout = 0.5", 'model = "mnist-3conv"', "dropout"]),
    (("explain", "fedavg", "--per-node", "2"), USAGE, ["exchange.per_node = 2", 'strategy = "fedavg"']),
    (("explain", "ring", "--per-node", "2"), USAGE, ["--per-node 2", "route ring", "hierarchical"]),
    (("train", "--set", B, "--scale", "quick"), USAGE, ["--scale quick", "without a recipe"]),
    (("explain", "topk", "--set", "codec.bits=3"), USAGE, ["codec.bits = 3", 'exchange.codec = "topk"', "qsgd"]),
    # bytes that are no text
    (("train", "--set", B, "--set", "run.name=" + 250 * "n"), USAGE, ["run.name", "250"]),
    (("train", "--set", B, "--set", "run.name=\udcff"), USAGE, ["run.name", "UTF-8"]),
    # sizes that make no sense
    (("train", "--set", "workers=0"), USAGE, ["workers = 0", "1 to 4096"]),
    (("train", "--set", "workers=1000000000"), USAGE, ["workers = 1000000000", "1 to 4096"]),
    (("train", "--set", "batch.per_worker=99999999999"), USAGE, ["batch.per_worker", "99999999999"]),
    (("train", "--set", B, "--set", "train.dropout=-0.5"), USAGE, ["train.dropout = -0.5", "0 to below 1"]),
    (("train", "--set", "data.train_samples=-1"), USAGE, ["data.train_samples = -1"]),
    (("explain", "ring", "-n", "0"), USAGE, ["--ranks", "1 to 512"]),
    (("explain", "ring", "--elements", "-1"), USAGE, ["--elements", "-1"]),
    (("explain", "ring", "--elements", "99999999999999999999"), USAGE, ["--elements", "99999999999999999999"]),
    (("explain", "fedavg", "--elements", "100"), USAGE, ["--elements 100", "strategy fedavg", "--model"]),
    (("bench", "all-reduce", "-b", "3"), USAGE, ['"3" is no size', "4K"]),
    (("bench", "all-reduce", "-b", "big"), USAGE, ['"big" is no size']),
    (("bench", "all-reduce", "-b", "1M", "-e", "1K"), USAGE, ["-b 1M is more than -e 1K"]),
    (("bench", "all-reduce", "-e", "1000G"), USAGE, ['"1000G" is no size', "64G"]),
    (("bench", "all-reduce", "-n", "0"), USAGE, ["--ranks", "1 to 512"]),
    (("bench", "all-reduce", "-i", "0"), USAGE, ["--iterations"]),
    # names
    (("train", "--set", B, "--strategy", "rign"), USAGE, ['strategy "rign"', 'did you mean "ring"?', "ps-async"]),
    (("train", "--set", B, "--set", "model=mnist-cn"), USAGE, ['model "mnist-cn"', "mnist-cnn"]),
    (("train", "--set", B, "--set", "data.name=digit"), USAGE, ['data set "digit"', 'did you mean "digits"?']),
    (("train", "--set", B, "--set", "exchange.codec=fp23"), USAGE, ["exchange.codec", '"fp23"', "bf16"]),
    (("train", "--set", "train.epochs=99999999999999999999"), USAGE, ["train.epochs = 99999999999999999999", "64 bits"]),
    (("train", "-n", "2", "--set", "workers=3"), USAGE, ["--set workers=3 and -n 2 both say workers"]),
    (("train", "--strategy", "ring", "--set", "strategy=ddp"), USAGE, ["--set strategy=ddp and --strategy ring"]),
    (("explain", "ddp", "--mbit-s", "nan"), USAGE, ["--mbit-s", "nan", "0.001 to 1000000"]),
    (("explain", "ring", "--mbit-s", "0"), USAGE, ["--mbit-s", "Value 0 not in range"]),
    (("explain", "ring", "--latency-us", "-1"), USAGE, ["--latency-us", "-1", "0 to 10000000000"]),
    (("explain", "ddp", "--wire", "int8", "--set", "exchange.codec=fp16"), USAGE, ["--set exchange.codec=fp16 and --wire int8"]),
    (("explain", "ddp", "--model", "mnist-cnn", "--set", "model=alexnet"), USAGE, ["--set model=alexnet and --model mnist-cnn"]),
    (("explain", "int8", "--set", "workers=3"), USAGE, ["--set workers has no effect with codec int8", "-n"]),
    (("train", "-n", "2", "--set", "workers = 3"), USAGE, ["--set workers = 3 and -n 2"]),
    (("explain", "ddp", "--set", "strategy=ring"), USAGE, ["--set strategy=ring and ddp"]),
    (("explain", "ddp", "-n", "3", "--set", "workers=2"), USAGE, ["--set workers=2 and -n 3"]),
    (("explain", "int8", "--set", "exchange.codec=fp32"), USAGE, ["--set exchange.codec=fp32 and int8"]),
    (("explain", "ddp", "--set", "data.name=mnist", "--set", "data.train_samples=60001"), USAGE, ["60001 samples", "there are 60000"]),
    (("bench", "-f", "nan"), USAGE, ["--factor", "nan"]),
    (("explain", "rign"), USAGE, ['route or strategy "rign"', "halving-doubling"]),
    (("explain", "ring", "--wire", "fp23"), USAGE, ['"fp23"', "bf16"]),
    (("bench", "all-reduce", "--route", "rign"), USAGE, ['route "rign"', "ring"]),
    (("bench", "all-reduce", "--wire", "fp23"), USAGE, ['"fp23"', "bf16"]),
    (("train", "--set", B, "-n", "2", "--set", "lab.slow=[1,1,4]"), USAGE, ["lab.slow", "slows rank 2", "ring has ranks 0 to 1"]),
    (("train", "--set", B, "--strategy", "ps-sync", "--set", "lab.slow=[4]"), USAGE, ["slows rank 0", "is a server"]),
    (("bench", "all-reduce", "--route", "two-phase", "--segment-kb", "64"), USAGE, ["--segment-kb 64", "two-phase"]),
    (("bench", "all-reduce", "-n", "1", "--drain", "4096"), USAGE, ["--drain 4096", "-n 1"]),
    (("bench", "allreduce"), USAGE, ['"allreduce"', 'did you mean "all-reduce"?']),
    (("bench", "all-gather,"), USAGE, ['no operation ""', "all-to-all"]),
    (("bench", "all", "--route", "ring"), USAGE, ['broadcast has no route "ring"', "all-reduce, reduce-scatter and all-gather have", "scatter-gather"]),
    (("bench", "all-gather", "--route", "rign"), USAGE, ['all-gather route "rign"', 'did you mean "ring"?']),
    (("bench", "all-gather", "--root", "1"), USAGE, ["--root 1", "all-gather", "broadcast"]),
    (("bench", "reduce", "--root", "2"), USAGE, ["--root 2", "2 ranks", "0 to 1"]),
    (("bench", "broadcast,scatter", "--reduction", "sum"), USAGE, ["--reduction sum", "broadcast,scatter", "reduce-scatter"]),
    (("bench", "--reduction", "average"), USAGE, ['reduction "average"', "mean"]),
    (("bench", "--type", "int16"), USAGE, ['type "int16"', "int32"]),
    (("bench", "--type", "int32", "--wire", "fp16"), USAGE, ["--wire fp16", "--type int32", "whole numbers"]),
    (("bench", "--type", "bf16", "--wire", "fp32"), USAGE, ["--wire fp32", "--type bf16", "narrower"]),
    (("bench", "all-to-all", "--segment-kb", "8"), USAGE, ["--segment-kb 8", "all-to-all", "broadcast"]),
    (("bench", "scatter", "-n", "3", "-b", "47"), USAGE, ["-b 47", "scatter", "3 ranks", "-b 48"]),
    (("bench", "--type", "fp64", "-b", "4"), USAGE, ["-b 4", "fp64", "-b 8"]),
    (("explain",), USAGE, ["route", "operation", "ripieno list"]),
    (("explain", "all-gathre"), USAGE, ['"all-gathre"', "did you mean all-gather?"]),
    (("explain", "ring", "--operation", "all-gathre"), USAGE, ['"all-gathre"', 'did you mean "all-gather"?']),
    (("explain", "bruck"), USAGE, ['all-reduce has no route "bruck"', "reduce-scatter and all-gather have (--operation)", "halving-doubling"]),
    (("explain", "flat", "--operation", "all-to-all"), USAGE, ['"flat"', "broadcast, reduce, gather and scatter", "pairwise and direct"]),
    (("explain", "broadcast", "--root", "4"), USAGE, ["--root 4", "4 ranks", "0 to 3"]),
    (("explain", "all-gather", "--root", "1"), USAGE, ["--root 1", "all-gather", "scatter"]),
    (("explain", "gather", "--operation", "scatter"), USAGE, ["gather", "--operation scatter", "two operations"]),
    (("explain", "ddp", "--operation", "reduce"), USAGE, ["--operation reduce", "strategy ddp"]),
    (("explain", "topk", "--root", "1"), USAGE, ["--root 1", "codec topk"]),
    (("explain", "all-gather", "--set", "workers=2"), USAGE, ["route bruck", "--set"]),
    (("list", "routes", "all-gathre"), USAGE, ['"all-gathre"', 'did you mean "all-gather"?']),
    (("explain", "topkk"), USAGE, ['"topkk"', "did you mean topk?"]),
    (("train", "--set", B, "--set", "model=alexnet"), USAGE, ["alexnet", "3x32x32", "digits", "1x28x28"]),
    (("train", "--set", B, "--set", "data.deviation=[0.2,0.2]"), USAGE, ["data.deviation has 2 values", "digits 1 channel"]),
    (("train", "--set", B, "--set", "data.normalise=unit", "--set", "data.mean=[0.1]"), USAGE, ["data.mean", "data.normalise"]),
    # files
    (("train", "missing.toml"), USAGE, ["missing.toml", "No such file"]),
    (("train", "binary.toml"), USAGE, ["binary.toml:1:1"]),
    (("train", "broken.toml"), USAGE, ["broken.toml:2:"]),
    (("train", "unknown.toml"), USAGE, ["unknown.toml:2:", "train.epoch;", "did you mean train.epochs?"]),
    (("compare", "missing.toml"), USAGE, ["missing.toml", "No such file"]),
    (("train", "--resume", "."), DATA, ["is no run folder", "config.toml"]),
    (("train", "--resume", "missing"), DATA, ["missing", "is no run folder"]),
    (("train", "--set", B, "--set", "run.folder=binary.toml/runs"), IO, ["binary.toml/runs", "Not a directory"]),
    (("train", "--set", B, "--set", "run.name=a/b"), USAGE, ['run.name = "a/b"', "the name of one folder, which is made in runs"]),
    (("train", "--set", B, "--set", "run.folder="), USAGE, ["run.folder is empty", "runs"]),
    (("train", "--set", B, "--set", "data.name=mnist", "--set", "data.folder=nowhere"), DATA,
     ["train-images-idx3-ubyte", "nowhere", "digits"]),
    (("train", "--set", B, "--set", "data.name=cifar10", "--set", "data.folder=nowhere"), DATA, ["nowhere"]),
    # addresses
    (("train", "--set", B, "--set", "transport.listen=here"), USAGE, ["here", "host:port"]),
    (("train", "--set", B, "--set", "transport.listen=127.0.0.1:99999"), USAGE, ["127.0.0.1:99999", "65535"]),
    (("train", "--set", B, "--set", "transport.listen=203.0.113.1:0"), NETWORK, ["203.0.113.1:0"]),
]


def write_mnist(folder, count=100):
    for name in ("train", "t10k"):
        (folder / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 0x803, count, 28, 28) + bytes(count * 784))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(count))


class ErrorsTest(ProgramTest):
    def check(self, result, code, words):
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.out, "")
        self.assert_one_line(result.err, *words)
        self.assert_no_summary()
        self.assert_nobody_left()

    def test_lines(self):
        (self.folder / "binary.toml").write_bytes(bytes(range(128, 256)))
        (self.folder / "broken.toml").write_text('model = "mnist-cnn"\nworkers = \n')
        (self.folder / "unknown.toml").write_text("[train]\nepoch = 3\n")
        for arguments, code, words in LINES:
            with self.subTest(" ".join(arguments)):
                self.check(self.ripieno(*arguments), code, words)

    def test_the_environment(self):
        """Other launchers' processes, and what workers would not take."""
        mpirun = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
        srun = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}
        torchrun = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "none"}
        (self.folder / "grid.toml").write_text("[batch]\nper_worker = 8\n")
        for variables, arguments, words in (
                (torchrun, ("train", "--set", B), ["rank 1 (torchrun: RANK is 1, WORLD_SIZE is 2)", "secret", "RIPIENO_TOKEN_FILE"]),
                (mpirun, ("compare", "grid.toml"), ["mpirun (Open MPI) has started 2", "OMPI_COMM_WORLD_SIZE is 2", "ripieno launch -n"]),
                (srun, ("launch", "-n", "2", "--", "true"), ["srun has started 4", "SLURM_STEP_NUM_TASKS is 4"]),
                ({"GLORP_RANK": "1", "GLORP_SIZE": "2"}, ("train", "--set", B), ["GLORP_RANK is '1'", "GLORP_SIZE is '2'", "does not know"]),
                ({"RIPIENO_SHARED_MEMORY": "0"}, ("train", "--set", B), ["RIPIENO_SHARED_MEMORY is '0'", "on or off"]),
                ({"RIPIENO_LISTEN": ""}, ("launch", "-n", "2", "--", "true"), ["RIPIENO_LISTEN is empty"])):
            with self.subTest(variables=variables):
                self.variables = variables
                self.check(self.ripieno(*arguments), USAGE, words)
        self.variables = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}  # a shell of sbatch or salloc
        self.good("launch", "-n", "2", "--", "true")

    def test_a_long_argument_is_not_repeated_in_full(self):
        long = "a" * 5000
        words = "b " * 2500
        (self.folder / "long.toml").write_text(f'strategy = "{words}"\nbatch.per_worker = 8\n')
        for arguments in (("train", long), ("train", "--set", B, "--set", f"strategy={long}"), ("train", "--set", f"{long}=1"), (long,), ("train", f"--{long}"),
                          ("train", "--set", B, "--set", f"strategy={words}"), ("train", "--set", B, "--set", f"run.folder={long}"),
                          ("train", "long.toml"), ("report", long), ("explain", long), ("train", "--resume", long)):
            with self.subTest(arguments=[one[:20] for one in arguments]):
                result = self.ripieno(*arguments)
                self.assertNotEqual(result.code, 0)
                self.assertLess(len(result.err), 1000, result.err)
                self.assertIn(" bytes)", result.err)

    def test_files_are_for_whom_the_umask_leaves_them(self):
        done = subprocess.run(["sh", "-c", 'umask 077 && exec "$0" "$@"', BINARY, "train", *sets(SMALL | {"run.trace": "true"})],
                              cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=WATCHDOG)
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = self.runs()
        self.assertGreater(len(list(run.iterdir())), 8)
        for file in run.iterdir():
            self.assertEqual(file.stat().st_mode & 0o077, 0, file)

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            result = self.ripieno("train", *sets(SMALL | {"transport.listen": address}))
        self.check(result, NETWORK, [address, "in use"])

    def mnist(self, **settings):
        settings = {"data.name": "mnist", "data.folder": self.folder, "batch.per_worker": 8} | settings
        return self.ripieno("train", *sets(settings))

    def test_standard_output_that_cannot_be_written(self):
        """It is an error, whatever the command."""
        run = self.train({"workers": 1}).folder
        (run / "summary.json").rename(run / "kept.json")
        for arguments in (("--version",), ("--help",), ("train", "--help"), ("list", "strategies"), ("explain", "ring"),
                          ("train", "--set", B, "--print-config")):
            with self.subTest(" ".join(arguments)):
                self.check(self.ripieno(*arguments, output="/dev/full"), IO, ["standard output: cannot write", "No space left"])
        self.check(self.ripieno("list", "routes", output=None), IO, ["standard output: cannot write", "Bad file descriptor"])
        (run / "kept.json").rename(run / "summary.json")
        for arguments, word in ((("--format", "json"), "standard output"), (("--format", "md", "--output", "/dev/full"), "/dev/full")):
            result = self.ripieno("report", run, *arguments, output="/dev/full")
            self.assertEqual(result.code, IO, result.err)
            self.assert_one_line(result.err, f"{word}: cannot write", "No space left")

    def test_a_working_folder_that_was_deleted(self):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
        for arguments in (("train", *sets(SMALL)), ("bench", "all-reduce", "-n", "2")):
            done = subprocess.run(["sh", "-c", script, BINARY, *arguments], cwd=self.folder, env=self.environment(), text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=WATCHDOG)
            self.check(Result(done.returncode, done.stdout, done.stderr), IO, ["working folder", "deleted"])

    def test_a_truncated_image_file(self):
        write_mnist(self.folder)
        images = self.folder / "train-images-idx3-ubyte"
        images.write_bytes(images.read_bytes()[:-100])
        self.check(self.mnist(), DATA, [str(images), "offset 4", "78416 bytes", "78316", "truncated"])

    def test_another_kind_of_file(self):
        write_mnist(self.folder)
        labels = self.folder / "t10k-labels-idx1-ubyte"
        labels.write_bytes(b"\x7fELF" + labels.read_bytes()[4:])
        self.check(self.mnist(), DATA, [str(labels), "magic number at offset 0", "0x7f454c46", "0x00000801"])

    def test_fewer_labels_than_images(self):
        write_mnist(self.folder)
        (self.folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 99) + bytes(99))
        self.check(self.mnist(), DATA, ["100 images", "99 labels"])

    def test_more_samples_than_there_are(self):
        write_mnist(self.folder)
        self.check(self.mnist(**{"data.train_samples": 101}), USAGE, ["101", "there are 100"])

    def test_a_label_that_is_none_ends_training(self):
        """Both over tcp, where it is a worker that finds it, and in virtual time."""
        write_mnist(self.folder)
        labels = self.folder / "train-labels-idx1-ubyte"
        content = bytearray(labels.read_bytes())
        content[8 + 77] = 12
        labels.write_bytes(content)
        for kind in ("tcp", "simulated"):
            with self.subTest(kind):
                result = self.mnist(**{"transport.kind": kind})
                self.check(result, DATA, [str(labels), "label at offset 85 is 12", "0 to 9"])

    def test_a_damaged_checkpoint(self):
        run = self.train()
        state = run.folder / "state-1.pt"
        (run.folder / "summary.json").unlink()
        for content, word in ((state.read_bytes()[:1000], "state-1.pt"), (b"", "state-1.pt"), (None, "state-1.pt")):
            with self.subTest(content=content and len(content)):
                state.unlink() if content is None else state.write_bytes(content)
                result = self.ripieno("train", "--resume", run.folder, "--set", "train.epochs=2")
                self.assertIn(result.code, (DATA, IO))
                self.check(result, result.code, [word])

    def test_a_checkpoint_of_another_model(self):
        run = self.train()
        (run.folder / "summary.json").unlink()
        result = self.ripieno("train", "--resume", run.folder, *sets(
            {"train.epochs": 2, "model": "alexnet", "data.name": "shapes"}))
        self.assertNotIn(result.code, (0, 1))
        self.check(result, USAGE, ["its model is another, or its numbers lie in another order", "alexnet"])

    def test_a_checkpoint_whose_numbers_have_changed(self):
        run = self.train()
        (run.folder / "summary.json").unlink()
        state = run.folder / "state-1.pt"
        content = bytearray(state.read_bytes())
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
        result = self.ripieno("train", "--resume", run.folder, "--set", "train.epochs=2")
        self.check(result, DATA, ["state-1.pt", "is damaged"])

    def test_a_checkpoint_of_another_order_in_memory(self):
        run = self.train()
        (run.folder / "summary.json").unlink()
        result = self.ripieno("train", "--resume", run.folder, *sets({"train.epochs": 2, "train.channels_last": "false"}))
        self.check(result, USAGE, ["lie in another order", "train.channels_last = false"])

    def test_a_checkpoint_of_more_ranks_or_of_weights_of_their_own(self):
        run = self.train({"strategy": "gossip-pairs", "workers": 3})
        (run.folder / "summary.json").unlink()
        for changed, words in (({"workers": 2}, ["its 3 ranks", "only 2"]),
                               ({"strategy": "ring"}, ["its 3 ranks", 'strategy = "ring"', "rank 0"])):
            with self.subTest(changed):
                self.check(self.ripieno("train", "--resume", run.folder, *sets({"train.epochs": 2} | changed)), USAGE, words)
        alike = self.train({"workers": 3})
        self.assertEqual(self.ripieno("train", "--resume", alike.folder, *sets({"train.epochs": 2, "workers": 2})).code, 0)


if __name__ == "__main__":
    unittest.main()
