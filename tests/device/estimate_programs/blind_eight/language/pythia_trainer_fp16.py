"""A Pythia-shaped GPT-NeoX with Trainer: fp16, two accumulated batches, clipping, worker
processes for the data.
"""

import argparse
import tempfile

import numpy as np
import torch
from transformers import (
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


class MemmapTokens(torch.utils.data.Dataset):
    """Tokens in a file of 16-bit numbers, as preprocessing scripts leave them."""

    def __init__(self, path, block):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.block = block

    def __len__(self):
        return len(self.tokens) // self.block

    def __getitem__(self, i):
        piece = self.tokens[i * self.block : (i + 1) * self.block].astype(np.int64)
        ids = torch.from_numpy(piece)
        return {"input_ids": ids, "labels": ids.clone()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-fp16", action="store_true")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/train.bin"
        count = args.block * args.batch_size * args.accumulation * args.steps
        np.random.default_rng(0).integers(0, args.vocab, count, dtype=np.uint16).tofile(path)
        config = GPTNeoXConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            intermediate_size=4 * args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            max_position_embeddings=args.block,
            use_parallel_residual=True,
        )
        training = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            dataloader_num_workers=args.workers,
            dataloader_drop_last=True,
            fp16=not args.no_fp16,
            max_grad_norm=0.5,
            weight_decay=0.01,
            adam_beta2=0.95,
            learning_rate=6e-4,
            warmup_steps=2,
            max_steps=args.steps,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=GPTNeoXForCausalLM(config),
            args=training,
            train_dataset=MemmapTokens(path, args.block),
            data_collator=default_data_collator,
        )
        print(trainer.train().metrics)


if __name__ == "__main__":
    main()
