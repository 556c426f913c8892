"""ViT-B/16 in Lightning: bf16, mixup on the GPU, layer-wise learning rates, an EMA callback."""

import argparse
import copy

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import VisionTransformer
from torchvision.transforms import v2


class Images(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, self.size, self.size, generator=g), i % self.classes


class KeepAverage(L.Callback):
    def on_fit_start(self, trainer, module):
        self.average = copy.deepcopy(module.net).eval()

    def on_train_batch_end(self, trainer, module, *_):
        with torch.no_grad():
            for a, p in zip(self.average.parameters(), module.net.parameters()):
                a.lerp_(p, 0.001)


class Classifier(L.LightningModule):
    def __init__(self, size, patch, layers, width, classes):
        super().__init__()
        self.net = VisionTransformer(
            size, patch, layers, width // 64, width, 4 * width, dropout=0.1, num_classes=classes
        )
        self.mixup = v2.MixUp(num_classes=classes, alpha=0.2)

    def training_step(self, batch, _):
        images, labels = self.mixup(*batch)
        loss = F.cross_entropy(self.net(images), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("top1", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        layers = self.net.encoder.layers
        groups = [{"params": self.net.conv_proj.parameters(), "lr": 1e-5}]
        for depth, layer in enumerate(layers):
            groups.append({"params": layer.parameters(), "lr": 1e-3 * 0.8 ** (len(layers) - depth)})
        groups.append({"params": self.net.heads.parameters(), "lr": 1e-3})
        return torch.optim.AdamW(groups, weight_decay=0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=100)
    args = parser.parse_args()
    L.seed_everything(0)
    trainer = L.Trainer(
        max_steps=4,
        limit_val_batches=1,
        val_check_interval=2,
        precision="bf16-mixed",
        callbacks=[KeepAverage()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        devices=1,
    )
    loader = DataLoader(
        Images(5 * args.batch_size, args.size, args.classes), args.batch_size, num_workers=2
    )
    held_out = DataLoader(Images(args.batch_size, args.size, args.classes), args.batch_size)
    trainer.fit(Classifier(args.size, 16, args.layers, args.width, args.classes), loader, held_out)


if __name__ == "__main__":
    main()
