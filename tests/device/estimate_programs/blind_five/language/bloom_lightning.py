"""A Bloom language model with Lightning: bf16-mixed, accumulated batches, clipping, validation."""

import argparse

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BloomConfig, BloomForCausalLM, get_cosine_schedule_with_warmup


class LanguageModel(L.LightningModule):
    def __init__(self, config, lr=3e-4, total=20):
        super().__init__()
        self.model = BloomForCausalLM(config)
        self.lr, self.total = lr, total

    def shared_step(self, batch):
        (ids,) = batch
        return self.model(input_ids=ids, labels=ids).loss

    def training_step(self, batch, batch_idx):
        loss = self.shared_step(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.shared_step(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.1)
        schedule = get_cosine_schedule_with_warmup(optimizer, 2, self.total)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Tokens(L.LightningDataModule):
    def __init__(self, batch_size, length, vocab):
        super().__init__()
        self.batch_size, self.length, self.vocab = batch_size, length, vocab

    def setup(self, stage):
        g = torch.Generator().manual_seed(8)
        self.train = torch.randint(self.vocab, (6 * self.batch_size, self.length), generator=g)
        self.held = torch.randint(self.vocab, (2 * self.batch_size, self.length), generator=g)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.train), self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(TensorDataset(self.held), self.batch_size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=80000)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    L.seed_everything(1)
    config = BloomConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        n_layer=args.layers,
        n_head=args.hidden // 64,
        use_cache=False,
    )
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="auto",
        devices=1,
        precision=args.precision,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(LanguageModel(config), Tokens(args.batch_size, args.length, args.vocab))
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
