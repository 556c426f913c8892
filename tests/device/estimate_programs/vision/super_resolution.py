"""Four-fold super-resolution: residual blocks, pixel shuffle, L1 and a perceptual loss."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.conv2(F.relu(self.conv1(x)))


class EDSR(nn.Module):
    def __init__(self, channels=64, blocks=16):
        super().__init__()
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Sequential(*[Residual(channels) for _ in range(blocks)])
        self.after = nn.Conv2d(channels, channels, 3, padding=1)
        self.tail = nn.Sequential(
            nn.Conv2d(channels, 4 * channels, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(channels, 4 * channels, 3, padding=1),
            nn.PixelShuffle(2),
            nn.Conv2d(channels, 3, 3, padding=1),
        )

    def forward(self, x):
        x = self.head(x)
        return self.tail(x + self.after(self.body(x)))


class Perceptual(nn.Module):
    """The distance of VGG features of two images."""

    def __init__(self):
        super().__init__()
        self.features = torchvision.models.vgg16(weights=None).features[:16].eval()
        self.features.requires_grad_(False)

    def forward(self, a, b):
        with torch.no_grad():
            target = self.features(b)
        return F.mse_loss(self.features(a), target)


def psnr(a, b):
    return (-10 * torch.log10(F.mse_loss(a.clamp(0, 1), b))).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--crop", type=int, default=192, help="of the large image")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(3)
    model = EDSR(args.channels, args.blocks).cuda()
    perceptual = Perceptual().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.999))
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.5)
    for step in range(args.steps):
        large = torch.rand(args.batch_size, 3, args.crop, args.crop).cuda()
        small = F.interpolate(large, scale_factor=0.25, mode="bicubic", antialias=True)
        made = model(small)
        pixel = F.l1_loss(made, large)
        feature = perceptual(made, large)
        loss = pixel + 0.01 * feature
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {step} l1 {pixel.item():.4f} features {feature.item():.5f}")
    model.eval()
    with torch.no_grad():
        image = torch.rand(1, 3, 2 * args.crop, 2 * args.crop).cuda()
        made = model(F.interpolate(image, scale_factor=0.25, mode="bilinear"))
    print(f"PSNR {psnr(made, image):.2f} dB")


if __name__ == "__main__":
    main()
