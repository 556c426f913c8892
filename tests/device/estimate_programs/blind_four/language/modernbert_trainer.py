"""Masked words by ModernBERT with Trainer: bf16, accumulation, checkpointing, ragged batches."""

import argparse
import random
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    ModernBertConfig,
    ModernBertForMaskedLM,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Sentences(Dataset):
    def __init__(self, count, shortest, longest, vocab):
        rng = random.Random(1)
        self.lengths = [rng.randint(shortest, longest) for _ in range(count)]
        self.vocab = vocab

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randint(10, self.vocab, (self.lengths[i],), generator=generator)


class MaskWords:
    """Pads to a multiple of 8 and hides three words in ten."""

    def __init__(self, mask_id, share=0.3):
        self.mask_id, self.share = mask_id, share
        self.rng = torch.Generator().manual_seed(2)

    def __call__(self, rows):
        longest = (max(len(row) for row in rows) + 7) // 8 * 8
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        hidden = (torch.rand(ids.shape, generator=self.rng) < self.share) & mask.bool()
        labels = ids.masked_fill(~hidden, -100)
        return {
            "input_ids": ids.masked_fill(hidden, self.mask_id),
            "attention_mask": mask,
            "labels": labels,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--longest", type=int, default=640)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50368)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(11)
    config = ModernBertConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 3 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        max_position_embeddings=args.longest + 8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    )
    model = ModernBertForMaskedLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=3,
            gradient_checkpointing=True,
            bf16=not args.fp32,
            max_steps=3,
            learning_rate=2e-4,
            warmup_steps=1,
            lr_scheduler_type="cosine",
            optim="adamw_torch",
            max_grad_norm=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Sentences(12 * args.batch_size, args.longest // 4, args.longest, args.vocab)
        trainer = Trainer(model, arguments, data_collator=MaskWords(3), train_dataset=data)
        print(trainer.train().metrics["train_loss"])


if __name__ == "__main__":
    main()
