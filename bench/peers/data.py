"""MNIST and CIFAR-10 in memory, normalised and in batches of the same samples in the same order as Ripieno's
(ripieno/core/random.h, ripieno/data/sampler.cpp). Where there are no real files, write() makes some of the same format."""

import gzip
import struct
from pathlib import Path

import numpy
import torch

NORMAL = {"mnist": ((0.1307,), (0.3081,)), "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))}
MASK = (1 << 64) - 1


class Random:
    """xoshiro256**, seeded by SplitMix64, as Ripieno has it."""

    def __init__(self, seed, stream=0):
        x = seed ^ ((stream * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) & MASK)
        self.state = []
        for _ in range(4):
            x = (x + 0x9E3779B97F4A7C15) & MASK
            z = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.state.append(z ^ (z >> 31))

    def next(self):
        s = self.state
        result = (s[1] * 5) & MASK
        result = (((result << 7) | (result >> 57)) * 9) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = ((s[3] << 45) | (s[3] >> 19)) & MASK
        return result

    def below(self, n):
        threshold = (1 << 64) % n
        while (drawn := self.next()) < threshold:
            pass
        return drawn % n

    def permutation(self, n):
        order = list(range(n))
        for i in range(n, 1, -1):
            j = self.below(i)
            order[i - 1], order[j] = order[j], order[i - 1]
        return order


def dropout_seed(seed, epoch, step, worker):
    """What Ripieno gives torch::manual_seed before a worker's step."""
    return Random(seed, (epoch << 40) ^ (step << 12) ^ worker).next()


class Batches:
    """The parts of one worker, of batches that all workers share."""

    def __init__(self, samples, batch, worker=0, workers=1, seed=0):
        self.samples, self.batch, self.worker, self.workers, self.seed = samples, batch, worker, workers, seed
        self.steps = -(-samples // batch)

    def epoch(self, epoch):
        """Yields the indices of each step."""
        order = torch.tensor(Random(self.seed ^ 0x65706F636873, epoch).permutation(self.samples))
        for first in range(0, self.samples, self.batch):
            count = min(self.batch, self.samples - first)
            yield order[first + count * self.worker // self.workers:first + count * (self.worker + 1) // self.workers]

    def forever(self):
        """Yields (epoch, step, indices)."""
        epoch = 0
        while True:
            for step, indices in enumerate(self.epoch(epoch)):
                yield epoch, step, indices
            epoch += 1


def find(folder, kind, name):
    for where in (Path(folder), Path(folder) / kind):
        for packed in (False, True):
            path = where / (name + ".gz" * packed)
            if path.exists():
                return gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    raise FileNotFoundError(f"{name} in {folder} or {folder}/{kind}")


def load(name, split, folder, samples=0):
    """Normalised images, N x C x H x W, and labels."""
    if name == "mnist":
        prefix = "train" if split == "train" else "t10k"
        pixels = numpy.frombuffer(find(folder, "mnist", prefix + "-images-idx3-ubyte"), numpy.uint8, offset=16)
        labels = numpy.frombuffer(find(folder, "mnist", prefix + "-labels-idx1-ubyte"), numpy.uint8, offset=8)
        pixels = pixels.reshape(-1, 1, 28, 28)
    else:
        files = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
        raw = b"".join(find(folder, "cifar-10-batches-bin", file) for file in files)
        records = numpy.frombuffer(raw, numpy.uint8).reshape(-1, 3073)
        labels, pixels = records[:, 0], records[:, 1:].reshape(-1, 3, 32, 32)
    count = samples or len(labels)
    mean, deviation = (torch.tensor(each).view(-1, 1, 1) for each in NORMAL[name])
    images = (torch.from_numpy(pixels[:count].copy()).float() / 255 - mean) / deviation
    return images, torch.from_numpy(labels[:count].astype(numpy.int64))


def write(folder, train=10000, test=1000, seed=1):
    """Files of both sets' formats, each class a pattern in noise, unless they are there."""
    folder = Path(folder)
    drawn = numpy.random.default_rng(seed)

    def draw(count, shape, patterns):
        labels = drawn.integers(0, 10, count, dtype=numpy.uint8)
        noise = drawn.integers(0, 128, (count, *shape), dtype=numpy.uint8)
        return labels, noise + patterns[labels]

    mnist, cifar = folder / "mnist", folder / "cifar-10-batches-bin"
    if (cifar / "test_batch.bin").exists():
        return folder
    for each in (mnist, cifar):
        each.mkdir(parents=True, exist_ok=True)
    patterns = drawn.integers(0, 2, (10, 1, 28, 28), dtype=numpy.uint8) * numpy.uint8(100)
    for prefix, count in (("train", train), ("t10k", test)):
        labels, images = draw(count, (1, 28, 28), patterns)
        (mnist / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes())
        (mnist / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + labels.tobytes())
    patterns = drawn.integers(0, 2, (10, 3, 32, 32), dtype=numpy.uint8) * numpy.uint8(100)
    for name, count in [(f"data_batch_{i}.bin", train // 5) for i in range(1, 6)] + [("test_batch.bin", test)]:
        labels, images = draw(count, (3, 32, 32), patterns)
        (cifar / name).write_bytes(numpy.concatenate([labels[:, None], images.reshape(count, -1)], 1).tobytes())
    return folder
