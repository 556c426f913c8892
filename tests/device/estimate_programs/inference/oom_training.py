"""Training that halves its micro-batch when memory runs out and accumulates to the same batch."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel


class ElasticTrainer:
    def __init__(self, model, optimizer, batch_size):
        self.model, self.optimizer = model, optimizer
        self.batch_size = self.micro = batch_size

    def attempt(self, ids):
        total = 0.0
        for part in ids.split(self.micro):
            logits = self.model(part).logits
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), part[:, 1:].flatten())
            (loss * len(part) / self.batch_size).backward()
            total += loss.item() * len(part) / self.batch_size
        return total

    def step(self, ids):
        while True:
            try:
                loss = self.attempt(ids)
                break
            except RuntimeError as error:
                if "out of memory" not in str(error) or self.micro == 1:
                    raise
            self.optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            self.micro //= 2
            print(f"out of memory: the micro-batch is now {self.micro}")
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--gigabytes", type=float, default=12.0)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, args.gigabytes * 1e9 / total))
    config = GPT2Config(
        n_layer=args.layers, n_embd=args.width, n_head=args.width // 64, use_cache=False
    )
    model = GPT2LMHeadModel(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    trainer = ElasticTrainer(model, optimizer, args.batch_size)
    for step in range(args.steps):
        ids = torch.randint(0, config.vocab_size, (args.batch_size, args.length), device=device)
        print(f"step {step} loss {trainer.step(ids):.4f} micro-batch {trainer.micro}")


if __name__ == "__main__":
    main()
