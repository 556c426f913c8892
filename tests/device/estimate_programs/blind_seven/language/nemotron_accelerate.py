"""Pre-training a small Nemotron with Accelerate: bf16, accumulation, clipping, checkpointing."""

import argparse
import math

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import NemotronConfig, NemotronForCausalLM, get_cosine_schedule_with_warmup


class Corpus(Dataset):
    def __init__(self, tokens, length, vocab):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, vocab, (tokens,), generator=generator)
        self.length = length

    def __len__(self):
        return len(self.tokens) // self.length

    def __getitem__(self, i):
        return self.tokens[i * self.length : (i + 1) * self.length]


def parameter_groups(model, weight_decay):
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    others = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--vocab", type=int, default=48000)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--mixed-precision", default="bf16")
    args = parser.parse_args()

    accelerator = Accelerator(
        mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accumulation
    )
    torch.manual_seed(1234)
    config = NemotronConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        head_dim=64,
        max_position_embeddings=args.length,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = NemotronForCausalLM(config)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=args.lr, betas=(0.9, 0.95))
    scheduler = get_cosine_schedule_with_warmup(optimizer, 1, args.updates)
    rows = args.updates * args.accumulation * args.batch_size
    loader = DataLoader(
        Corpus(rows * args.length, args.length, args.vocab),
        batch_size=args.batch_size,
        shuffle=True,
        drop_last=True,
        pin_memory=True,
    )
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    update = 0
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch).loss
            accelerator.backward(loss)
            norm = None
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            update += 1
            value = loss.detach().float().item()
            accelerator.print(
                f"update {update} loss {value:.3f} perplexity {math.exp(min(value, 20)):.0f} "
                f"norm {float(norm):.2f}"
            )
    accelerator.end_training()


if __name__ == "__main__":
    main()
