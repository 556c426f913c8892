"""Street scenes with DeepLabV3-MobileNet in Lightning: poly rate, ignored pixels, mean IoU."""

import argparse

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large


class Streets(Dataset):
    def __init__(self, n, height, width, classes):
        self.n, self.shape, self.classes = n, (height, width), classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.randn(3, *self.shape, generator=g)
        coarse = torch.randint(0, self.classes, (1, 1, 8, 16), generator=g).float()
        label = F.interpolate(coarse, size=self.shape, mode="nearest")[0, 0].long()
        label[:8] = 255
        return image, label


class Segmenter(pl.LightningModule):
    def __init__(self, classes, steps):
        super().__init__()
        self.model = deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=classes, aux_loss=True
        )
        self.classes, self.steps = classes, steps
        self.register_buffer("confusion", torch.zeros(classes, classes, dtype=torch.long))

    def training_step(self, batch, batch_idx):
        images, labels = batch
        out = self.model(images)
        loss = F.cross_entropy(out["out"], labels, ignore_index=255)
        return loss + 0.4 * F.cross_entropy(out["aux"], labels, ignore_index=255)

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        guess = self.model(images)["out"].argmax(1)
        known = labels != 255
        pairs = labels[known] * self.classes + guess[known]
        self.confusion += torch.bincount(pairs, minlength=self.classes**2).view_as(self.confusion)

    def on_validation_epoch_end(self):
        right = self.confusion.diag().float()
        union = self.confusion.sum(0) + self.confusion.sum(1) - right
        self.log("miou", (right / union.clamp(min=1)).mean())
        self.confusion.zero_()

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, self.steps, power=0.9)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()
    pl.seed_everything(19)
    train = Streets(4 * args.batch_size, args.height, args.width, args.classes)
    val = Streets(args.batch_size, args.height, args.width, args.classes)
    trainer = pl.Trainer(
        max_epochs=1,
        precision=args.precision,
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        Segmenter(args.classes, 4),
        DataLoader(train, args.batch_size, shuffle=True, num_workers=2, drop_last=True),
        DataLoader(val, args.batch_size // 2, num_workers=1),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
