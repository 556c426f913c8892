"""pix2pix: a UNet generator with dropout and a patch discriminator, L1 plus adversarial loss."""

import argparse

import torch
import torch.nn as nn


class Unet(nn.Module):
    def __init__(self, nf=64, depth=7):
        super().__init__()
        widths = [min(nf * 2**i, nf * 8) for i in range(depth)]
        self.downs, self.ups = nn.ModuleList(), nn.ModuleList()
        previous = 3
        for i, w in enumerate(widths):
            layers = [nn.LeakyReLU(0.2)] if i else []
            layers.append(nn.Conv2d(previous, w, 4, 2, 1, bias=False))
            if 0 < i < depth - 1:
                layers.append(nn.BatchNorm2d(w))
            self.downs.append(nn.Sequential(*layers))
            previous = w
        for i in reversed(range(depth)):
            out = widths[i - 1] if i else 3
            inner = widths[i] * (1 if i == depth - 1 else 2)
            layers = [nn.ReLU(), nn.ConvTranspose2d(inner, out, 4, 2, 1, bias=i == 0)]
            layers += [nn.BatchNorm2d(out)] if i else [nn.Tanh()]
            if i >= depth - 3:
                layers.append(nn.Dropout(0.5))
            self.ups.append(nn.Sequential(*layers))

    def forward(self, x):
        kept = []
        for down in self.downs:
            x = down(x)
            kept.append(x)
        kept.pop()
        for up in self.ups:
            x = up(x)
            if kept:
                x = torch.cat([x, kept.pop()], 1)
        return x


def discriminator(nf=64):
    layers, c = [nn.Conv2d(6, nf, 4, 2, 1), nn.LeakyReLU(0.2, True)], nf
    for stride in (2, 2, 1):
        layers += [
            nn.Conv2d(c, 2 * c, 4, stride, 1, bias=False),
            nn.BatchNorm2d(2 * c),
            nn.LeakyReLU(0.2, True),
        ]
        c *= 2
    return nn.Sequential(*layers, nn.Conv2d(c, 1, 4, 1, 1))


def init(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--nf", type=int, default=64)
    parser.add_argument("--depth", type=int, default=7)
    parser.add_argument("--lambda_l1", type=float, default=100.0)
    opt = parser.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    G, D = Unet(opt.nf, opt.depth).to(device), discriminator(opt.nf).to(device)
    G.apply(init)
    D.apply(init)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce, l1 = nn.BCEWithLogitsLoss(), nn.L1Loss()
    for it in range(4):
        a = torch.rand(opt.batch_size, 3, opt.size, opt.size, device=device) * 2 - 1
        b = torch.rand_like(a) * 2 - 1
        fake = G(a)
        D.requires_grad_(True)
        opt_d.zero_grad()
        on_fake = D(torch.cat((a, fake.detach()), 1))
        on_real = D(torch.cat((a, b), 1))
        loss_d = 0.5 * (
            bce(on_fake, torch.zeros_like(on_fake)) + bce(on_real, torch.ones_like(on_real))
        )
        loss_d.backward()
        opt_d.step()
        D.requires_grad_(False)
        opt_g.zero_grad()
        on_fake = D(torch.cat((a, fake), 1))
        loss_g = bce(on_fake, torch.ones_like(on_fake)) + opt.lambda_l1 * l1(fake, b)
        loss_g.backward()
        opt_g.step()
        print(f"[{it}] D {loss_d.item():.3f} G {loss_g.item():.3f}")


if __name__ == "__main__":
    main()
