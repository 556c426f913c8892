"""ResNet-50 with Lightning: loader workers, bf16-mixed, channels last, validation."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __init__(self, n, size, classes):
        self.n, self.size, self.classes = n, size, classes

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        return torch.rand(3, self.size, self.size, generator=g), index % self.classes


class Classifier(L.LightningModule):
    def __init__(self, classes, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = torchvision.models.resnet50(weights=None, num_classes=classes)
        self.net = self.net.to(memory_format=torch.channels_last)

    def training_step(self, batch, _):
        images, labels = batch
        images = images.to(memory_format=torch.channels_last)
        loss = F.cross_entropy(self.net(images), labels, label_smoothing=0.1)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, labels = batch
        logits = self.net(images)
        self.log("val_acc", (logits.argmax(1) == labels).float().mean(), on_epoch=True)
        self.log("val_loss", F.cross_entropy(logits, labels), on_epoch=True)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(
            self.parameters(), lr=self.hparams.lr, momentum=0.9, weight_decay=1e-4, nesterov=True
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batches", type=int, default=5)
    args = parser.parse_args()
    L.seed_everything(0, workers=True)
    common = dict(batch_size=args.batch_size, num_workers=args.workers, pin_memory=True)
    train = DataLoader(
        RandomImages(args.batches * args.batch_size, args.size, args.classes),
        shuffle=True,
        drop_last=True,
        **common,
    )
    val = DataLoader(RandomImages(args.batch_size * 3 // 2, args.size, args.classes), **common)
    trainer = L.Trainer(
        max_epochs=2,
        precision=args.precision,
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=1,
    )
    trainer.fit(Classifier(args.classes, 0.1), train, val)
    print({k: float(v) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
