"""Keyword spotting in Lightning: log-mel spectra by torch.stft in the model, a residual CNN."""

import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def mel_filters(mels, bins, rate):
    top = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700))
    points = 700 * (10 ** (torch.linspace(0, float(top), mels + 2) / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, bins)
    rise = (freqs[None] - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    fall = (points[2:, None] - freqs[None]) / (points[2:] - points[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, mels=64, n_fft=512, hop=160, rate=16000):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("filters", mel_filters(mels, n_fft // 2 + 1, rate))

    @torch.no_grad()
    def forward(self, audio):
        spec = torch.stft(audio, self.n_fft, self.hop, window=self.window, return_complex=True)
        return torch.log(self.filters @ spec.abs().square() + 1e-6).unsqueeze(1)


class Residual(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation, bias=False)
        self.conv2 = nn.Conv2d(c, c, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(c), nn.BatchNorm2d(c)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


class Spotter(L.LightningModule):
    def __init__(self, channels, blocks, classes):
        super().__init__()
        self.mel = LogMel()
        self.first = nn.Conv2d(1, channels, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*[Residual(channels, 2 ** (i // 3)) for i in range(blocks)])
        self.out = nn.Linear(channels, classes)

    def forward(self, audio):
        x = self.mel(audio)
        if self.training:
            x = x.clone()
            x[:, :, 10:18] = 0
            x[..., 30:45] = 0
        return self.out(self.blocks(self.first(x)).mean((2, 3)))

    def training_step(self, batch, _):
        audio, label = batch
        loss = F.cross_entropy(self(audio), label)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        audio, label = batch
        self.log("accuracy", (self(audio).argmax(1) == label).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class Words(Dataset):
    def __init__(self, n, classes):
        self.n, self.classes = n, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(16000, generator=g), i % self.classes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--channels", type=int, default=45)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--classes", type=int, default=35)
    parser.add_argument("--precision", default="32")
    args = parser.parse_args()
    L.seed_everything(6)
    trainer = L.Trainer(
        max_epochs=2,
        devices=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Spotter(args.channels, args.blocks, args.classes),
        DataLoader(
            Words(3 * args.batch_size, args.classes), args.batch_size, shuffle=True, num_workers=2
        ),
        DataLoader(Words(args.batch_size, args.classes), args.batch_size),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
