"""A causal transformer of nn.TransformerEncoderLayer, trained by Lightning in 16-mixed."""

import argparse
import math
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning as L
except ImportError:
    import pytorch_lightning as L


class LanguageModel(L.LightningModule):
    def __init__(self, vocab, width, layers, length, lr):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocab, width)
        self.position = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.embed.weight
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids):
        x = self.embed(ids) * math.sqrt(self.hparams.width) + self.position[:, : ids.size(1)]
        x = self.encoder(x, mask=self.mask, is_causal=True)
        return self.head(self.norm(x))

    def loss(self, batch):
        ids, targets = batch
        return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=10)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


def loader(count, length, vocab, batch_size):
    tokens = torch.randint(0, vocab, (count, length + 1))
    return DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), batch_size=batch_size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--precision", default="16-mixed")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    L.seed_everything(1)
    model = LanguageModel(args.vocab, args.width, args.layers, args.length, 3e-4)
    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            max_steps=args.steps,
            accelerator="auto",
            devices=1,
            precision=args.precision,
            gradient_clip_val=1.0,
            val_check_interval=2,
            num_sanity_val_steps=0,
            limit_val_batches=1,
            log_every_n_steps=1,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            default_root_dir=folder,
        )
        data = [args.length, args.vocab, args.batch_size]
        trainer.fit(
            model, loader(args.steps * args.batch_size, *data), loader(args.batch_size, *data)
        )
        trainer.save_checkpoint(f"{folder}/last.ckpt", weights_only=True)
    for name, value in sorted(trainer.callback_metrics.items()):
        print(f"{name}: {value:.4f}")


if __name__ == "__main__":
    main()
