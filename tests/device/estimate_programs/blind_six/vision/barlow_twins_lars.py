"""Barlow Twins with a ResNet-34 and an own LARS optimizer; views are made on the GPU."""

import argparse

import torch
import torch.nn as nn
from torchvision.models import resnet34
from torchvision.transforms import v2


class LARS(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-6, eta=0.001):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                d = p.grad
                if p.ndim > 1:
                    d = d.add(p, alpha=group["weight_decay"])
                    size, change = p.norm(), d.norm()
                    one = torch.ones_like(size)
                    ratio = group["eta"] * size / change
                    trust = torch.where(size > 0, torch.where(change > 0, ratio, one), one)
                    d = d.mul(trust)
                state = self.state[p]
                if "mu" not in state:
                    state["mu"] = torch.zeros_like(p)
                state["mu"].mul_(group["momentum"]).add_(d)
                p.add_(state["mu"], alpha=-group["lr"])


class BarlowTwins(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.backbone = resnet34(zero_init_residual=True)
        self.backbone.fc = nn.Identity()
        sizes = [512, hidden, hidden, hidden]
        layers = []
        for a, b in list(zip(sizes, sizes[1:]))[:-1]:
            layers += [nn.Linear(a, b, bias=False), nn.BatchNorm1d(b), nn.ReLU(inplace=True)]
        layers.append(nn.Linear(sizes[-2], sizes[-1], bias=False))
        self.projector = nn.Sequential(*layers)
        self.norm = nn.BatchNorm1d(hidden, affine=False)

    def forward(self, a, b):
        a, b = self.projector(self.backbone(a)), self.projector(self.backbone(b))
        c = self.norm(a).T @ self.norm(b) / len(a)
        on = torch.diagonal(c).add(-1).pow(2).sum()
        off = c.flatten()[:-1].view(len(c) - 1, len(c) + 1)[:, 1:].pow(2).sum()
        return on + 0.0051 * off


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=4096)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = BarlowTwins(args.hidden).cuda()
    optimizer = LARS(model.parameters(), lr=0.2)
    view = v2.Compose(
        [
            v2.RandomResizedCrop(args.size, scale=(0.3, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.Normalize([0.45] * 3, [0.25] * 3),
        ]
    )
    for step in range(4):
        images = torch.rand(args.batch_size, 3, args.size + 32, args.size + 32).cuda()
        loss = model(view(images), view(images))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
