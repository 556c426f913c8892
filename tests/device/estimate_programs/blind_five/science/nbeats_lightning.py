"""Forecasting with N-BEATS in Lightning: stacks of residual blocks, sMAPE, many series at once."""

import argparse

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, history, horizon, width):
        super().__init__()
        layers = [nn.Linear(history, width), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.theta = nn.Linear(width, history + horizon)
        self.history = history

    def forward(self, x):
        theta = self.theta(self.body(x))
        return theta[:, : self.history], theta[:, self.history :]


class NBeats(L.LightningModule):
    def __init__(self, history, horizon, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(history, horizon, width) for _ in range(blocks))

    def forward(self, x):
        forecast = 0.0
        for block in self.blocks:
            back, ahead = block(x)
            x = x - back
            forecast = forecast + ahead
        return forecast

    def smape(self, batch):
        x, y = batch
        guess = self(x)
        return (2 * (guess - y).abs() / (guess.abs() + y.abs() + 1e-6)).mean()

    def training_step(self, batch, _):
        return self.smape(batch)

    def validation_step(self, batch, _):
        self.log("smape", self.smape(batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--history", type=int, default=168)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--precision", default="32")
    args = parser.parse_args()
    L.seed_everything(28)
    t = torch.arange(args.history + args.horizon).float()
    phase = 6.28 * torch.rand(5 * args.batch_size, 1)
    series = torch.sin(t / 12 * 3.14 + phase) + 2 + 0.1 * torch.randn(len(phase), len(t))
    data = TensorDataset(series[:, : args.history], series[:, args.history :])
    train, val = torch.utils.data.random_split(data, [4 * args.batch_size, args.batch_size])
    trainer = L.Trainer(
        max_epochs=2,
        devices=1,
        precision=args.precision,
        gradient_clip_val=0.5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        NBeats(args.history, args.horizon, args.width, args.blocks),
        DataLoader(train, args.batch_size, shuffle=True),
        DataLoader(val, args.batch_size),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
