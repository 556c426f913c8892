"""A Fourier neural operator learns the steps of a flow, unrolled in time while it trains."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        shape = (width, width, modes, modes)
        self.low = nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / width)
        self.high = nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / width)

    def forward(self, x):
        m = self.modes
        spectrum = torch.fft.rfft2(x, norm="ortho")
        out = torch.zeros_like(spectrum)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:], norm="ortho")


class FNO(nn.Module):
    def __init__(self, width, modes, layers):
        super().__init__()
        self.lift = nn.Conv2d(3, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.drop = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GELU())
        self.out = nn.Conv2d(2 * width, 1, 1)

    def forward(self, field):
        B, _, H, W = field.shape
        y = torch.linspace(0, 1, H, device=field.device).view(1, 1, H, 1).expand(B, 1, H, W)
        x = torch.linspace(0, 1, W, device=field.device).view(1, 1, 1, W).expand(B, 1, H, W)
        h = self.lift(torch.cat([field, y, x], 1))
        for spectral, local in zip(self.spectral, self.local):
            h = F.gelu(spectral(h) + local(h))
        return field + self.out(self.drop(h))


def simulate(n, size, steps, device, viscosity=1e-3, dt=0.05):
    """Advection by a fixed whirl and diffusion, solved with derivatives in Fourier space."""
    k = 2 * torch.pi * torch.fft.fftfreq(size, 1 / size, device=device)
    ky, kx = k[:, None], k[None, : size // 2 + 1].abs()
    decay = torch.exp(-viscosity * dt * (kx**2 + ky**2))
    grid = torch.linspace(0, 2 * torch.pi, size, device=device)
    u, v = torch.sin(grid)[:, None], -torch.sin(grid)[None, :]
    smooth = 1 / (1 + (kx**2 + ky**2) / 400)
    field = torch.fft.irfft2(smooth * torch.fft.rfft2(torch.randn(n, size, size, device=device)))
    frames = [field]
    for _ in range(steps):
        spectrum = torch.fft.rfft2(field)
        dx = torch.fft.irfft2(1j * kx * spectrum)
        dy = torch.fft.irfft2(1j * ky * spectrum)
        moved = torch.fft.rfft2(field - dt * 0.1 * (u * dx + v * dy))
        field = torch.fft.irfft2(decay * moved)
        frames.append(field)
    frames = torch.stack(frames, 1)
    return frames / frames.std()


def relative_error(guess, truth):
    return ((guess - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--modes", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--unroll", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = FNO(args.width, args.modes, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with torch.no_grad():
        data = simulate(4 * args.batch_size, args.size, args.unroll, device).unsqueeze(2)
    for step in range(args.steps):
        chosen = data[torch.randint(len(data), (args.batch_size,), device=device)]
        field, loss = chosen[:, 0], 0.0
        for t in range(args.unroll):
            field = model(field)
            loss = loss + relative_error(field, chosen[:, t + 1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item() / args.unroll:.4f}")


if __name__ == "__main__":
    main()
