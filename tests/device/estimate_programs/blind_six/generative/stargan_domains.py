"""StarGAN: one generator for all domains, a critic that also classifies, gradient penalty,
cycle loss.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.InstanceNorm2d(c, affine=True),
            nn.ReLU(inplace=True),
            nn.Conv2d(c, c, 3, 1, 1, bias=False),
            nn.InstanceNorm2d(c, affine=True),
        )

    def forward(self, x):
        return x + self.net(x)


def generator(base, domains, repeats):
    def unit(layer, c):
        return [layer, nn.InstanceNorm2d(c, affine=True), nn.ReLU(inplace=True)]

    layers = unit(nn.Conv2d(3 + domains, base, 7, 1, 3, bias=False), base)
    layers += unit(nn.Conv2d(base, 2 * base, 4, 2, 1, bias=False), 2 * base)
    layers += unit(nn.Conv2d(2 * base, 4 * base, 4, 2, 1, bias=False), 4 * base)
    layers += [Residual(4 * base) for _ in range(repeats)]
    layers += unit(nn.ConvTranspose2d(4 * base, 2 * base, 4, 2, 1, bias=False), 2 * base)
    layers += unit(nn.ConvTranspose2d(2 * base, base, 4, 2, 1, bias=False), base)
    return nn.Sequential(*layers, nn.Conv2d(base, 3, 7, 1, 3, bias=False), nn.Tanh())


class Critic(nn.Module):
    def __init__(self, size, base, domains, repeats):
        super().__init__()
        layers, c = [nn.Conv2d(3, base, 4, 2, 1), nn.LeakyReLU(0.01)], base
        for _ in range(1, repeats):
            layers += [nn.Conv2d(c, 2 * c, 4, 2, 1), nn.LeakyReLU(0.01)]
            c *= 2
        self.body = nn.Sequential(*layers)
        self.real = nn.Conv2d(c, 1, 3, 1, 1, bias=False)
        self.domain = nn.Conv2d(c, domains, size // 2**repeats, bias=False)

    def forward(self, x):
        h = self.body(x)
        return self.real(h), self.domain(h).flatten(1)


def with_domain(x, c):
    return torch.cat([x, c[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    G = generator(args.base, 5, args.repeats).cuda()
    D = Critic(args.size, args.base, 5, 5).cuda()
    g_opt = torch.optim.Adam(G.parameters(), 1e-4, betas=(0.5, 0.999))
    d_opt = torch.optim.Adam(D.parameters(), 1e-4, betas=(0.5, 0.999))
    for step in range(4):
        x = torch.rand(args.batch_size, 3, args.size, args.size).cuda() * 2 - 1
        has = torch.randint(0, 2, (args.batch_size, 5)).float().cuda()
        wanted = has[torch.randperm(args.batch_size).cuda()]
        real, domain = D(x)
        fake = G(with_domain(x, wanted)).detach()
        alpha = torch.rand(args.batch_size, 1, 1, 1).cuda()
        between = (alpha * x + (1 - alpha) * fake).requires_grad_(True)
        out, _ = D(between)
        slope = torch.autograd.grad(out, between, torch.ones_like(out), create_graph=True)[0]
        penalty = ((slope.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        d_loss = D(fake)[0].mean() - real.mean() + 10 * penalty
        d_loss = d_loss + F.binary_cross_entropy_with_logits(domain, has, reduction="sum") / len(x)
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()
        if step % 2 == 1:
            fake = G(with_domain(x, wanted))
            score, domain = D(fake)
            back = G(with_domain(fake, has))
            g_loss = -score.mean() + 10 * (x - back).abs().mean()
            g_loss = g_loss + F.binary_cross_entropy_with_logits(
                domain, wanted, reduction="sum"
            ) / len(x)
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            print(step, d_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
