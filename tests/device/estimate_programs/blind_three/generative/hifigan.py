"""A vocoder in the manner of HiFi-GAN: critics of periods and scales, mel spectrograms by stft."""

import argparse
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


def mel_filters(bands, fft, rate):
    def to_mel(hz):
        return 2595 * torch.log10(1 + hz / 700)

    edges = torch.linspace(0, to_mel(torch.tensor(rate / 2)).item(), bands + 2)
    edges = 700 * (10 ** (edges / 2595) - 1)
    bins = torch.linspace(0, rate / 2, fft // 2 + 1)
    up = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


def log_mel(wave, filters, window, hop):
    fft = len(window)
    wave = F.pad(wave.unsqueeze(1), ((fft - hop) // 2,) * 2, mode="reflect").squeeze(1)
    spectrum = torch.stft(wave, fft, hop, window=window, center=False, return_complex=True)
    return torch.log((filters @ spectrum.abs()).clamp(min=1e-5))


class ResBlock(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.ModuleList(
                weight_norm(nn.Conv1d(channels, channels, kernel, dilation=d, padding="same"))
                for d in (dilation, 1)
            )
            for dilation in (1, 3, 5)
        )

    def forward(self, x):
        for first, second in self.convs:
            x = x + second(F.leaky_relu(first(F.leaky_relu(x, 0.1)), 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, bands, channels, rates=(8, 8, 2, 2), kernels=(3, 7, 11)):
        super().__init__()
        self.first = weight_norm(nn.Conv1d(bands, channels, 7, padding=3))
        self.ups, self.blocks = nn.ModuleList(), nn.ModuleList()
        for rate in rates:
            self.ups.append(
                weight_norm(
                    nn.ConvTranspose1d(channels, channels // 2, 2 * rate, rate, padding=rate // 2)
                )
            )
            channels //= 2
            self.blocks.append(nn.ModuleList(ResBlock(channels, k) for k in kernels))
        self.last = weight_norm(nn.Conv1d(channels, 1, 7, padding=3))

    def forward(self, mel):
        x = self.first(mel)
        for up, blocks in zip(self.ups, self.blocks):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(block(x) for block in blocks) / len(blocks)
        return self.last(F.leaky_relu(x)).tanh().squeeze(1)


class PeriodCritic(nn.Module):
    def __init__(self, period, channels):
        super().__init__()
        self.period = period
        widths = [1, channels, 4 * channels, 8 * channels]
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv2d(a, b, (5, 1), (3, 1), padding=(2, 0)))
            for a, b in zip(widths, widths[1:])
        )
        self.out = weight_norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, wave):
        extra = -wave.size(1) % self.period
        x = F.pad(wave.unsqueeze(1), (0, extra), mode="reflect").unflatten(2, (-1, self.period))
        maps = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            maps.append(x)
        return self.out(x), maps


class ScaleCritic(nn.Module):
    def __init__(self, pool, channels):
        super().__init__()
        self.pool = pool
        c = channels
        plan = [(1, c, 15, 1, 1), (c, 4 * c, 41, 4, 4), (4 * c, 8 * c, 41, 4, 16)]
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv1d(a, b, k, s, groups=g, padding=k // 2)) for a, b, k, s, g in plan
        )
        self.out = weight_norm(nn.Conv1d(8 * c, 1, 3, padding=1))

    def forward(self, wave):
        x = wave.unsqueeze(1)
        if self.pool > 1:
            x = F.avg_pool1d(x, self.pool)
        maps = []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            maps.append(x)
        return self.out(x), maps


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--frames", type=int, default=48)
    parser.add_argument("--bands", type=int, default=80)
    parser.add_argument("--channels", type=int, default=384)
    parser.add_argument("--critic-channels", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    hop, fft = 256, 1024
    filters = mel_filters(args.bands, fft, 22050).to(device)
    window = torch.hann_window(fft, device=device)
    generator = Generator(args.bands, args.channels).to(device)
    critics = nn.ModuleList(
        [PeriodCritic(p, args.critic_channels) for p in (2, 3, 5, 7, 11)]
        + [ScaleCritic(p, args.critic_channels) for p in (1, 2, 4)]
    ).to(device)
    make = torch.optim.AdamW(generator.parameters(), 2e-4, betas=(0.8, 0.99))
    judge = torch.optim.AdamW(itertools.chain(critics.parameters()), 2e-4, betas=(0.8, 0.99))
    rates = [torch.optim.lr_scheduler.ExponentialLR(o, 0.999) for o in (make, judge)]
    for step in range(args.steps):
        wave = 0.3 * torch.randn(args.batch_size, args.frames * hop, device=device)
        mel = log_mel(wave, filters, window, hop)
        fake = generator(mel)
        judge.zero_grad()
        loss = 0.0
        for critic in critics:
            real_score, _ = critic(wave)
            fake_score, _ = critic(fake.detach())
            loss = loss + (1 - real_score).square().mean() + fake_score.square().mean()
        loss.backward()
        judge.step()

        make.zero_grad()
        total = 45 * F.l1_loss(log_mel(fake, filters, window, hop), mel)
        for critic in critics:
            with torch.no_grad():
                _, wanted = critic(wave)
            score, maps = critic(fake)
            total = total + (1 - score).square().mean()
            total = total + 2 * sum(F.l1_loss(a, b) for a, b in zip(maps, wanted))
        total.backward()
        make.step()
        for rate in rates:
            rate.step()
        print(f"step {step}: critics {loss.item():.3f}, generator {total.item():.3f}")


if __name__ == "__main__":
    main()
