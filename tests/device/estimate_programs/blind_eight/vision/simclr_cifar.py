"""SimCLR with a ResNet-18: two views of every image through v2 transforms on the GPU, LARS."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision import models
from torchvision.transforms import v2


class SimCLR(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.encoder = models.resnet18(weights=None)
        self.encoder.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.encoder.maxpool = nn.Identity()
        width = self.encoder.fc.in_features
        self.encoder.fc = nn.Identity()
        self.projector = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim))

    def forward(self, x):
        return self.projector(self.encoder(x))


def nt_xent(a, b, temperature=0.5):
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = z @ z.t() / temperature
    n = len(a)
    similarity.fill_diagonal_(float("-inf"))
    labels = (torch.arange(2 * n, device=z.device) + n) % (2 * n)
    return F.cross_entropy(similarity, labels)


class LARS(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-6, trust=0.001):
        super().__init__(
            params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust)
        )

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                d = p.grad
                if p.ndim > 1:
                    d = d.add(p, alpha=g["weight_decay"])
                    w, u = p.norm(), d.norm()
                    ratio = torch.where((w > 0) & (u > 0), g["trust"] * w / u, torch.ones_like(w))
                    d = d * ratio
                buffer = self.state[p].setdefault("mu", torch.zeros_like(p))
                buffer.mul_(g["momentum"]).add_(d)
                p.add_(buffer, alpha=-g["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    view = v2.Compose(
        [
            v2.RandomResizedCrop(args.size, scale=(0.2, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.RandomGrayscale(0.2),
            v2.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
        ]
    )
    model = SimCLR().to(device)
    model.train()
    optimizer = LARS(model.parameters(), lr=0.3 * args.batch_size / 256)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        first, second = view(images), view(images)
        loss = nt_xent(model(first), model(second))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
