"""Sharpness-aware minimization of a wide ResNet: two forward and backward passes a step."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norms = [
            p.grad.norm(2) for g in self.param_groups for p in g["params"] if p.grad is not None
        ]
        norm = torch.norm(torch.stack(norms), 2)
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base.step()
        self.zero_grad()


class Unit(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.short = None
        if inputs != outputs or stride != 1:
            self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(x))
        skip = x if self.short is None else self.short(h)
        return skip + self.conv2(F.relu(self.bn2(self.conv1(h))))


def wide_resnet(depth, widen, classes):
    count = (depth - 4) // 6
    widths = [16, 16 * widen, 32 * widen, 64 * widen]
    layers = [nn.Conv2d(3, 16, 3, 1, 1, bias=False)]
    for stage in range(3):
        for unit in range(count):
            inputs = widths[stage] if unit == 0 else widths[stage + 1]
            layers.append(Unit(inputs, widths[stage + 1], 2 if stage and unit == 0 else 1))
    layers += [nn.BatchNorm2d(widths[3]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(widths[3], classes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--widen", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = wide_resnet(args.depth, args.widen, 10).to(device)
    optimizer = SAM(
        model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9, weight_decay=5e-4
    )
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.base, args.steps)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, 32, 32, device=device)
        labels = torch.randint(0, 10, (args.batch_size,), device=device)
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.first_step()
        F.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        optimizer.second_step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
