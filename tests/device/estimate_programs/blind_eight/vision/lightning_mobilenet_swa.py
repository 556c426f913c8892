"""MobileNetV3 with Lightning: 16-bit mixed precision, RMSprop, workers, stochastic weight averaging
in the second epoch.
"""

import argparse
import warnings

import lightning as L
import torch
import torch.nn.functional as F
import torchvision
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch.utils.data import DataLoader
from torchvision import transforms


class Classifier(L.LightningModule):
    def __init__(self, classes, lr):
        super().__init__()
        self.net = torchvision.models.mobilenet_v3_large(num_classes=classes)
        self.lr = lr

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = F.cross_entropy(self(images), labels, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        logits = self(images)
        self.log("val_loss", F.cross_entropy(logits, labels))
        self.log("val_accuracy", (logits.argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.RMSprop(
            self.parameters(), lr=self.lr, alpha=0.9, momentum=0.9, weight_decay=1e-5
        )
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.973)
        return [optimizer], [schedule]


def make_loader(count, args, train):
    steps = [transforms.RandomHorizontalFlip()] if train else []
    data = torchvision.datasets.FakeData(
        count,
        (3, args.size, args.size),
        args.classes,
        transform=transforms.Compose([*steps, transforms.ToTensor()]),
    )
    return DataLoader(data, args.batch_size, shuffle=train, num_workers=3, drop_last=train)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--precision", default="16-mixed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=args.epochs,
        precision=args.precision,
        callbacks=[StochasticWeightAveraging(swa_lrs=1e-3, swa_epoch_start=1)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Classifier(args.classes, 1e-3),
        make_loader(args.batch_size * args.batches, args, True),
        make_loader(args.batch_size, args, False),
    )
    print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
