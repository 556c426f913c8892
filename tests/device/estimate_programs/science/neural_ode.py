"""A neural ODE classifier with torchdiffeq: a convolutional field integrated by Runge-Kutta."""

import argparse

import torch
import torch.nn as nn
from torchdiffeq import odeint, odeint_adjoint


class Field(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, channels), nn.GroupNorm(8, channels)
        self.conv1 = nn.Conv2d(channels + 1, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels + 1, channels, 3, padding=1)
        self.evaluations = 0

    def forward(self, t, x):
        self.evaluations += 1
        time = torch.ones_like(x[:, :1]) * t
        x = self.conv1(torch.cat([time, torch.relu(self.norm1(x))], dim=1))
        return self.conv2(torch.cat([time, torch.relu(self.norm2(x))], dim=1))


class ODEBlock(nn.Module):
    def __init__(self, field, adjoint, steps):
        super().__init__()
        self.field = field
        self.solve = odeint_adjoint if adjoint else odeint
        self.register_buffer("times", torch.tensor([0.0, 1.0]))
        self.step = 1.0 / steps

    def forward(self, x):
        options = {"step_size": self.step}
        return self.solve(self.field, x, self.times, method="rk4", options=options)[-1]


def build(channels, adjoint, steps):
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, 1),
        nn.GroupNorm(8, channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(channels, channels, 4, 2, 1),
        ODEBlock(Field(channels), adjoint, steps),
        nn.GroupNorm(8, channels),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--solver-steps", type=int, default=4)
    parser.add_argument("--adjoint", action="store_true")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(args.channels, args.adjoint, args.solver_steps).to(device)
    field = model[4].field
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.1)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        labels = torch.randint(0, 10, (args.batch_size,)).to(device)
        field.evaluations = 0
        loss = criterion(model(images), labels)
        forward = field.evaluations
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f} field evaluated {forward} times")
    with torch.no_grad():
        images = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        print("classes:", model(images).argmax(1)[:8].tolist())


if __name__ == "__main__":
    main()
