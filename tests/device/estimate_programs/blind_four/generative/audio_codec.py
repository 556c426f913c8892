"""A neural audio codec: strided 1-D convolutions, residual vector quantisation, spectral losses."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


class Residual(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.body = nn.Sequential(
            nn.ELU(),
            weight_norm(nn.Conv1d(width, width // 2, 3, dilation=dilation, padding=dilation)),
            nn.ELU(),
            weight_norm(nn.Conv1d(width // 2, width, 1)),
        )

    def forward(self, x):
        return x + self.body(x)


def encoder(base, strides):
    layers = [weight_norm(nn.Conv1d(1, base, 7, padding=3))]
    for stride in strides:
        layers += [Residual(base, 1), Residual(base, 3), nn.ELU()]
        layers.append(
            weight_norm(nn.Conv1d(base, 2 * base, 2 * stride, stride, padding=stride // 2))
        )
        base *= 2
    return nn.Sequential(*layers), base


def decoder(base, strides):
    layers = []
    for stride in reversed(strides):
        layers += [
            nn.ELU(),
            weight_norm(
                nn.ConvTranspose1d(base, base // 2, 2 * stride, stride, padding=stride // 2)
            ),
        ]
        base //= 2
        layers += [Residual(base, 1), Residual(base, 3)]
    return nn.Sequential(*layers, nn.ELU(), weight_norm(nn.Conv1d(base, 1, 7, padding=3)))


class ResidualCodes(nn.Module):
    def __init__(self, dim, entries, depth, decay=0.99):
        super().__init__()
        self.decay = decay
        self.register_buffer("tables", torch.randn(depth, entries, dim) * 0.1)
        self.register_buffer("counts", torch.ones(depth, entries))
        self.register_buffer("sums", self.tables.clone())

    def forward(self, x):
        flat = x.transpose(1, 2).reshape(-1, x.size(1))
        left, total, commitment = flat, torch.zeros_like(flat), 0.0
        for i in range(len(self.tables)):
            table = self.tables[i]
            codes = torch.cdist(left.detach(), table).argmin(1)
            chosen = F.embedding(codes, table)
            commitment = commitment + F.mse_loss(left, chosen)
            if self.training:
                self.learn(i, left.detach(), codes)
            total = total + chosen
            left = left - chosen
        total = flat + (total - flat).detach()
        return total.view(len(x), -1, x.size(1)).transpose(1, 2), commitment

    @torch.no_grad()
    def learn(self, i, vectors, codes):
        hot = F.one_hot(codes, self.tables.size(1)).to(vectors.dtype)
        self.counts[i].lerp_(hot.sum(0), 1 - self.decay)
        self.sums[i].lerp_(hot.t() @ vectors, 1 - self.decay)
        self.tables[i] = self.sums[i] / self.counts[i].clamp(min=1e-3).unsqueeze(1)


def spectral_loss(a, b):
    loss = 0.0
    for size in (512, 1024, 2048):
        window = torch.hann_window(size, device=a.device)
        sa, sb = (
            torch.stft(x.squeeze(1), size, size // 4, window=window, return_complex=True).abs()
            for x in (a, b)
        )
        loss = loss + F.l1_loss(sa, sb) + F.mse_loss((sa + 1e-5).log(), (sb + 1e-5).log())
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--samples", type=int, default=49152)
    parser.add_argument("--base", type=int, default=32)
    parser.add_argument("--entries", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(33)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    strides = (2, 4, 4, 8)
    front, width = encoder(args.base, strides)
    model = nn.ModuleDict(
        {
            "encoder": front,
            "codes": ResidualCodes(width, args.entries, args.depth),
            "decoder": decoder(width, strides),
        }
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.5, 0.9))
    for step in range(args.steps):
        waves = torch.randn(args.batch_size, 1, args.samples, device=device).cumsum(-1) * 0.01
        waves = waves - waves.mean(-1, keepdim=True)
        codes, commitment = model["codes"](model["encoder"](waves))
        again = model["decoder"](codes)
        loss = spectral_loss(again, waves) + F.l1_loss(again, waves) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
