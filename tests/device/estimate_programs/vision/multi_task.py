"""One backbone, three heads (depth, normals, classes) weighed by learned uncertainty."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet50
from torchvision.models._utils import IntermediateLayerGetter


class Head(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c, 128, 1) for c in (256, 512, 1024, 2048))
        self.fuse = nn.Sequential(
            nn.Conv2d(128, 128, 3, padding=1), nn.GroupNorm(8, 128), nn.ReLU(inplace=True)
        )
        self.out = nn.Conv2d(128, outputs, 1)

    def forward(self, features, size):
        x = None
        for conv, feature in zip(reversed(self.lateral), reversed(features)):
            y = conv(feature)
            if x is not None:
                y = y + F.interpolate(x, size=y.shape[-2:], mode="bilinear", align_corners=False)
            x = y
        return F.interpolate(
            self.out(self.fuse(x)), size=size, mode="bilinear", align_corners=False
        )


class MultiTask(nn.Module):
    def __init__(self, classes):
        super().__init__()
        layers = {f"layer{i}": f"c{i}" for i in range(1, 5)}
        self.backbone = IntermediateLayerGetter(resnet50(weights=None), layers)
        self.depth, self.normals, self.classes = Head(1), Head(3), Head(classes)
        self.log_variance = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        features = list(self.backbone(x).values())
        size = x.shape[-2:]
        return (
            self.depth(features, size),
            F.normalize(self.normals(features, size), dim=1),
            self.classes(features, size),
        )

    def loss(self, outputs, targets):
        depth, normals, classes = outputs
        losses = torch.stack(
            [
                F.smooth_l1_loss(depth, targets[0]),
                (1 - (normals * targets[1]).sum(1)).mean(),
                F.cross_entropy(classes, targets[2]),
            ]
        )
        return (losses * torch.exp(-self.log_variance) + self.log_variance).sum(), losses


def targets(args, device):
    shape = (args.batch_size, args.size, args.size)
    depth = torch.rand(args.batch_size, 1, args.size, args.size, device=device)
    normals = F.normalize(
        torch.randn(args.batch_size, 3, args.size, args.size, device=device), dim=1
    )
    return depth, normals, torch.randint(0, args.classes, shape, device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MultiTask(args.classes).to(device)
    groups = [
        {"params": [p for n, p in model.named_parameters() if n != "log_variance"]},
        {"params": [model.log_variance], "lr": 1e-2},
    ]
    optimizer = torch.optim.NAdam(groups, lr=1e-4)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        loss, parts = model.loss(model(images), targets(args, device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f} parts {[round(x, 3) for x in parts.tolist()]}")


if __name__ == "__main__":
    main()
