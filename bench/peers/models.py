"""The networks of Ripieno's zoo (ripieno/model/), with PyTorch's modules. The names in their state dicts are those of
Ripieno's model.pt, and layers draw their first weights in its order, so that a seed gives the same ones."""

import torch
from torch import nn


def conv(inputs, outputs, size=3, stride=1, padding=1, bias=True):
    return nn.Conv2d(inputs, outputs, size, stride, padding, bias=bias)


def start_kaiming(model):
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class Classifier(nn.Module):
    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = features, classifier

    def forward(self, images):
        return self.classifier(torch.flatten(self.features(images), 1))


def mnist_cnn():
    features = nn.Sequential()
    for inputs, outputs in ((1, 32), (32, 128), (128, 256)):
        features.extend([conv(inputs, outputs, padding=0), nn.ReLU(True), nn.MaxPool2d(2)])
    return Classifier(features, nn.Sequential(nn.Dropout(0.5), nn.Linear(256, 1000), nn.ReLU(True),
                                              nn.Linear(1000, 100), nn.ReLU(True), nn.Linear(100, 10)))


def mnist_3conv():
    features = nn.Sequential(conv(1, 16, 5, 2, 0), nn.ReLU(True), conv(16, 32, 3, 2, 0), nn.ReLU(True),
                             conv(32, 64, 3, 1, 0), nn.ReLU(True))
    return Classifier(features, nn.Sequential(nn.Linear(64 * 3 * 3, 64), nn.ReLU(True), nn.Linear(64, 10)))


def vgg11(norm=False):
    features, inputs = nn.Sequential(), 3
    for outputs in (64, None, 128, None, 256, 256, None, 512, 512, None, 512, 512, None):
        if outputs is None:
            features.append(nn.MaxPool2d(2))
            continue
        features.append(conv(inputs, outputs))
        if norm:
            features.append(nn.BatchNorm2d(outputs))
        features.append(nn.ReLU(True))
        inputs = outputs
    model = Classifier(features, nn.Linear(inputs, 10))
    start_kaiming(model)
    nn.init.normal_(model.classifier.weight, 0, 0.01)
    nn.init.zeros_(model.classifier.bias)
    return model


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, stride=stride, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride, 0, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


class ResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        inputs = 64
        self.conv1, self.bn1 = conv(3, inputs, bias=False), nn.BatchNorm2d(inputs)
        for stage, count in enumerate(blocks):
            layer, outputs = nn.Sequential(), 64 << stage
            for block in range(count):
                layer.append(BasicBlock(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
                inputs = outputs
            setattr(self, f"layer{stage + 1}", layer)
        self.fc = nn.Linear(inputs, 10)
        start_kaiming(self)

    def forward(self, images):
        x = self.bn1(self.conv1(images)).relu_()
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def alexnet():
    features = nn.Sequential(conv(3, 64, stride=2), nn.ReLU(True), nn.MaxPool2d(2), conv(64, 192), nn.ReLU(True),
                             nn.MaxPool2d(2), conv(192, 384), nn.ReLU(True), conv(384, 256), nn.ReLU(True),
                             conv(256, 256), nn.ReLU(True), nn.MaxPool2d(2))
    return Classifier(features, nn.Sequential(nn.Dropout(0.5), nn.Linear(256 * 2 * 2, 4096), nn.ReLU(True),
                                              nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(True), nn.Linear(4096, 10)))


ZOO = {"mnist-cnn": mnist_cnn, "mnist-3conv": mnist_3conv, "vgg11": vgg11, "vgg11-bn": lambda: vgg11(True),
       "resnet18": lambda: ResNet((2, 2, 2, 2)), "alexnet": alexnet}
DATA = {"mnist-cnn": "mnist", "mnist-3conv": "mnist"}  # else cifar10


def data_of(model):
    return DATA.get(model, "cifar10")


def make(name, seed=0, weights=None):
    """weights: a model.pt of Ripieno's, or None for those of the seed, which are the same."""
    torch.manual_seed(seed)
    model = ZOO[name]()
    if weights:
        model.load_state_dict(torch.load(weights))
    return model
