"""Diagonal state spaces on long sequences: complex parameters, kernels of FFT convolutions."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class S4d(nn.Module):
    def __init__(self, width, state):
        super().__init__()
        rate = torch.rand(width) * (math.log(0.1) - math.log(0.001)) + math.log(0.001)
        self.log_dt = nn.Parameter(rate)
        c = torch.randn(width, state // 2, dtype=torch.cfloat)
        self.c = nn.Parameter(torch.view_as_real(c))
        self.log_real = nn.Parameter(torch.log(0.5 * torch.ones(width, state // 2)))
        self.imag = nn.Parameter(math.pi * torch.arange(state // 2).repeat(width, 1).float())
        self.d = nn.Parameter(torch.randn(width))

    def kernel(self, length):
        dt = self.log_dt.exp()
        c = torch.view_as_complex(self.c)
        a = torch.complex(-self.log_real.exp(), self.imag)
        da = a * dt.unsqueeze(-1)
        powers = da.unsqueeze(-1) * torch.arange(length, device=a.device)
        c = c * (torch.exp(da) - 1.0) / a
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(powers)).real

    def forward(self, u):
        length = u.size(-1)
        k = self.kernel(length)
        spectrum = torch.fft.rfft(k, n=2 * length) * torch.fft.rfft(u, n=2 * length)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
        return y + u * self.d.unsqueeze(-1)


class Block(nn.Module):
    def __init__(self, width, state, dropout):
        super().__init__()
        self.ssm = S4d(width, state)
        self.mix = nn.Conv1d(width, 2 * width, 1)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout1d(dropout)

    def forward(self, x):
        y = self.dropout(F.gelu(self.ssm(x)))
        y = F.glu(self.mix(y), dim=1)
        return self.norm((x + self.dropout(y)).transpose(1, 2)).transpose(1, 2)


class Classifier(nn.Module):
    def __init__(self, width, state, layers, classes):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList([Block(width, state, 0.1) for _ in range(layers)])
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        x = self.first(x).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.out(x.mean(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--state", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Classifier(args.width, args.state, args.layers, 10).to(device)
    slow = [p for n, p in model.named_parameters() if "log_" in n or "imag" in n]
    fast = [p for n, p in model.named_parameters() if not ("log_" in n or "imag" in n)]
    optimizer = torch.optim.AdamW(
        [
            {"params": fast, "lr": 4e-3, "weight_decay": 0.01},
            {"params": slow, "lr": 1e-3, "weight_decay": 0.0},
        ]
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10)
    for step in range(args.steps):
        x = torch.randn(args.batch_size, args.length, 3, device=device)
        labels = torch.randint(10, (args.batch_size,), device=device)
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
