"""DeepLabV3 with a MobileNet in Lightning: auxiliary loss, polynomial schedule, validation with a
confusion matrix kept on the GPU.
"""

import argparse
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large


class Scenes(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.randn(3, self.size, self.size, generator=generator)
        mask = torch.randint(0, self.classes, (self.size, self.size), generator=generator)
        return image, mask


class Segmenter(L.LightningModule):
    def __init__(self, classes, steps):
        super().__init__()
        self.net = deeplabv3_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=classes, aux_loss=True
        )
        self.classes, self.steps = classes, steps
        self.register_buffer("confusion", torch.zeros(classes, classes, dtype=torch.long))

    def training_step(self, batch, batch_idx):
        images, masks = batch
        output = self.net(images)
        loss = F.cross_entropy(output["out"], masks, ignore_index=255)
        loss = loss + 0.4 * F.cross_entropy(output["aux"], masks, ignore_index=255)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, masks = batch
        guess = self.net(images)["out"].argmax(1)
        both = masks.flatten() * self.classes + guess.flatten()
        counts = torch.bincount(both, minlength=self.classes**2)
        self.confusion += counts.view(self.classes, self.classes)

    def on_validation_epoch_end(self):
        right = self.confusion.diag().float()
        union = self.confusion.sum(0) + self.confusion.sum(1) - right
        self.log("iou", (right / union.clamp(min=1)).mean())
        self.confusion.zero_()

    def configure_optimizers(self):
        groups = [
            {"params": self.net.backbone.parameters(), "lr": 1e-3},
            {"params": self.net.classifier.parameters(), "lr": 1e-2},
            {"params": self.net.aux_classifier.parameters(), "lr": 1e-2},
        ]
        optimizer = torch.optim.SGD(groups, lr=1e-2, momentum=0.9, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, self.steps, power=0.9)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--size", type=int, default=480)
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    L.seed_everything(1)
    train = Scenes(args.batch_size * args.batches, args.size, args.classes)
    held_out = Scenes(args.batch_size, args.size, args.classes)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Segmenter(args.classes, args.batches),
        DataLoader(train, args.batch_size, shuffle=True, num_workers=2),
        DataLoader(held_out, args.batch_size, num_workers=2),
    )
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
