"""A spectrally normalised GAN with hinge loss: two critics' steps for each generator's, fp16
scaling.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class Up(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.b1, self.c1 = nn.BatchNorm2d(c_in), nn.Conv2d(c_in, c_out, 3, padding=1)
        self.b2, self.c2 = nn.BatchNorm2d(c_out), nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1)

    def forward(self, x):
        y = self.c1(F.interpolate(F.relu(self.b1(x)), scale_factor=2))
        return self.c2(F.relu(self.b2(y))) + self.skip(F.interpolate(x, scale_factor=2))


class Down(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.c1 = spectral_norm(nn.Conv2d(c_in, c_out, 3, padding=1))
        self.c2 = spectral_norm(nn.Conv2d(c_out, c_out, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(c_in, c_out, 1))

    def forward(self, x):
        y = self.c2(F.relu(self.c1(F.relu(x))))
        return F.avg_pool2d(y, 2) + self.skip(F.avg_pool2d(x, 2))


class Generator(nn.Module):
    def __init__(self, latent, width, levels):
        super().__init__()
        self.first = nn.Linear(latent, 4 * 4 * width)
        self.blocks = nn.Sequential(*[Up(width, width) for _ in range(levels)])
        self.last = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, 3, 3, padding=1), nn.Tanh()
        )

    def forward(self, z):
        return self.last(self.blocks(self.first(z).view(len(z), -1, 4, 4)))


class Critic(nn.Module):
    def __init__(self, width, levels):
        super().__init__()
        self.blocks = nn.Sequential(*[Down(3 if i == 0 else width, width) for i in range(levels)])
        self.out = spectral_norm(nn.Linear(width, 1))

    def forward(self, x):
        return self.out(F.relu(self.blocks(x)).sum((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    torch.manual_seed(0)
    device, size = args.device, 4 * 2**args.levels
    half = torch.float16 if device == "cuda" else torch.bfloat16
    generator = Generator(128, args.width, args.levels).to(device)
    critic = Critic(args.width, args.levels).to(device)
    g_opt = torch.optim.Adam(generator.parameters(), 2e-4, betas=(0.0, 0.9))
    c_opt = torch.optim.Adam(critic.parameters(), 2e-4, betas=(0.0, 0.9))
    g_scaler, c_scaler = torch.amp.GradScaler(device), torch.amp.GradScaler(device)
    for step in range(3):
        for _ in range(2):
            real = torch.rand(args.batch_size, 3, size, size).to(device) * 2 - 1
            z = torch.randn(args.batch_size, 128, device=device)
            with torch.autocast(device, half):
                with torch.no_grad():
                    fake = generator(z)
                c_loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
            c_opt.zero_grad()
            c_scaler.scale(c_loss).backward()
            c_scaler.step(c_opt)
            c_scaler.update()
        z = torch.randn(2 * args.batch_size, 128, device=device)
        with torch.autocast(device, half):
            g_loss = -critic(generator(z)).mean()
        g_opt.zero_grad()
        g_scaler.scale(g_loss).backward()
        g_scaler.step(g_opt)
        g_scaler.update()
        print(step, c_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
