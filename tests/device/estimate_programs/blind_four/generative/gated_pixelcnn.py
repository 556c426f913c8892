"""Gated PixelCNN: masked stacks, 256 intensities, sampling pixel by pixel."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, width, kernel, first=False):
        super().__init__()
        self.pad = kernel // 2
        self.first = first
        self.vertical = nn.Conv2d(width, 2 * width, (kernel // 2 + 1, kernel))
        self.horizontal = nn.Conv2d(width, 2 * width, (1, kernel // 2 + (0 if first else 1)))
        self.link = nn.Conv2d(2 * width, 2 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    @staticmethod
    def gate(x):
        a, b = x.chunk(2, 1)
        return torch.tanh(a) * torch.sigmoid(b)

    def forward(self, v, h):
        p = self.pad
        down = self.vertical(F.pad(v, (p, p, p, 0)))
        above = F.pad(down, (0, 0, 1, 0))[:, :, :-1]
        across = F.pad(h, (p, 0, 0, 0))
        across = self.horizontal(across[..., :-1] if self.first else across)
        mixed = self.out(self.gate(across + self.link(above)))
        return self.gate(down), mixed if self.first else h + mixed


class PixelCnn(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Conv2d(1, width, 1)
        self.layers = nn.ModuleList(
            [Layer(width, 7, first=True), *[Layer(width, 5) for _ in range(layers - 1)]]
        )
        self.head = nn.Sequential(
            nn.ReLU(), nn.Conv2d(width, 4 * width, 1), nn.ReLU(), nn.Conv2d(4 * width, 256, 1)
        )

    def forward(self, x):
        v = h = self.embed(x)
        for layer in self.layers:
            v, h = layer(v, h)
        return self.head(h)


@torch.no_grad()
def sample(model, count, size, rows, device):
    image = torch.zeros(count, 1, size, size, device=device)
    for y in range(rows):
        for x in range(size):
            logits = model(image[:, :, : y + 1])[:, :, y, x]
            image[:, 0, y, x] = torch.multinomial(F.softmax(logits, -1), 1).squeeze(1) / 255.0
    return image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=4, help="rows to sample")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(4)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PixelCnn(args.width, args.layers).to(device)
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-4)
    for step in range(args.steps):
        pixels = torch.randint(0, 256, (args.batch_size, args.size, args.size), device=device)
        logits = model(pixels.unsqueeze(1) / 255.0)
        loss = F.cross_entropy(logits, pixels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item() / 0.6931:.3f} bits")
    drawn = sample(model.eval(), 16, args.size, args.rows, device)
    print("sampled", drawn[:, :, : args.rows].mean().item())


if __name__ == "__main__":
    main()
