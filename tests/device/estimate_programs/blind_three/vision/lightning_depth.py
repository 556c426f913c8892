"""Monocular depth with Lightning: features of timm, a decoder, 16-mixed, validation."""

import argparse
import tempfile

import lightning as L
import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanAbsoluteError


class Rooms(Dataset):
    def __init__(self, n, height, width):
        self.n, self.height, self.width = n, height, width

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.height, self.width, generator=gen)
        coarse = 1 + 9 * torch.rand(1, 1, 6, 8, generator=gen)
        depth = F.interpolate(coarse, (self.height, self.width), mode="bilinear")
        return image, depth[0]


class Up(nn.Module):
    def __init__(self, deep, skip, out):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(deep + skip, out, 3, padding=1),
            nn.BatchNorm2d(out),
            nn.LeakyReLU(0.2),
            nn.Conv2d(out, out, 3, padding=1),
            nn.BatchNorm2d(out),
            nn.LeakyReLU(0.2),
        )

    def forward(self, deep, skip):
        deep = F.interpolate(deep, skip.shape[-2:], mode="bilinear", align_corners=True)
        return self.conv(torch.cat([deep, skip], 1))


class Depth(L.LightningModule):
    def __init__(self, backbone, lr=2e-4):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = timm.create_model(backbone, pretrained=False, features_only=True)
        widths = self.encoder.feature_info.channels()
        self.ups = nn.ModuleList()
        deep = widths[-1]
        for skip in reversed(widths[:-1]):
            self.ups.append(Up(deep, skip, max(deep // 2, 32)))
            deep = max(deep // 2, 32)
        self.head = nn.Conv2d(deep, 1, 3, padding=1)
        self.error = MeanAbsoluteError()

    def forward(self, x):
        *skips, y = self.encoder(x)
        for up, skip in zip(self.ups, reversed(skips)):
            y = up(y, skip)
        y = F.interpolate(self.head(y), x.shape[-2:], mode="bilinear", align_corners=True)
        return F.softplus(y.float())

    def training_step(self, batch, index):
        image, depth = batch
        difference = torch.log(self(image) + 1e-3) - torch.log(depth)
        loss = (difference.square().mean() - 0.85 * difference.mean().square()).sqrt()
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        image, depth = batch
        guess = (self(image) + self(image.flip(-1)).flip(-1)) / 2
        self.error(guess, depth)
        self.log("error", self.error, on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        rate = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": rate, "monitor": "error"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backbone", default="efficientnet_b3")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--height", type=int, default=320)
    parser.add_argument("--width", type=int, default=416)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--precision", default="16-mixed")
    args = parser.parse_args()
    L.seed_everything(1)
    train = Rooms(args.batches * args.batch_size, args.height, args.width)
    valid = Rooms(args.batch_size, args.height, args.width)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            default_root_dir=folder,
            max_epochs=args.epochs,
            devices=1,
            precision=args.precision,
            gradient_clip_val=1.0,
            num_sanity_val_steps=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(
            Depth(args.backbone),
            DataLoader(train, args.batch_size, shuffle=True),
            DataLoader(valid, args.batch_size),
        )
        print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
