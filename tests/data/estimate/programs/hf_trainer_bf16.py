"""Pretrains a small GPT-2 with the Hugging Face Trainer: bf16, accumulation, checkpointing."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class RandomTokens(Dataset):
    """A stand-in for a tokenized corpus, cut into blocks."""

    def __init__(self, blocks, block_size, vocab_size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(0, vocab_size, (blocks, block_size), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        ids = self.tokens[index]
        return {"input_ids": ids, "labels": ids.clone()}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block-size", type=int, default=1024)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def main():
    args = parse_args()
    set_seed(args.seed)
    config = GPT2Config(
        n_layer=args.layers,
        n_embd=args.width,
        n_head=args.width // 64,
        n_positions=args.block_size,
        use_cache=False,
    )
    model = GPT2LMHeadModel(config)
    print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M")

    blocks = args.batch_size * args.accumulation * args.steps
    train = RandomTokens(blocks, args.block_size, config.vocab_size, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=args.accumulation,
            gradient_checkpointing=True,
            bf16=args.precision == "bf16",
            learning_rate=args.lr,
            weight_decay=0.1,
            lr_scheduler_type="cosine",
            warmup_steps=1,
            max_grad_norm=1.0,
            max_steps=args.steps,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            seed=args.seed,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=train)
        result = trainer.train()
        trainer.save_model(folder)
    print(f"loss after {result.global_step} steps: {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
