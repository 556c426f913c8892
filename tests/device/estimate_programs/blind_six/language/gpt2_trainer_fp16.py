"""GPT-2 medium from scratch with Trainer: fp16, accumulation, checkpointing, evaluation on the
way.
"""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


class Blocks(Dataset):
    def __init__(self, count, length, vocab):
        self.ids = torch.randint(0, vocab, (count, length))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i].clone()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(11)
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=args.length,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    model.config.use_cache = False
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=2 * args.batch_size,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            fp16=not args.fp32,
            max_steps=4,
            eval_strategy="steps",
            eval_steps=2,
            prediction_loss_only=True,
            max_grad_norm=1.0,
            weight_decay=0.1,
            learning_rate=3e-4,
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Blocks(12 * args.batch_size, args.length, args.vocab),
        eval_dataset=Blocks(3 * args.batch_size, args.length, args.vocab),
        data_collator=default_data_collator,
    )
    result = trainer.train()
    print(result.metrics["train_loss"])


if __name__ == "__main__":
    main()
