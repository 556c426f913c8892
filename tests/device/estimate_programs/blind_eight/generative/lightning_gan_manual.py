"""A DCGAN in Lightning with manual optimisation: two optimizers, one moves at a time."""

import argparse
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def generator(latent, base):
    return nn.Sequential(
        nn.ConvTranspose2d(latent, base * 8, 4, 1, 0, bias=False),
        nn.BatchNorm2d(base * 8),
        nn.ReLU(True),
        *(
            layer
            for a, b in ((8, 4), (4, 2), (2, 1))
            for layer in (
                nn.ConvTranspose2d(base * a, base * b, 4, 2, 1, bias=False),
                nn.BatchNorm2d(base * b),
                nn.ReLU(True),
            )
        ),
        nn.ConvTranspose2d(base, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def discriminator(base):
    return nn.Sequential(
        nn.Conv2d(3, base, 4, 2, 1),
        nn.LeakyReLU(0.2, inplace=True),
        *(
            layer
            for a, b in ((1, 2), (2, 4), (4, 8))
            for layer in (
                nn.Conv2d(base * a, base * b, 4, 2, 1, bias=False),
                nn.BatchNorm2d(base * b),
                nn.LeakyReLU(0.2, inplace=True),
            )
        ),
        nn.Conv2d(base * 8, 1, 4),
        nn.Flatten(0),
    )


class GAN(L.LightningModule):
    def __init__(self, latent=128, base=64):
        super().__init__()
        self.automatic_optimization = False
        self.latent = latent
        self.g, self.d = generator(latent, base), discriminator(base)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        z = torch.randn(len(real), self.latent, 1, 1, device=self.device, dtype=real.dtype)
        ones = torch.ones(len(real), device=self.device)

        self.toggle_optimizer(opt_g)
        fake = self.g(z)
        g_loss = F.binary_cross_entropy_with_logits(self.d(fake), ones)
        self.manual_backward(g_loss)
        opt_g.step()
        opt_g.zero_grad()
        self.untoggle_optimizer(opt_g)

        self.toggle_optimizer(opt_d)
        real_loss = F.binary_cross_entropy_with_logits(self.d(real), 0.9 * ones)
        fake_loss = F.binary_cross_entropy_with_logits(self.d(self.g(z).detach()), 0 * ones)
        d_loss = (real_loss + fake_loss) / 2
        self.manual_backward(d_loss)
        opt_d.step()
        opt_d.zero_grad()
        self.untoggle_optimizer(opt_d)
        self.log_dict({"g_loss": g_loss, "d_loss": d_loss})

    def configure_optimizers(self):
        return [
            torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.5, 0.999)),
            torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.5, 0.999)),
        ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--base", type=int, default=96)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    L.seed_everything(0)
    images = torch.rand(args.batch_size * args.batches, 3, 64, 64) * 2 - 1
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
        GAN(base=args.base), DataLoader(TensorDataset(images), args.batch_size, shuffle=True)
    )
    print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
