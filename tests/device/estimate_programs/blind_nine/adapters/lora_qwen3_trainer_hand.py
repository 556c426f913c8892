"""Qwen3 with LoRA on queries and values, trained by Trainer in bf16 without checkpointing."""

import argparse
import tempfile

import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments


class Lora(nn.Linear):
    def __init__(self, linear, rank):
        super().__init__(linear.in_features, linear.out_features, bias=False)
        self.weight = linear.weight
        self.weight.requires_grad_(False)
        self.down = nn.Linear(self.in_features, rank, bias=False)
        self.up = nn.Linear(rank, self.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return super().forward(x) + self.up(self.down(x)) * 2.0


class Prompts(torch.utils.data.Dataset):
    def __init__(self, count, length, vocab):
        self.ids = torch.randint(0, vocab, (count, length))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=20)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=3 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        head_dim=128,
        use_cache=False,
    )
    model = Qwen3ForCausalLM(config)
    model.requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = Lora(layer.self_attn.q_proj, args.rank)
        layer.self_attn.v_proj = Lora(layer.self_attn.v_proj, args.rank)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                max_steps=args.steps,
                learning_rate=3e-4,
                bf16=not args.fp32,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Prompts(64, args.length, args.vocab),
        )
        trainer.train()


if __name__ == "__main__":
    main()
