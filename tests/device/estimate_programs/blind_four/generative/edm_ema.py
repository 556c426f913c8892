"""EDM diffusion: a preconditioned U-Net, a power-law average of weights, Heun's sampler."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, inputs, outputs, embed, attention=False):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, inputs), nn.GroupNorm(16, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.affine = nn.Linear(embed, 2 * outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        self.attention = nn.MultiheadAttention(outputs, 4, batch_first=True) if attention else None
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.affine(e)[:, :, None, None].chunk(2, 1)
        h = self.conv2(F.dropout(F.silu(self.norm2(h) * (1 + scale) + shift), 0.1, self.training))
        x = (self.skip(x) + h) * 0.5**0.5
        if self.attention is not None:
            tokens = x.flatten(2).transpose(1, 2)
            mixed = self.attention(tokens, tokens, tokens, need_weights=False)[0]
            x = x + mixed.transpose(1, 2).view_as(x)
        return x


class Denoiser(nn.Module):
    def __init__(self, base, classes):
        super().__init__()
        embed = 4 * base
        self.register_buffer("freqs", torch.randn(base) * 6.28)
        self.noise = nn.Sequential(
            nn.Linear(2 * base, embed), nn.SiLU(), nn.Linear(embed, embed), nn.SiLU()
        )
        self.label = nn.Embedding(classes, embed)
        self.first = nn.Conv2d(3, base, 3, padding=1)
        w = [base, 2 * base, 2 * base]
        self.down = nn.ModuleList()
        inputs = base
        for i, width in enumerate(w):
            self.down.append(Block(inputs, width, embed, attention=i == 2))
            inputs = width
        self.middle = Block(inputs, inputs, embed, attention=True)
        self.up = nn.ModuleList()
        for i, width in reversed(list(enumerate(w))):
            self.up.append(Block(inputs + width, width, embed, attention=i == 2))
            inputs = width
        self.last = nn.Sequential(
            nn.GroupNorm(16, inputs), nn.SiLU(), nn.Conv2d(inputs, 3, 3, 1, 1)
        )

    def net(self, x, noise, labels):
        angle = noise[:, None] * self.freqs
        e = self.noise(torch.cat([angle.cos(), angle.sin()], 1)) + self.label(labels)
        x, kept = self.first(x), []
        for i, block in enumerate(self.down):
            x = block(x, e)
            kept.append(x)
            x = F.avg_pool2d(x, 2) if i < 2 else x
        x = self.middle(x, e)
        for i, block in enumerate(self.up):
            x = block(torch.cat([x, kept.pop()], 1), e)
            x = F.interpolate(x, scale_factor=2) if i < 2 else x
        return self.last(x)

    def forward(self, x, sigma, labels, data=0.5):
        s = sigma.view(-1, 1, 1, 1)
        total = (s**2 + data**2).sqrt()
        out = self.net(x / total, sigma.log() / 4, labels)
        return data**2 / total**2 * x + s * data / total * out.float()


@torch.no_grad()
def heun(model, x, labels, steps):
    ramp = torch.linspace(0, 1, steps, device=x.device)
    sigmas = (80 ** (1 / 7) + ramp * (0.002 ** (1 / 7) - 80 ** (1 / 7))) ** 7
    sigmas = torch.cat([sigmas, sigmas.new_zeros(1)])
    x = x * sigmas[0]
    for now, after in zip(sigmas[:-1], sigmas[1:]):
        slope = (x - model(x, now.expand(len(x)), labels)) / now
        ahead = x + (after - now) * slope
        if after > 0:
            second = (ahead - model(ahead, after.expand(len(x)), labels)) / after
            ahead = x + (after - now) * (slope + second) / 2
        x = ahead
    return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--base", type=int, default=96)
    parser.add_argument("--sampling", type=int, default=6)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Denoiser(args.base, 10).to(device)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device) * 0.5
        labels = torch.randint(10, (args.batch_size,), device=device)
        sigma = (torch.randn(args.batch_size, device=device) * 1.2 - 1.2).exp()
        weight = (sigma**2 + 0.25) / (sigma * 0.5) ** 2
        noisy = images + torch.randn_like(images) * sigma.view(-1, 1, 1, 1)
        with torch.autocast(device.type, torch.bfloat16):
            clean = model(noisy, sigma, labels)
        loss = (weight.view(-1, 1, 1, 1) * (clean - images).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        share = (1 - 1 / (step + 1)) ** 7.94
        for slow, fast in zip(average.parameters(), model.parameters()):
            slow.data.copy_(torch.lerp(fast.data, slow.data, share))
        print(f"step {step}: {loss.item():.4f}")
        if step % 2 == 1:
            start = torch.randn(2 * args.batch_size, 3, args.size, args.size, device=device)
            drawn = heun(average, start, labels.repeat(2), args.sampling)
            print("sampled", drawn.std().item())


if __name__ == "__main__":
    main()
