"""Qwen2 fine-tuning with Accelerate: bf16, checkpointing, clipping, cosine schedule."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import (
    Qwen2Config,
    Qwen2ForCausalLM,
    get_cosine_schedule_with_warmup,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--accum", type=int, default=4)
    parser.add_argument("--seq_len", type=int, default=1536)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--mixed_precision", default="bf16")
    args = parser.parse_args()

    accelerator = Accelerator(
        mixed_precision=args.mixed_precision, gradient_accumulation_steps=args.accum
    )
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 38 // 7,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = Qwen2ForCausalLM(config)
    model.gradient_checkpointing_enable()

    data = torch.randint(0, args.vocab, (args.batch_size * args.accum * args.updates, args.seq_len))
    loader = DataLoader(
        data,
        batch_size=args.batch_size,
        shuffle=True,
        collate_fn=lambda rows: {"input_ids": torch.stack(rows), "labels": torch.stack(rows)},
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.1)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 1, args.updates)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    model.train()
    total = 0.0
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            outputs = model(**batch)
            loss = outputs.loss
            total += loss.detach().float()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            accelerator.print(f"step {step}: {total.item() / (step + 1):.4f}")


if __name__ == "__main__":
    main()
