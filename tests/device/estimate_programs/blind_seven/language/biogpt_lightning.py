"""BioGPT on abstracts with Lightning: bf16-mixed, accumulated gradients, clipping, validation
every two batches.
"""

import argparse
import logging
import warnings

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BioGptConfig, BioGptForCausalLM, get_linear_schedule_with_warmup


class Abstracts(Dataset):
    def __init__(self, count, length, vocab, seed):
        self.count, self.length, self.vocab, self.seed = count, length, vocab, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(self.seed * 100_003 + i)
        # Neighbouring tokens are close, so that there is something to learn.
        steps = torch.randint(0, 50, (self.length,), generator=generator)
        return (steps.cumsum(0) % (self.vocab - 4)) + 4


class AbstractsModule(L.LightningDataModule):
    def __init__(self, batch_size, length, vocab, batches):
        super().__init__()
        self.batch_size, self.length, self.vocab, self.batches = batch_size, length, vocab, batches

    def train_dataloader(self):
        data = Abstracts(self.batch_size * self.batches, self.length, self.vocab, 1)
        return DataLoader(data, batch_size=self.batch_size, shuffle=True, num_workers=2)

    def val_dataloader(self):
        data = Abstracts(self.batch_size * 2, self.length, self.vocab, 2)
        return DataLoader(data, batch_size=self.batch_size)


class LanguageModel(L.LightningModule):
    def __init__(self, config, lr, total_steps):
        super().__init__()
        self.model = BioGptForCausalLM(config)
        self.lr = lr
        self.total_steps = total_steps

    def training_step(self, batch, batch_idx):
        loss = self.model(input_ids=batch, labels=batch).loss
        self.log("train_loss", loss, prog_bar=False)
        if batch_idx % 2 == 0:
            print(f"batch {batch_idx} loss {loss.item():.3f}")
        return loss

    def validation_step(self, batch, batch_idx):
        output = self.model(input_ids=batch, labels=batch)
        guess = output.logits[:, :-1].argmax(-1)
        self.log("val_loss", output.loss)
        self.log("val_accuracy", (guess == batch[:, 1:]).float().mean())

    def on_validation_epoch_end(self):
        print({k: round(float(v), 4) for k, v in self.trainer.callback_metrics.items()})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, betas=(0.9, 0.98))
        schedule = get_linear_schedule_with_warmup(optimizer, 1, self.total_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=42384)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--precision", default="bf16-mixed")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    L.seed_everything(5)

    config = BioGptConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=1024,
        layerdrop=0.0,
        use_cache=False,
    )
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        precision=args.precision,
        max_epochs=1,
        accumulate_grad_batches=args.accumulate,
        gradient_clip_val=1.0,
        val_check_interval=2,
        num_sanity_val_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = LanguageModel(config, 1e-4, args.batches // args.accumulate)
    trainer.fit(module, AbstractsModule(args.batch_size, args.length, args.vocab, args.batches))


if __name__ == "__main__":
    main()
