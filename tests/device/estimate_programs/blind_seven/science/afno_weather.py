"""Global weather with adaptive Fourier neural operators: tokens are mixed by small block-diagonal
networks on the coefficients of a two-dimensional FFT. Trained on one step, then tuned on two.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class AFNO2D(nn.Module):
    def __init__(self, width, blocks=8, threshold=0.01, keep=1.0):
        super().__init__()
        self.blocks, self.threshold, self.keep = blocks, threshold, keep
        size = width // blocks
        self.w1 = nn.Parameter(0.02 * torch.randn(2, blocks, size, size))
        self.b1 = nn.Parameter(0.02 * torch.randn(2, blocks, size))
        self.w2 = nn.Parameter(0.02 * torch.randn(2, blocks, size, size))
        self.b2 = nn.Parameter(0.02 * torch.randn(2, blocks, size))

    @staticmethod
    def multiply(x, w):
        return torch.einsum("bhwni,nio->bhwno", x, w)

    def forward(self, x):
        B, H, W, C = x.shape
        f = torch.fft.rfft2(x.float(), dim=(1, 2), norm="ortho")
        modes = int((H // 2 + 1) * self.keep)
        f = f.view(B, H, W // 2 + 1, self.blocks, C // self.blocks)
        part = f[:, :, :modes]
        real = F.relu(
            self.multiply(part.real, self.w1[0]) - self.multiply(part.imag, self.w1[1]) + self.b1[0]
        )
        imag = F.relu(
            self.multiply(part.imag, self.w1[0]) + self.multiply(part.real, self.w1[1]) + self.b1[1]
        )
        out = torch.stack(
            [
                self.multiply(real, self.w2[0]) - self.multiply(imag, self.w2[1]) + self.b2[0],
                self.multiply(imag, self.w2[0]) + self.multiply(real, self.w2[1]) + self.b2[1],
            ],
            dim=-1,
        )
        out = torch.view_as_complex(F.softshrink(out, self.threshold))
        full = torch.zeros_like(f)
        full[:, :, :modes] = out
        full = full.reshape(B, H, W // 2 + 1, C)
        return torch.fft.irfft2(full, s=(H, W), dim=(1, 2), norm="ortho") + x


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.filter = AFNO2D(width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.filter(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class AFNONet(nn.Module):
    def __init__(self, height, width, channels, patch, dim, depth):
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(channels, dim, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(1, height // patch, width // patch, dim))
        nn.init.trunc_normal_(self.position, std=0.02)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, channels * patch * patch, bias=False)
        nn.init.normal_(self.head.weight, std=0.005)
        self.recompute = False

    def forward(self, x):
        h = self.embed(x).permute(0, 2, 3, 1) + self.position
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=False) if self.recompute else block(h)
        return x + F.pixel_shuffle(self.head(h).permute(0, 3, 1, 2), self.patch)


def latitude_weights(height, device):
    latitude = torch.linspace(-89.5, 89.5, height, device=device).deg2rad()
    weights = latitude.cos()
    return (weights / weights.mean()).view(1, 1, height, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--width", type=int, default=720)
    parser.add_argument("--channels", type=int, default=20)
    parser.add_argument("--patch", type=int, default=8)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tune-steps", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    model = AFNONet(args.height, args.width, args.channels, args.patch, args.dim, args.depth).to(
        device
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.95))
    weights = latitude_weights(args.height, device)

    def states(count):
        coarse = torch.randn(args.batch_size, args.channels, 9, 18, device=device)
        first = F.interpolate(coarse, size=(args.height, args.width), mode="bicubic")
        return [first.roll(shifts=2 * i, dims=-1) for i in range(count)]

    for step in range(args.steps):
        now, then = states(2)
        loss = (weights * (model(now) - then).pow(2)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.5f}")

    model.recompute = True
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    for step in range(args.tune_steps):
        now, then, later = states(3)
        first = model(now)
        second = model(first)
        loss = (weights * ((first - then).pow(2) + (second - later).pow(2))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"two steps {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
