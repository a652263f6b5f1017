"""model.pt and state-RANK.pt are PyTorch's own format: plain torch.load reads them, and finds the network that was
evaluated. The data are a small MNIST, in its real files, drawn here."""

import struct
import unittest

import numpy
import torch

from program import ProgramTest

MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST, which the program normalises by


def write_idx(path, magic, array):
    dimensions = b"".join(struct.pack(">I", extent) for extent in array.shape)
    path.write_bytes(struct.pack(">I", magic) + dimensions + array.tobytes())


def draw(count, seed):
    """A bright square for each class, at a place of its own that shakes by a pixel, in noise."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(0, 10, count, dtype=numpy.uint8)
    images = random.integers(0, 60, (count, 28, 28), dtype=numpy.uint8)
    for image, label in zip(images, labels):
        row, column = 2 + 9 * (label // 4), 1 + 7 * (label % 4)
        down, right = random.integers(0, 2, 2)
        image[row + down : row + down + 5, column + right : column + right + 4] += numpy.uint8(190)
    return images, labels


def write_mnist(folder):
    folder.mkdir()
    for name, count, seed in (("train", 600, 1), ("t10k", 200, 2)):
        images, labels = draw(count, seed)
        write_idx(folder / f"{name}-images-idx3-ubyte", 0x803, images)
        write_idx(folder / f"{name}-labels-idx1-ubyte", 0x801, labels)
    return images, labels  # of the test set


class MnistCnn(torch.nn.Module):
    """The same network, with PyTorch's own modules."""

    def __init__(self):
        super().__init__()
        layers = []
        for channels, filters in ((1, 32), (32, 128), (128, 256)):
            layers += [torch.nn.Conv2d(channels, filters, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        self.features = torch.nn.Sequential(*layers)
        self.classifier = torch.nn.Sequential(
            torch.nn.Dropout(), torch.nn.Linear(256, 1000), torch.nn.ReLU(), torch.nn.Linear(1000, 100),
            torch.nn.ReLU(), torch.nn.Linear(100, 10))

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


class ModelFileTest(ProgramTest):
    def test_python_finds_the_accuracy_of_the_summary(self):
        images, labels = write_mnist(self.folder / "data")
        run = self.train({"data.name": "mnist", "data.folder": self.folder / "data", "data.train_samples": 0,
                          "data.test_samples": 0, "batch.per_worker": 20, "train.epochs": 2,
                          "learning_rate.base": 0.002, "optimiser.name": "adam", "optimiser.momentum": 0})
        test = run.summary["test"]
        self.assertGreater(test["accuracy"], 0.5, "it learnt something")
        self.assertEqual([rank["bytes_read"] > 600 * 784 for rank in run.summary["ranks"]], [True, True])

        state = torch.load(run.folder / "model.pt")
        model = MnistCnn()
        self.assertEqual(list(state), list(model.state_dict()))
        model.load_state_dict(state)
        model.eval()
        inputs = (torch.from_numpy(images).unsqueeze(1).float() / 255 - MEAN) / DEVIATION
        with torch.no_grad():
            outputs = model(inputs)
        targets = torch.from_numpy(labels).long()
        self.assertEqual((outputs.argmax(1) == targets).double().mean().item(), test["accuracy"])
        self.assertAlmostEqual(torch.nn.functional.cross_entropy(outputs.double(), targets).item(), test["loss"], 5)

        checkpoint = torch.load(run.folder / "state-0.pt")
        as_stored = [tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor for tensor in state.values()]  # channels-last
        flat = torch.cat([tensor.flatten() for tensor in as_stored])
        self.assertTrue(torch.equal(checkpoint["parameters"].flatten(), flat))
        self.assertEqual(int(checkpoint["epochs_done"]), 2)
        other = torch.load(run.folder / "state-1.pt")
        self.assertEqual(list(other), list(checkpoint))
        self.assertTrue(torch.equal(other["parameters"], checkpoint["parameters"]))


if __name__ == "__main__":
    unittest.main()
