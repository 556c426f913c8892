"""A convolutional VAE in Lightning on faces: fp32, samples decoded after each epoch."""

import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(L.LightningModule):
    def __init__(self, size, hidden, latent):
        super().__init__()
        self.side, self.top = size // 2 ** len(hidden), hidden[-1]
        layers = []
        for a, b in zip([3, *hidden], hidden):
            layers += [nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU()]
        self.encoder = nn.Sequential(*layers, nn.Flatten())
        width = self.top * self.side**2
        self.mu, self.logvar = nn.Linear(width, latent), nn.Linear(width, latent)
        self.enter = nn.Linear(latent, width)
        layers = []
        back = hidden[::-1]
        for a, b in zip(back, [*back[1:], hidden[0]]):
            layers.append(nn.ConvTranspose2d(a, b, 3, 2, 1, output_padding=1))
            layers += [nn.BatchNorm2d(b), nn.LeakyReLU()]
        self.decoder = nn.Sequential(*layers, nn.Conv2d(hidden[0], 3, 3, padding=1), nn.Tanh())
        self.latent = latent

    def decode(self, z):
        return self.decoder(self.enter(z).view(-1, self.top, self.side, self.side))

    def training_step(self, batch, _):
        (x,) = batch
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
        loss = F.mse_loss(self.decode(z), x) + 0.00025 * kl
        self.log_dict({"loss": loss, "kl": kl})
        return loss

    def on_train_epoch_end(self):
        self.eval()
        with torch.no_grad():
            images = self.decode(torch.randn(64, self.latent, device=self.device))
        print("samples", images.shape, images.std().item())
        self.train()

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=5e-3)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=144)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--latent", type=int, default=128)
    parser.add_argument("--batches", type=int, default=3)
    args = parser.parse_args()
    L.seed_everything(1265)
    images = torch.rand(args.batch_size * args.batches, 3, args.size, args.size) * 2 - 1
    trainer = L.Trainer(
        max_epochs=2,
        devices=1,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        VAE(args.size, args.hidden, args.latent),
        DataLoader(TensorDataset(images), args.batch_size, shuffle=True),
    )


if __name__ == "__main__":
    main()
