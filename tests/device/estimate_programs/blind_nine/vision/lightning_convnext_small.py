"""ConvNeXt in Lightning: bf16-mixed, MixUp, clipping, cosine schedule, validation accuracy."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import convnext_small, convnext_tiny


class Images(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randn(3, self.size, self.size, generator=generator), i % self.classes


class Classifier(L.LightningModule):
    def __init__(self, small, classes):
        super().__init__()
        self.net = (convnext_small if small else convnext_tiny)(num_classes=classes)
        self.classes = classes

    def training_step(self, batch, _):
        x, y = batch
        share = torch.distributions.Beta(0.8, 0.8).sample().item()
        order = torch.randperm(len(x), device=x.device)
        x = share * x + (1 - share) * x[order]
        y = F.one_hot(y, self.classes).float()
        loss = F.cross_entropy(self.net(x), share * y + (1 - share) * y[order])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=4e-3, weight_decay=0.05)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--precision", default="bf16-mixed")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    L.seed_everything(0)
    trainer = L.Trainer(
        max_epochs=1,
        devices=1,
        precision=args.precision,
        gradient_clip_val=5.0,
        num_sanity_val_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    train = Images(args.batch_size * args.batches, args.size, args.classes)
    held = Images(args.batch_size, args.size, args.classes)
    trainer.fit(
        Classifier(not args.tiny, args.classes),
        DataLoader(train, args.batch_size, shuffle=True, num_workers=2, persistent_workers=True),
        DataLoader(held, args.batch_size),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
