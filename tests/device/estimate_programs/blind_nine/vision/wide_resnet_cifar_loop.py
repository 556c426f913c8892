"""A WideResNet on CIFAR-sized images in fp32: SGD with Nesterov momentum, test after each epoch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride, drop):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.drop = drop
        same = inputs == outputs and stride == 1
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(x), inplace=True)
        short = x if self.shortcut is None else self.shortcut(out)
        out = F.relu(self.bn2(self.conv1(out)), inplace=True)
        out = F.dropout(out, self.drop, self.training)
        return self.conv2(out) + short


class WideResNet(nn.Module):
    def __init__(self, blocks, widen, classes, drop=0.3):
        super().__init__()
        widths = [16, 16 * widen, 32 * widen, 64 * widen]
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        layers = []
        for i in range(3):
            for j in range(blocks):
                inputs = widths[i] if j == 0 else widths[i + 1]
                stride = 2 if i > 0 and j == 0 else 1
                layers.append(BasicBlock(inputs, widths[i + 1], stride, drop))
        self.layers = nn.Sequential(*layers)
        self.bn = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], classes)

    def forward(self, x):
        x = F.relu(self.bn(self.layers(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def augment(x):
    x = F.pad(x, (4, 4, 4, 4), mode="reflect")
    i, j = torch.randint(0, 9, (2,)).tolist()
    x = x[:, :, i : i + 32, j : j + 32]
    return x.flip(3) if torch.rand(1).item() < 0.5 else x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--widen", type=int, default=8)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randn(args.batch_size * args.batches, 3, 32, 32, device="cuda")
    labels = torch.randint(0, 100, (len(images),), device="cuda")
    model = WideResNet(args.blocks, args.widen, 100).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1], gamma=0.2)
    for epoch in range(args.epochs):
        model.train()
        for rows in torch.randperm(len(images)).split(args.batch_size):
            rows = rows.to("cuda")
            optimizer.zero_grad()
            loss = F.cross_entropy(model(augment(images[rows])), labels[rows])
            loss.backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            right = (model(images[: args.batch_size]).argmax(1) == labels[: args.batch_size]).sum()
        print(epoch, loss.item(), right.item())


if __name__ == "__main__":
    main()
