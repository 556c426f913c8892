"""Pre-training a SmolLM-like Llama with Trainer: bf16 weights, checkpointing, 8 micro-steps."""

import argparse
import tempfile

import torch
from torch.utils.data import IterableDataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Stream(IterableDataset):
    def __init__(self, block_size, vocab_size):
        self.block_size, self.vocab_size = block_size, vocab_size

    def __iter__(self):
        g = torch.Generator().manual_seed(1234)
        while True:
            chunk = torch.randint(0, self.vocab_size, (self.block_size,), generator=g)
            yield {"input_ids": chunk, "labels": chunk.clone()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro_batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=8)
    parser.add_argument("--block_size", type=int, default=2048)
    parser.add_argument("--hidden_size", type=int, default=960)
    parser.add_argument("--num_layers", type=int, default=16)
    parser.add_argument("--vocab_size", type=int, default=49152)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab_size,
        hidden_size=args.hidden_size,
        intermediate_size=args.hidden_size * 8 // 3,
        num_hidden_layers=args.num_layers,
        num_attention_heads=args.hidden_size // 64,
        num_key_value_heads=args.hidden_size // 192,
        max_position_embeddings=args.block_size,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as output:
        training_args = TrainingArguments(
            output_dir=output,
            max_steps=args.steps,
            per_device_train_batch_size=args.micro_batch,
            gradient_accumulation_steps=args.accumulate,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            learning_rate=2e-4,
            lr_scheduler_type="cosine",
            warmup_steps=1,
            max_grad_norm=1.0,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        Trainer(
            model=model,
            args=training_args,
            train_dataset=Stream(args.block_size, args.vocab_size),
        ).train()
    if torch.cuda.is_available():
        print(torch.cuda.max_memory_allocated() / 2**30, "GiB")


if __name__ == "__main__":
    main()
