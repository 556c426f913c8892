"""Objects as points: ResNet-34 with up-convolutions, focal loss on heatmaps, peaks found."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet34


class CenterNet(nn.Module):
    def __init__(self, classes, width=256):
        super().__init__()
        backbone = resnet34(weights=None)
        self.features = nn.Sequential(*list(backbone.children())[:-2])
        ups, channels = [], 512
        for _ in range(3):
            ups += [
                nn.ConvTranspose2d(channels, width, 4, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
            channels = width
        self.up = nn.Sequential(*ups)
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(
                    nn.Conv2d(width, 64, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(64, n, 1)
                )
                for name, n in (("heat", classes), ("size", 2), ("offset", 2))
            }
        )
        nn.init.constant_(self.heads["heat"][-1].bias, -2.19)

    def forward(self, x):
        y = self.up(self.features(x))
        return {name: head(y) for name, head in self.heads.items()}


def focal(logits, target):
    p = logits.sigmoid().clamp(1e-4, 1 - 1e-4)
    positive = target.eq(1).float()
    loss = positive * (1 - p) ** 2 * p.log()
    loss = loss + (1 - positive) * (1 - target) ** 4 * p**2 * (1 - p).log()
    return -loss.sum() / positive.sum().clamp(min=1)


def make_batch(n, size, classes, objects, device):
    side = size // 4
    at = torch.randint(0, side, (n, objects, 2), device=device)
    kind = torch.randint(0, classes, (n, objects), device=device)
    grid = torch.arange(side, device=device).float()
    dy = grid.view(1, 1, -1, 1) - at[..., 1].view(n, objects, 1, 1)
    dx = grid.view(1, 1, 1, -1) - at[..., 0].view(n, objects, 1, 1)
    bumps = torch.exp(-(dx**2 + dy**2) / 8)
    heat = torch.zeros(n, classes, side, side, device=device)
    for image in range(n):
        for j in range(objects):
            channel = heat[image, kind[image, j]]
            torch.maximum(channel, bumps[image, j], out=channel)
    extent = torch.rand(n, objects, 2, device=device) * 30
    return torch.randn(n, 3, size, size, device=device), heat, at, extent


def at_points(maps, at):
    index = (at[..., 1] * maps.size(3) + at[..., 0]).unsqueeze(1).expand(-1, maps.size(1), -1)
    return maps.flatten(2).gather(2, index).transpose(1, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--objects", type=int, default=8)
    args = parser.parse_args()
    torch.manual_seed(14)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = CenterNet(args.classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.25e-4)
    for step in range(4):
        images, heat, at, extent = make_batch(
            args.batch_size, args.size, args.classes, args.objects, device
        )
        out = model(images)
        loss = focal(out["heat"], heat) + 0.1 * F.l1_loss(at_points(out["size"], at), extent)
        loss = loss + at_points(out["offset"], at).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
    model.eval()
    with torch.no_grad():
        heat = model(images)["heat"].sigmoid()
        peaks = heat * (F.max_pool2d(heat, 3, stride=1, padding=1) == heat)
        scores, where = peaks.flatten(1).topk(50)
    print(scores.mean().item(), where.shape)


if __name__ == "__main__":
    main()
