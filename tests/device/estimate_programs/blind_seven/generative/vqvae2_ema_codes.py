"""A two-level VQ-VAE on pictures of 256 pixels. The codebooks follow moving averages of the
vectors that chose them, and codes that nobody uses are replaced by vectors of the batch.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantize(nn.Module):
    def __init__(self, dim, codes, decay=0.99, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        embed = torch.randn(codes, dim) / dim**0.5
        self.register_buffer("embed", embed)
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", embed.clone())

    def forward(self, z):
        z = z.permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        distance = (
            flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed.t() + self.embed.pow(2).sum(1)
        )
        index = distance.argmin(dim=1)
        quantized = F.embedding(index, self.embed).view_as(z)
        if self.training:
            self.update(flat.detach(), index)
        commitment = F.mse_loss(z, quantized.detach())
        quantized = z + (quantized - z).detach()
        return quantized.permute(0, 3, 1, 2), commitment, index.view(z.shape[:-1])

    @torch.no_grad()
    def update(self, flat, index):
        onehot = F.one_hot(index, len(self.embed)).to(flat.dtype)
        self.counts.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        total = self.counts.sum()
        smooth = (self.counts + self.eps) / (total + len(self.embed) * self.eps) * total
        self.embed.copy_(self.sums / smooth.unsqueeze(1))
        dead = self.counts < 0.05
        if dead.any():
            chosen = flat[torch.randint(0, len(flat), (int(dead.sum()),), device=flat.device)]
            self.embed[dead] = chosen
            self.sums[dead] = chosen
            self.counts[dead] = 1.0


class ResBlock(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, hidden, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(hidden, channels, 1),
        )

    def forward(self, x):
        return x + self.net(x)


def encoder(c_in, channels, hidden, blocks, stride):
    layers = [nn.Conv2d(c_in, channels // 2, 4, stride=2, padding=1), nn.ReLU(inplace=True)]
    if stride == 4:
        layers += [
            nn.Conv2d(channels // 2, channels, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1),
        ]
    else:
        layers += [nn.Conv2d(channels // 2, channels, 3, padding=1)]
    layers += [ResBlock(channels, hidden) for _ in range(blocks)]
    return nn.Sequential(*layers, nn.ReLU(inplace=True))


def decoder(c_in, c_out, channels, hidden, blocks, stride):
    layers = [nn.Conv2d(c_in, channels, 3, padding=1)]
    layers += [ResBlock(channels, hidden) for _ in range(blocks)]
    layers += [nn.ReLU(inplace=True)]
    if stride == 4:
        layers += [
            nn.ConvTranspose2d(channels, channels // 2, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(channels // 2, c_out, 4, stride=2, padding=1),
        ]
    else:
        layers += [nn.ConvTranspose2d(channels, c_out, 4, stride=2, padding=1)]
    return nn.Sequential(*layers)


class VQVAE2(nn.Module):
    def __init__(self, channels, hidden, blocks, dim, codes):
        super().__init__()
        self.enc_b = encoder(3, channels, hidden, blocks, 4)
        self.enc_t = encoder(channels, channels, hidden, blocks, 2)
        self.to_t = nn.Conv2d(channels, dim, 1)
        self.quantize_t = Quantize(dim, codes)
        self.dec_t = decoder(dim, dim, channels, hidden, blocks, 2)
        self.to_b = nn.Conv2d(dim + channels, dim, 1)
        self.quantize_b = Quantize(dim, codes)
        self.upsample_t = nn.ConvTranspose2d(dim, dim, 4, stride=2, padding=1)
        self.dec = decoder(2 * dim, 3, channels, hidden, blocks, 4)

    def forward(self, x):
        bottom = self.enc_b(x)
        top = self.enc_t(bottom)
        quant_t, diff_t, id_t = self.quantize_t(self.to_t(top))
        mixed = torch.cat([self.dec_t(quant_t), bottom], dim=1)
        quant_b, diff_b, id_b = self.quantize_b(self.to_b(mixed))
        out = self.dec(torch.cat([self.upsample_t(quant_t), quant_b], dim=1))
        return out, diff_t + diff_b, id_t, id_b


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--codes", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = VQVAE2(args.channels, args.hidden, args.blocks, args.dim, args.codes).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    criterion = nn.MSELoss()
    model.train()
    mse_sum, mse_n = 0.0, 0
    for step in range(args.steps):
        img = torch.rand(args.batch_size, 3, 16, 16).cuda()
        img = F.interpolate(img, size=(args.size, args.size), mode="bicubic") * 2 - 1
        model.zero_grad()
        out, latent_loss, id_t, _ = model(img)
        recon_loss = criterion(out, img)
        loss = recon_loss + 0.25 * latent_loss
        loss.backward()
        optimizer.step()
        mse_sum += recon_loss.item() * img.shape[0]
        mse_n += img.shape[0]
        print(
            f"step {step}; mse {recon_loss.item():.5f}; latent {latent_loss.item():.5f}; "
            f"average mse {mse_sum / mse_n:.5f}; codes in use {id_t.unique().numel()}"
        )


if __name__ == "__main__":
    main()
