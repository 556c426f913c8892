"""SimCLR with a small ViT under Lightning: augmentation on the GPU, LARS-like rate, checkpoints."""

import argparse
import tempfile

import lightning as L
import timm
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        image = torch.randint(0, 256, (3, self.size, self.size), generator=gen, dtype=torch.uint8)
        return image, i % 10


def augment(x):
    """Random flips, crops (one for the batch) and colour changes, on whatever device x is."""
    size = x.size(-1)
    crop = int(size * (0.6 + 0.4 * torch.rand(()).item()))
    top, left = torch.randint(0, size - crop + 1, (2,)).tolist()
    x = x[:, :, top : top + crop, left : left + crop]
    x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    flip = torch.rand(len(x), device=x.device) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(-1), x)
    brightness = 1 + 0.4 * (torch.rand(len(x), 1, 1, 1, device=x.device) - 0.5)
    gray = x.mean(1, keepdim=True).expand_as(x)
    mix = torch.rand(len(x), 1, 1, 1, device=x.device)
    return ((mix * x + (1 - mix) * gray) * brightness).clamp(0, 1)


class SimCLR(L.LightningModule):
    def __init__(self, name, size, temperature=0.2, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = timm.create_model(name, pretrained=False, num_classes=0, img_size=size)
        width = self.backbone.num_features
        self.projector = nn.Sequential(
            nn.Linear(width, 2048), nn.BatchNorm1d(2048), nn.ReLU(), nn.Linear(2048, 128)
        )

    def forward(self, x):
        return self.backbone(x)

    def training_step(self, batch, batch_idx):
        images, _ = batch
        images = images.float() / 255
        both = torch.cat([augment(images), augment(images)])
        z = F.normalize(self.projector(self(both)), dim=1)
        sims = z @ z.T / self.hparams.temperature
        sims.fill_diagonal_(float("-inf"))
        n = len(images)
        target = torch.arange(2 * n, device=self.device).roll(n)
        loss = F.cross_entropy(sims, target)
        self.log("loss", loss, on_step=True)
        self.log("top1", (sims.argmax(1) == target).float().mean(), on_step=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        h = F.normalize(self(images.float() / 255), dim=1)
        nearest = (h @ h.T).fill_diagonal_(-1).argmax(1)
        self.log("knn", (labels[nearest] == labels).float().mean(), batch_size=len(images))

    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), self.hparams.lr, momentum=0.9, weight_decay=1e-4)
        return [opt], [torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)]


class Printer(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        print(batch_idx, {k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    L.seed_everything(0)
    model = SimCLR(args.model, args.size)
    train = RandomImages(args.batches * args.batch_size, args.size)
    valid = RandomImages(2 * args.batch_size, args.size)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_epochs=1,
            accelerator="auto",
            devices=1,
            precision=args.precision,
            accumulate_grad_batches=2,
            gradient_clip_val=3.0,
            logger=False,
            enable_progress_bar=False,
            callbacks=[ModelCheckpoint(folder, monitor="knn", mode="max"), Printer()],
            default_root_dir=folder,
        )
        trainer.fit(
            model,
            DataLoader(train, args.batch_size, shuffle=True),
            DataLoader(valid, args.batch_size),
        )
        print("best", trainer.checkpoint_callback.best_model_score)


if __name__ == "__main__":
    main()
