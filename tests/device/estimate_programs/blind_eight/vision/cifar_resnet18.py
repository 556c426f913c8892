"""ResNet-18 for 32x32 images, float32, the data set whole on the GPU, crops and flips there."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class BasicBlock(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_planes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        self.in_planes = width
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layers = nn.Sequential(
            *(self.make_layer(width * 2**i, 1 if i == 0 else 2) for i in range(4))
        )
        self.linear = nn.Linear(width * 8, classes)

    def make_layer(self, planes, stride):
        blocks = [BasicBlock(self.in_planes, planes, stride), BasicBlock(planes, planes)]
        self.in_planes = planes
        return nn.Sequential(*blocks)

    def forward(self, x):
        out = self.layers(F.relu(self.bn1(self.conv1(x))))
        return self.linear(F.adaptive_avg_pool2d(out, 1).flatten(1))


def augment(images):
    flipped = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
    images = torch.where(flipped, images.flip(-1), images)
    padded = F.pad(images, (4, 4, 4, 4), mode="reflect")
    top, left = torch.randint(0, 9, (2,)).tolist()
    return padded[:, :, top : top + 32, left : left + 32]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--images", type=int, default=10000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = torch.randint(0, 256, (args.images, 3, 32, 32), dtype=torch.uint8).to(device)
    labels = torch.randint(0, 10, (args.images,)).to(device)
    images = images.float().div(255).sub(0.5).div(0.25)
    net = ResNet(args.width).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.steps)
    order = torch.randperm(args.images, device=device)
    net.train()
    for step in range(args.steps):
        chosen = order[step * args.batch_size : (step + 1) * args.batch_size]
        outputs = net(augment(images[chosen]))
        loss = criterion(outputs, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.3f} lr {scheduler.get_last_lr()[0]:.4f}")
    net.eval()
    with torch.no_grad():
        guesses = [net(part).argmax(1) for part in images[:2000].split(1000)]
    print("accuracy", (torch.cat(guesses) == labels[:2000]).float().mean().item())


if __name__ == "__main__":
    main()
