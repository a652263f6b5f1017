"""recipes/cifar10-fast.toml in PyTorch: bf16 autocast, channels-last. Prints JSON: the accuracy with test-time augmentation,
and the seconds of training and of that last evaluation (reading the files is not counted).

    python bench/peers/cifar10_fast.py --data FOLDER --threads 2

The recipe is airbench94 with Muon: K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv:2404.00498, 2024, and
https://github.com/KellerJordan/cifar10-airbench. Rates are for the mean loss over a batch; the published ones are for its sum."""

import argparse
import json
import os
import sys
import time

BATCH, EPOCHS, WHITEN_EPOCHS = 2000, 8, 3
MUON_RATE, BIAS_RATE, HEAD_RATE = 0.24, 0.053 * BATCH, 0.67 * BATCH
DECAY = 2e-6 * BATCH  # what a step takes off a weight, whatever its rate
SMOOTHING, TRANSLATE, WHITEN_SAMPLES = 0.2, 2, 5000


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a folder with CIFAR-10's binary files")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--samples", type=int, default=0, help="train on the first so many; 0: all")
    parser.add_argument("--test-samples", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many, which are timed; 0: train to the end")
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--plain-images", action="store_true", help="without augmentation: for comparing losses")
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--profile", action="store_true", help="where the time of the steps goes, to standard error")
    return parser.parse_args(argv)


OPTIONS = arguments_of(sys.argv[1:])
os.environ["OMP_NUM_THREADS"] = str(OPTIONS.threads)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import data  # noqa: E402


def convolution(inputs, outputs):
    """3 x 3; its first filters hand their channel on unchanged."""
    made = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    with torch.no_grad():
        nn.init.dirac_(made.weight[:inputs])
    return made


def batch_norm(channels):
    made = nn.BatchNorm2d(channels, eps=1e-12, momentum=0.4)
    made.weight.requires_grad_(False)
    return made


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.norm1 = convolution(inputs, outputs), batch_norm(outputs)
        self.conv2, self.norm2 = convolution(outputs, outputs), batch_norm(outputs)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        self.whiten.weight.requires_grad_(False)
        self.block1, self.block2, self.block3 = Block(24, 64), Block(64, 256), Block(256, 256)
        self.head = nn.Linear(256, 10, bias=False)
        with torch.no_grad():
            self.head.weight /= self.head.weight.std()

    @torch.no_grad()
    def start_whitening(self, images):
        """Filters that give images' 2 x 2 patches unit covariance, and their negatives."""
        patches = F.unfold(images, 2).transpose(1, 2).reshape(-1, 12).double()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        filters = (vectors / (values + 5e-4).sqrt()).T.reshape(12, 3, 2, 2)
        self.whiten.weight.copy_(torch.cat((filters, -filters)))

    def forward(self, images):
        x = self.block3(self.block2(self.block1(F.gelu(self.whiten(images)))))
        return self.head(F.max_pool2d(x, 3).flatten(1)) / 256


def orthogonalised(matrix, steps=3):
    """Newton-Schulz: singular values near 1."""
    x = matrix.bfloat16()
    if len(x) > x.size(1):
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x.T if len(matrix) > matrix.size(1) else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                speed = self.state[p].setdefault("speed", torch.zeros_like(p))
                speed.mul_(group["momentum"]).add_(p.grad)
                direction = p.grad.add(speed, alpha=group["momentum"])
                p.mul_(len(p) ** 0.5 / p.norm())
                p.add_(orthogonalised(direction.flatten(1)).view_as(p), alpha=-group["lr"])


def shifted(images, padded, by):
    """Each image moved by its own pair of pixels, 0 .. 2 * TRANSLATE."""
    out, side = torch.empty_like(images), images.size(-1)
    for y in range(2 * TRANSLATE + 1):
        for x in range(2 * TRANSLATE + 1):
            chosen = (by[:, 0] == y) & (by[:, 1] == x)
            out[chosen] = padded[chosen, :, y:y + side, x:x + side]
    return out


class Batches:
    """The training set's, augmented: mirrored in every other epoch, shifted with reflection at the edges."""

    def __init__(self, images, labels):
        self.order = data.Batches(len(labels), OPTIONS.batch, seed=OPTIONS.seed)
        mirrored = torch.rand(len(labels)) < 0.5
        self.images = images if OPTIONS.plain_images else torch.where(mirrored.view(-1, 1, 1, 1), images.flip(-1), images)
        self.padded = F.pad(self.images, [TRANSLATE] * 4, "reflect")
        self.labels = labels

    def epoch(self, epoch):
        for indices in self.order.epoch(epoch):
            images = self.images[indices]
            if not OPTIONS.plain_images:
                images = shifted(images, self.padded[indices], torch.randint(2 * TRANSLATE + 1, (len(indices), 2)))
                images = images.flip(-1) if epoch % 2 else images
            yield images.contiguous(memory_format=torch.channels_last), self.labels[indices]


def autocast():
    return torch.autocast("cpu", torch.bfloat16, enabled=OPTIONS.precision == "bf16")


@torch.no_grad()
def accuracy(model, images, labels):
    """Mirrored and not, weighted alike; moved by a pixel either way, together half of the weight."""
    model.eval()
    correct = 0
    for some, right in zip(images.split(1000), labels.split(1000)):
        padded, logits = F.pad(some, [1] * 4, "reflect"), 0
        for view, weight in ((some, 0.25), (padded[..., 0:32, 0:32], 0.125), (padded[..., 2:34, 2:34], 0.125)):
            for each in (view, view.flip(-1)):
                with autocast():
                    logits = logits + weight * model(each.contiguous(memory_format=torch.channels_last)).float()
        correct += (logits.argmax(1) == right).sum().item()
    return correct / len(labels)


def train(model, engine, batches, steps):
    """The losses, and when each step ended."""
    filters = [p for p in model.parameters() if p.dim() == 4 and p.requires_grad]
    biases = [p for name, p in model.named_parameters() if "norm" in name and p.requires_grad]
    whiten = {"params": [model.whiten.bias], "lr": BIAS_RATE, "weight_decay": DECAY / BIAS_RATE}
    sgd = torch.optim.SGD([whiten, {"params": biases, "lr": BIAS_RATE, "weight_decay": DECAY / BIAS_RATE},
                           {"params": [model.head.weight], "lr": HEAD_RATE, "weight_decay": DECAY / HEAD_RATE}],
                          momentum=0.85, nesterov=True, fused=True)
    muon = Muon(filters, MUON_RATE, 0.6)
    groups = [(group, group["lr"]) for group in sgd.param_groups + muon.param_groups]
    per_epoch = batches.order.steps
    losses, ends, step = [], [], 0
    for epoch in range(OPTIONS.epochs):
        model.whiten.bias.requires_grad_(epoch < WHITEN_EPOCHS)
        model.train()
        for images, labels in batches.epoch(epoch):
            with autocast():
                loss = F.cross_entropy(engine(images), labels, label_smoothing=SMOOTHING)
            loss.backward()
            for group, rate in groups:
                is_first = group["params"][0] is model.whiten.bias  # a schedule of its own; rests once it has no gradient
                group["lr"] = rate * max(0, 1 - step / (per_epoch * (WHITEN_EPOCHS if is_first else OPTIONS.epochs)))
            sgd.step()
            muon.step()
            sgd.zero_grad()
            muon.zero_grad()
            losses.append(loss.item())
            ends.append(time.perf_counter())
            step += 1
            if step == steps:
                return losses, ends
    return losses, ends


def main():
    torch.set_num_threads(OPTIONS.threads)
    images, labels = data.load("cifar10", "train", OPTIONS.data, OPTIONS.samples)
    test = data.load("cifar10", "test", OPTIONS.data, OPTIONS.test_samples)
    torch.manual_seed(OPTIONS.seed)
    model = Net()
    start = time.perf_counter()
    model.start_whitening(images[:WHITEN_SAMPLES])
    model.to(memory_format=torch.channels_last)
    engine = torch.compile(model) if OPTIONS.compile else model
    batches = Batches(images, labels)
    if OPTIONS.profile:
        with torch.profiler.profile() as profile:
            train(model, engine, batches, OPTIONS.steps)
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=30), file=sys.stderr)
        return
    losses, ends = train(model, engine, batches, OPTIONS.steps)
    found = accuracy(model, *test)
    steps = sorted(b - a for a, b in zip(ends[1:], ends[2:]))
    print(json.dumps({"accuracy": found, "seconds": time.perf_counter() - start, "train_s": ends[-1] - start,
                      "step_s": steps[len(steps) // 2] if steps else None, "losses": losses}))


if __name__ == "__main__":
    main()
