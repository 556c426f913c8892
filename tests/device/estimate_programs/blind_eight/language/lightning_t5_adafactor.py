"""Summaries with T5 in Lightning: weights in bfloat16 (bf16-true), Adafactor from transformers,
label padding, generated samples at the end of the epoch.
"""

import argparse
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Adafactor, T5Config, T5ForConditionalGeneration


class Articles(Dataset):
    def __init__(self, count, source, target, vocab):
        self.count, self.source, self.target, self.vocab = count, source, target, vocab

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        ids = torch.randint(2, self.vocab, (self.source,), generator=generator)
        labels = torch.randint(2, self.vocab, (self.target,), generator=generator)
        used = int(torch.randint(self.target // 2, self.target + 1, (1,), generator=generator))
        labels[used:] = -100
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


class Summarizer(L.LightningModule):
    def __init__(self, config, new_tokens):
        super().__init__()
        self.t5 = T5ForConditionalGeneration(config)
        self.new_tokens = new_tokens

    def forward(self, batch):
        return self.t5(**batch)

    def training_step(self, batch, batch_idx):
        loss = self(batch).loss
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self(batch).loss)
        if batch_idx == 0:
            summary = self.t5.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                max_new_tokens=self.new_tokens,
                num_beams=2,
            )
            print("summary of", tuple(summary.shape))

    def configure_optimizers(self):
        return Adafactor(
            self.parameters(),
            lr=1e-3,
            scale_parameter=False,
            relative_step=False,
            warmup_init=False,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=96)
    parser.add_argument("--d-model", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32128)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--precision", default="bf16-true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    L.seed_everything(2)
    config = T5Config(
        vocab_size=args.vocab,
        d_model=args.d_model,
        d_kv=64,
        d_ff=args.d_model * 4,
        num_layers=args.layers,
        num_heads=args.d_model // 64,
        decoder_start_token_id=0,
        dropout_rate=0.1,
    )
    train = Articles(args.batch_size * args.batches, args.source, args.target, args.vocab)
    held_out = Articles(args.batch_size, args.source, args.target, args.vocab)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1,
        precision=args.precision,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(
        Summarizer(config, args.new_tokens),
        DataLoader(train, args.batch_size, shuffle=True, num_workers=2),
        DataLoader(held_out, args.batch_size),
    )


if __name__ == "__main__":
    main()
