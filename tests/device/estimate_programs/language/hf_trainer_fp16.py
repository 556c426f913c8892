"""Masked language modelling of BERT with the Hugging Face Trainer in fp16, with evaluation."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments, set_seed

MASK, PAD = 103, 0


class MaskedSentences(Dataset):
    def __init__(self, count, length, vocab_size, seed, mask_rate=0.15):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(1000, vocab_size, (count, length), generator=generator)
        self.lengths = torch.randint(length // 2, length + 1, (count,), generator=generator)
        self.masked = torch.rand(count, length, generator=generator) < mask_rate

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index].clone()
        attention_mask = (torch.arange(len(ids)) < self.lengths[index]).long()
        chosen = self.masked[index] & attention_mask.bool()
        labels = torch.where(chosen, ids, torch.full_like(ids, -100))
        ids[chosen] = MASK
        ids[attention_mask == 0] = PAD
        return {"input_ids": ids, "attention_mask": attention_mask, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--precision", choices=["fp16", "fp32"], default="fp16")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()

    set_seed(args.seed)
    config = BertConfig(
        num_hidden_layers=args.layers,
        hidden_size=args.width,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
    )
    model = BertForMaskedLM(config)
    count = args.batch_size * args.accumulation * args.steps
    train = MaskedSentences(count, args.length, config.vocab_size, args.seed)
    held_out = MaskedSentences(2 * args.batch_size, args.length, config.vocab_size, args.seed + 1)

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulation,
                fp16=args.precision == "fp16",
                learning_rate=1e-4,
                max_steps=args.steps,
                eval_strategy="steps",
                eval_steps=2,
                prediction_loss_only=True,
                save_strategy="no",
                logging_steps=1,
                report_to="none",
                dataloader_num_workers=2,
                seed=args.seed,
            ),
            train_dataset=train,
            eval_dataset=held_out,
        )
        trainer.train()
        metrics = trainer.evaluate()
    print(f"eval loss {metrics['eval_loss']:.4f}")


if __name__ == "__main__":
    main()
