"""Code completion with Starcoder2 in Lightning: bf16, accumulation, clipping, validation twice
an epoch.
"""

import argparse

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Starcoder2Config, Starcoder2ForCausalLM


class Coder(L.LightningModule):
    def __init__(self, config, lr):
        super().__init__()
        self.lr = lr
        self.model = Starcoder2ForCausalLM(config)

    def forward(self, ids):
        return self.model(input_ids=ids, labels=ids)

    def training_step(self, batch, index):
        loss = self(batch[0]).loss
        self.log("train", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, index):
        out = self(batch[0])
        right = (out.logits[:, :-1].argmax(-1) == batch[0][:, 1:]).float().mean()
        self.log_dict({"validation": out.loss, "accuracy": right})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, total_steps=50)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1152)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    L.seed_everything(2)
    config = Starcoder2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=2,
        sliding_window=None,
        use_cache=False,
        residual_dropout=0.1,
        embedding_dropout=0.1,
    )
    train = TensorDataset(torch.randint(0, args.vocab, (8 * args.batch_size, args.length)))
    held_out = TensorDataset(torch.randint(0, args.vocab, (2 * args.batch_size, args.length)))
    trainer = L.Trainer(
        max_epochs=1,
        precision=args.precision,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        val_check_interval=0.5,
        num_sanity_val_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        devices=1,
    )
    trainer.fit(
        Coder(config, 3e-4),
        DataLoader(train, args.batch_size, shuffle=True),
        DataLoader(held_out, args.batch_size),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
