"""A small Llama with Lightning: bf16-mixed, clipping, accumulation, cosine schedule and a
validation after the epoch.
"""

import argparse
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM


class Llama(L.LightningModule):
    def __init__(self, hidden, layers, vocab, length, lr=3e-4):
        super().__init__()
        self.save_hyperparameters()
        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocab,
                hidden_size=hidden,
                intermediate_size=int(hidden * 2.6875) // 32 * 32,
                num_hidden_layers=layers,
                num_attention_heads=hidden // 64,
                num_key_value_heads=hidden // 64,
                max_position_embeddings=length,
                use_cache=False,
            )
        )

    def step(self, batch, name):
        ids, labels = batch
        loss = self.model(input_ids=ids, labels=labels).loss
        self.log(f"{name}_loss", loss, prog_bar=True, on_step=name == "train", on_epoch=True)
        return loss

    def training_step(self, batch, _):
        return self.step(batch, "train")

    def validation_step(self, batch, _):
        self.step(batch, "val")

    def configure_optimizers(self):
        decayed = [p for p in self.parameters() if p.ndim > 1]
        plain = [p for p in self.parameters() if p.ndim <= 1]
        optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
            lr=self.hparams.lr,
            betas=(0.9, 0.95),
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def make_loader(rows, args, shuffle):
    ids = torch.randint(3, args.vocab, (rows, args.length))
    labels = ids.clone()
    labels[:, : args.length // 3] = -100
    return DataLoader(TensorDataset(ids, labels), args.batch_size, shuffle=shuffle, pin_memory=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    L.seed_everything(0)
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="auto",
        devices=1,
        precision=args.precision,
        gradient_clip_val=1.0,
        accumulate_grad_batches=2,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        Llama(args.hidden, args.layers, args.vocab, args.length),
        make_loader(args.batch_size * args.batches, args, True),
        make_loader(args.batch_size * 2, args, False),
    )
    print({name: float(value) for name, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
