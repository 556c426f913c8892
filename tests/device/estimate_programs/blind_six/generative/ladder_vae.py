"""A hierarchical VAE: latents at every resolution from the top down, KL with free bits, Adamax."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def block(c_in, hidden, c_out):
    return nn.Sequential(
        nn.GELU(),
        nn.Conv2d(c_in, hidden, 1),
        nn.GELU(),
        nn.Conv2d(hidden, hidden, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(hidden, hidden, 3, padding=1),
        nn.GELU(),
        nn.Conv2d(hidden, c_out, 1),
    )


class TopDown(nn.Module):
    def __init__(self, c, latent):
        super().__init__()
        self.prior = block(c, c // 4, 2 * latent + c)
        self.posterior = block(2 * c, c // 4, 2 * latent)
        self.project = nn.Conv2d(latent, c, 1)
        self.out = block(c, c // 4, c)
        self.latent = latent

    def forward(self, x, a):
        pm, pv, extra = self.prior(x).split([self.latent, self.latent, x.shape[1]], dim=1)
        qm, qv = self.posterior(torch.cat([x, a], dim=1)).chunk(2, dim=1)
        z = qm + qv.exp() * torch.randn_like(qm)
        kl = -0.5 + pv - qv + 0.5 * (qv.exp() ** 2 + (qm - pm) ** 2) / pv.exp() ** 2
        x = x + extra + self.project(z)
        return x + self.out(x), kl.sum((1, 2, 3))


class LadderVAE(nn.Module):
    def __init__(self, width, levels, repeats, latent, size):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.encoder = nn.ModuleList(
            nn.ModuleList(block(width, width // 4, width) for _ in range(repeats))
            for _ in range(levels)
        )
        self.decoder = nn.ModuleList(
            nn.ModuleList(TopDown(width, latent) for _ in range(repeats)) for _ in range(levels)
        )
        low = size // 2 ** (levels - 1)
        self.start = nn.Parameter(torch.zeros(1, width, low, low))
        self.last = nn.Conv2d(width, 6, 3, padding=1)

    def forward(self, x):
        h = self.first(x)
        kept = []
        for i, stage in enumerate(self.encoder):
            if i:
                h = F.avg_pool2d(h, 2)
            for layer in stage:
                h = h + layer(h)
            kept.append(h)
        y, kls = self.start.expand(len(x), -1, -1, -1), []
        for i, stage in enumerate(self.decoder):
            if i:
                y = F.interpolate(y, scale_factor=2)
            for layer in stage:
                y, kl = layer(y, kept[-1 - i])
                kls.append(kl)
        mean, log_scale = self.last(y).chunk(2, dim=1)
        return mean, log_scale.clamp(min=-7), torch.stack(kls)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = LadderVAE(args.width, 4, args.repeats, 16, args.size).cuda()
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
    skipped = 0
    for step in range(4):
        x = torch.rand(args.batch_size, 3, args.size, args.size).cuda() * 2 - 1
        mean, log_scale, kls = model(x)
        nll = ((x - mean) ** 2 / (2 * (2 * log_scale).exp()) + log_scale).sum((1, 2, 3))
        loss = (nll + kls.clamp(min=0.1).sum(0)).mean() / x[0].numel()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 200.0)
        if norm < 1e6:
            optimizer.step()
        else:
            skipped += 1
        print(step, loss.item(), skipped)


if __name__ == "__main__":
    main()
