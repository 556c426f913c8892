"""A hypernetwork writes the weights of a signal network for each sample of a batch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Signal:
    """Sizes of a small network from coordinates to colours, whose weights come from outside."""

    def __init__(self, hidden, layers):
        sizes = [2, *[hidden] * layers, 3]
        self.shapes = list(zip(sizes, sizes[1:]))
        self.count = sum(a * b + b for a, b in self.shapes)

    def __call__(self, weights, xy):
        h, at = xy, 0
        for number, (a, b) in enumerate(self.shapes):
            matrix = weights[:, at : at + a * b].view(-1, a, b)
            bias = weights[:, at + a * b : at + a * b + b].unsqueeze(1)
            at += a * b + b
            h = torch.baddbmm(bias, h, matrix * a**-0.5)
            if number < len(self.shapes) - 1:
                h = torch.sin(10.0 * h)
        return torch.sigmoid(h)


class Hyper(nn.Module):
    def __init__(self, outputs, width):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, width // 4, 5, stride=2, padding=2),
            nn.PReLU(),
            nn.Conv2d(width // 4, width // 2, 5, stride=2, padding=2),
            nn.PReLU(),
            nn.Conv2d(width // 2, width, 5, stride=2, padding=2),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(16 * width, width),
        )
        self.write = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))

    def forward(self, images):
        return self.write(self.encode(images))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    signal = Signal(args.hidden, args.layers)
    model = Hyper(signal.count, args.width).to(device)
    print("weights for each sample", signal.count)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-3)
    line = torch.linspace(-1, 1, args.size, device=device)
    grid = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1).view(1, -1, 2)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        weights = model(images)
        drawn = signal(weights, grid.expand(args.batch_size, -1, -1))
        wanted = images.flatten(2).transpose(1, 2)
        loss = F.mse_loss(drawn, wanted) + 1e-4 * weights.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
