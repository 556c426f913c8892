"""BYOL in Lightning: an online and a target network; the target is a moving average."""

import argparse
import copy

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18


def mlp(c_in, hidden, c_out):
    return nn.Sequential(
        nn.Linear(c_in, hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, c_out),
    )


class TwoViews(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.size, self.size, generator=g)
        noise = 0.1 * torch.randn(2, 3, self.size, self.size, generator=g)
        return image + noise[0], (image + noise[1]).flip(-1)


class BYOL(L.LightningModule):
    def __init__(self, hidden=4096, projection=256, momentum=0.99):
        super().__init__()
        backbone = resnet18(weights=None)
        backbone.fc = nn.Identity()
        self.online = nn.Sequential(backbone, mlp(512, hidden, projection))
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.predictor = mlp(projection, hidden, projection)
        self.momentum = momentum

    def half_loss(self, a, b):
        guess = F.normalize(self.predictor(self.online(a)), dim=-1)
        with torch.no_grad():
            goal = F.normalize(self.target(b), dim=-1)
        return 2 - 2 * (guess * goal).sum(dim=-1).mean()

    def training_step(self, batch, batch_idx):
        a, b = batch
        loss = self.half_loss(a, b) + self.half_loss(b, a)
        self.log("loss", loss)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        for p, q in zip(self.online.parameters(), self.target.parameters()):
            q.mul_(self.momentum).add_(p, alpha=1 - self.momentum)

    def configure_optimizers(self):
        trained = [*self.online.parameters(), *self.predictor.parameters()]
        return torch.optim.SGD(trained, lr=0.2, momentum=0.9, weight_decay=1.5e-6)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--precision", default="16-mixed")
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    L.seed_everything(77)
    loader = DataLoader(
        TwoViews(5 * args.batch_size, args.size),
        args.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
    )
    trainer = L.Trainer(
        max_steps=5,
        devices=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(BYOL(hidden=args.hidden), loader)
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
