"""VQGAN: a codebook learned by gradient, features of VGG, a patch critic weighed adaptively."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import vgg16


class Block(nn.Module):
    def __init__(self, width_in, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(16, width_in),
            nn.SiLU(),
            nn.Conv2d(width_in, width, 3, padding=1),
            nn.GroupNorm(16, width),
            nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.skip = nn.Conv2d(width_in, width, 1) if width_in != width else nn.Identity()

    def forward(self, x):
        return self.skip(x) + self.body(x)


class Attend(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(16, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, 3, C, H * W).unbind(1)
        weights = torch.bmm(q.transpose(1, 2), k).mul(C**-0.5).softmax(-1)
        return x + self.out(torch.bmm(v, weights.transpose(1, 2)).view(B, C, H, W))


class VQGAN(nn.Module):
    def __init__(self, base, codes, dim):
        super().__init__()
        widths = [base, base, 2 * base, 4 * base]
        encoder = [nn.Conv2d(3, base, 3, padding=1)]
        for a, b in zip(widths, widths[1:]):
            encoder += [Block(a, b), nn.Conv2d(b, b, 3, stride=2, padding=1)]
        self.encoder = nn.Sequential(*encoder, Attend(widths[-1]), nn.Conv2d(widths[-1], dim, 1))
        self.codes = nn.Embedding(codes, dim)
        nn.init.uniform_(self.codes.weight, -1 / codes, 1 / codes)
        decoder = [nn.Conv2d(dim, widths[-1], 3, padding=1), Attend(widths[-1])]
        for b, a in zip(widths[::-1], widths[-2::-1]):
            decoder += [Block(b, a), nn.Upsample(scale_factor=2), nn.Conv2d(a, a, 3, padding=1)]
        self.decoder = nn.Sequential(*decoder, nn.GroupNorm(16, base), nn.SiLU())
        self.last = nn.Conv2d(base, 3, 3, padding=1)

    def quantize(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.size(1))
        table = self.codes.weight
        distance = flat.square().sum(1, keepdim=True) - 2 * flat @ table.T + table.square().sum(1)
        nearest = distance.argmin(1)
        q = self.codes(nearest).view(z.size(0), z.size(2), z.size(3), -1).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss, nearest

    def forward(self, x):
        q, loss, nearest = self.quantize(self.encoder(x))
        return self.last(self.decoder(q)), loss, nearest


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        layers = vgg16(weights=None).features
        self.slices = nn.ModuleList([layers[:4], layers[4:9], layers[9:16]])
        self.requires_grad_(False)

    def forward(self, x, y):
        total = 0.0
        for part in self.slices:
            x, y = part(x), part(y)
            total = total + (F.normalize(x, dim=1) - F.normalize(y, dim=1)).square().mean()
        return total


def patch_critic(base):
    widths = [3, base, 2 * base, 4 * base]
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(a, b, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
        ]
    return nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, padding=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--base", type=int, default=96)
    parser.add_argument("--codes", type=int, default=8192)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = VQGAN(args.base, args.codes, args.dim).to(device)
    critic = patch_critic(64).to(device)
    features = Features().to(device).eval()
    make = torch.optim.Adam(model.parameters(), lr=4e-5, betas=(0.5, 0.9))
    judge = torch.optim.Adam(critic.parameters(), lr=4e-5, betas=(0.5, 0.9))
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device) * 2 - 1
        rebuilt, code_loss, nearest = model(images)
        likeness = F.l1_loss(rebuilt, images) + features(rebuilt, images)
        fooled = -critic(rebuilt).mean()
        weight = model.last.weight
        by_likeness = torch.autograd.grad(likeness, weight, retain_graph=True)[0].norm()
        by_critic = torch.autograd.grad(fooled, weight, retain_graph=True)[0].norm()
        adaptive = (by_likeness / (by_critic + 1e-4)).clamp(0, 1e4).detach()
        make.zero_grad()
        (likeness + code_loss + 0.8 * adaptive * fooled).backward()
        make.step()
        judge.zero_grad()
        hinge = F.relu(1 - critic(images)).mean() + F.relu(1 + critic(rebuilt.detach())).mean()
        hinge.backward()
        judge.step()
        used = torch.bincount(nearest, minlength=args.codes).count_nonzero()
        print(f"step {step}: likeness {likeness.item():.3f}, {used.item()} codes used")


if __name__ == "__main__":
    main()
