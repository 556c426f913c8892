"""SRGAN in Lightning with manual optimisation: VGG features, relativistic loss."""

import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import vgg16


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1),
            nn.BatchNorm2d(c),
            nn.PReLU(),
            nn.Conv2d(c, c, 3, padding=1),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return x + self.body(x)


class Generator(nn.Module):
    def __init__(self, c=64, blocks=12):
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(3, c, 9, padding=4), nn.PReLU())
        self.body = nn.Sequential(*[ResBlock(c) for _ in range(blocks)])
        self.up = nn.Sequential(
            *[
                layer
                for _ in range(2)
                for layer in (nn.Conv2d(c, 4 * c, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
            ]
        )
        self.tail = nn.Conv2d(c, 3, 9, padding=4)

    def forward(self, x):
        h = self.head(x)
        return torch.tanh(self.tail(self.up(h + self.body(h))))


class Discriminator(nn.Sequential):
    def __init__(self, c=64):
        layers, previous = [], 3
        for i in range(8):
            width = c * 2 ** (i // 2)
            layers.append(nn.Conv2d(previous, width, 3, stride=1 + i % 2, padding=1))
            if i:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            previous = width
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(previous, 1))


class SRGAN(L.LightningModule):
    def __init__(self, channels, blocks):
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.discriminator = Generator(channels, blocks), Discriminator(channels)
        self.features = vgg16(weights=None).features[:16].eval().requires_grad_(False)

    def training_step(self, batch, batch_idx):
        low, high = batch
        opt_g, opt_d = self.optimizers()
        fake = self.generator(low)
        self.toggle_optimizer(opt_g)
        real_score, fake_score = self.discriminator(high).mean().detach(), self.discriminator(fake)
        adversarial = F.softplus(real_score - fake_score).mean()
        perceptual = F.mse_loss(self.features(fake), self.features(high))
        loss_g = perceptual + F.l1_loss(fake, high) + 1e-3 * adversarial
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.toggle_optimizer(opt_d)
        gap = self.discriminator(high) - self.discriminator(fake.detach())
        loss_d = F.softplus(-gap).mean()
        opt_d.zero_grad()
        self.manual_backward(loss_d)
        opt_d.step()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g": loss_g, "d": loss_d})

    def configure_optimizers(self):
        return [
            torch.optim.Adam(m.parameters(), lr=1e-4) for m in (self.generator, self.discriminator)
        ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--crop", type=int, default=128)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--precision", default="32")
    args = parser.parse_args()
    L.seed_everything(3)
    high = torch.rand(4 * args.batch_size, 3, args.crop, args.crop) * 2 - 1
    data = TensorDataset(F.avg_pool2d(high, 4), high)
    trainer = L.Trainer(
        max_epochs=1,
        devices=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(SRGAN(args.channels, args.blocks), DataLoader(data, args.batch_size, shuffle=True))
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
