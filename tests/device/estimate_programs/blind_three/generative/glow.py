"""Glow: actnorm, invertible 1x1 convolutions and couplings over scales; samples by inverting."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ActNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.ready = False

    def forward(self, x):
        if not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean((0, 2, 3), keepdim=True))
                self.log_scale.copy_(-x.std((0, 2, 3), keepdim=True).add(1e-6).log())
            self.ready = True
        y = (x + self.shift) * self.log_scale.exp()
        return y, self.log_scale.sum() * x.shape[2] * x.shape[3]

    def inverse(self, y):
        return y * (-self.log_scale).exp() - self.shift


class Mix(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def forward(self, x):
        area = x.shape[2] * x.shape[3]
        return F.conv2d(x, self.weight[..., None, None]), area * torch.slogdet(self.weight)[1]

    def inverse(self, y):
        return F.conv2d(y, torch.linalg.inv(self.weight)[..., None, None])


class Coupling(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, hidden, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, channels, 3, padding=1),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def parts(self, a):
        shift, scale = self.net(a).chunk(2, 1)
        return shift, torch.sigmoid(scale + 2)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        shift, scale = self.parts(a)
        return torch.cat([a, (b + shift) * scale], 1), scale.log().sum((1, 2, 3))

    def inverse(self, y):
        a, b = y.chunk(2, 1)
        shift, scale = self.parts(a)
        return torch.cat([a, b / scale - shift], 1)


class Glow(nn.Module):
    def __init__(self, scales, steps, hidden):
        super().__init__()
        self.scales = nn.ModuleList()
        channels = 3
        for i in range(scales):
            channels *= 4
            flow = nn.ModuleList()
            for _ in range(steps):
                flow += [ActNorm(channels), Mix(channels), Coupling(channels, hidden)]
            self.scales.append(flow)
            if i < scales - 1:
                channels //= 2

    def forward(self, x):
        latents, total = [], 0.0
        for i, flow in enumerate(self.scales):
            x = F.pixel_unshuffle(x, 2)
            for layer in flow:
                x, log_det = layer(x)
                total = total + log_det
            if i < len(self.scales) - 1:
                x, out = x.chunk(2, 1)
                latents.append(out)
        return [*latents, x], total

    def inverse(self, latents):
        x = None
        for i, flow in reversed(list(enumerate(self.scales))):
            x = latents[i] if x is None else torch.cat([x, latents[i]], 1)
            for layer in reversed(flow):
                x = layer.inverse(x)
            x = F.pixel_shuffle(x, 2)
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--scales", type=int, default=3)
    parser.add_argument("--flow-steps", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Glow(args.scales, args.flow_steps, args.hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    dims = 3 * args.size**2
    for step in range(args.steps):
        images = torch.randint(0, 32, (args.batch_size, 3, args.size, args.size), device=device)
        x = (images + torch.rand(images.shape, device=device)) / 32 - 0.5
        latents, log_det = model(x)
        prior = sum((-0.5 * (z**2 + math.log(2 * math.pi))).sum((1, 2, 3)) for z in latents)
        bits = (-(prior + log_det) / (dims * math.log(2)) + 5).mean()
        optimizer.zero_grad()
        bits.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        optimizer.step()
        print(f"step {step}: {bits.item():.4f} bits per dimension")
    with torch.no_grad():
        samples = model.inverse([0.7 * torch.randn_like(z) for z in latents])
        again = model.inverse(latents)
    print("samples", tuple(samples.shape), "largest error", (again - x).abs().max().item())


if __name__ == "__main__":
    main()
