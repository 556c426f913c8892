"""Full-waveform inversion: the speed of rock from waves, stepped with checkpoints."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def laplace(p, kernel):
    return F.conv2d(p.unsqueeze(1), kernel, padding=2).squeeze(1)


def some_steps(now, before, speed, damp, source, at, start, count, kernel, receivers):
    seen = []
    for i in range(start, start + count):
        after = (2 - damp) * now - (1 - damp) * before + speed**2 * laplace(now, kernel)
        after = after.index_put((at[0], at[1], at[2]), source[:, i], accumulate=True)
        before, now = now, after
        seen.append(now[:, 4, receivers])
    return now, before, torch.stack(seen, 1)


def shoot(speed, damp, source, at, args, kernel, receivers):
    B = args.shots
    now = torch.zeros(B, *speed.shape, device=speed.device)
    before, parts = torch.zeros_like(now), []
    for start in range(0, args.times, args.chunk):
        now, before, seen = checkpoint(
            some_steps,
            now,
            before,
            speed,
            damp,
            source,
            at,
            start,
            min(args.chunk, args.times - start),
            kernel,
            receivers,
            use_reentrant=False,
        )
        parts.append(seen)
    return torch.cat(parts, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--size", type=int, nargs=2, default=[256, 512])
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--chunk", type=int, default=20)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(12)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    H, W = args.size
    row = torch.tensor([-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12], device=device)
    kernel = torch.zeros(1, 1, 5, 5, device=device)
    kernel[0, 0, 2] += row
    kernel[0, 0, :, 2] += row
    depth = torch.linspace(0.25, 0.5, H, device=device)[:, None].expand(H, W)
    truth = depth + 0.02 * torch.sin(torch.arange(W, device=device) * 12.0 / W)
    edge = torch.minimum(
        torch.arange(W, device=device).minimum(W - 1 - torch.arange(W, device=device))[None],
        torch.arange(H, device=device).flip(0)[:, None],
    )
    damp = 0.1 * (1 - edge / 20).clamp(min=0).square()
    t = torch.arange(args.times, device=device) * 0.02 - 1.0
    ricker = (1 - 2 * (math.pi * 5 * t) ** 2) * torch.exp(-((math.pi * 5 * t) ** 2))
    source = ricker.expand(args.shots, -1)
    at = (
        torch.arange(args.shots, device=device),
        torch.full((args.shots,), 6, device=device),
        torch.linspace(10, W - 10, args.shots, device=device).long(),
    )
    receivers = torch.arange(0, W, 4, device=device)
    with torch.no_grad():
        recorded = shoot(truth, damp, source, at, args, kernel, receivers)
    speed = depth.clone().requires_grad_()
    optimizer = torch.optim.Adam([speed], lr=1e-3)
    for step in range(args.steps):
        made = shoot(speed, damp, source, at, args, kernel, receivers)
        loss = F.mse_loss(made, recorded)
        optimizer.zero_grad()
        loss.backward()
        speed.grad[:8] = 0
        optimizer.step()
        speed.data.clamp_(0.1, 0.6)
        print(f"step {step}: {loss.item():.4e}")


if __name__ == "__main__":
    main()
