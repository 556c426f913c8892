"""Continue training a SmolLM3-shaped model with Trainer: fp16 mixed precision, gradient
accumulation and activation checkpointing.
"""

import argparse
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    SmolLM3Config,
    SmolLM3ForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


class TokenBlocks(Dataset):
    """One long stream of tokens cut into blocks, as after grouping texts."""

    def __init__(self, blocks, length, vocab, seed=0):
        rng = np.random.default_rng(seed)
        stream = rng.zipf(1.3, size=blocks * length) % (vocab - 10) + 10
        self.blocks = torch.from_numpy(stream.astype(np.int64)).view(blocks, length)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, index):
        block = self.blocks[index]
        return {
            "input_ids": block,
            "attention_mask": torch.ones_like(block),
            "labels": block.clone(),
        }


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--max-steps", type=int, default=3)
    parser.add_argument("--no-fp16", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    set_seed(42)
    config = SmolLM3Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 8 // 3 // 64 * 64,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=args.heads // 4,
        max_position_embeddings=args.length,
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = SmolLM3ForCausalLM(config)
    print(f"{model.num_parameters() / 1e6:.1f} M parameters")

    with tempfile.TemporaryDirectory() as output_dir:
        training_args = TrainingArguments(
            output_dir=output_dir,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            fp16=not args.no_fp16,
            learning_rate=1e-4,
            weight_decay=0.1,
            max_grad_norm=1.0,
            max_steps=args.max_steps,
            warmup_steps=1,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=model,
            args=training_args,
            train_dataset=TokenBlocks(64, args.length, args.vocab),
            data_collator=default_data_collator,
        )
        result = trainer.train()
    print("final loss", result.training_loss)


if __name__ == "__main__":
    main()
