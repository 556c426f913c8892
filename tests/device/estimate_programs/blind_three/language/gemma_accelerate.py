"""Tunes a small Gemma 2 with accelerate: accumulation in its context, clipping, one-cycle rate."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import Gemma2Config, Gemma2ForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=128000)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()

    torch.manual_seed(0)
    accelerator = Accelerator(
        mixed_precision=args.precision, gradient_accumulation_steps=args.accumulation
    )
    config = Gemma2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=args.hidden // 8,
        sliding_window=args.window,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
        attn_implementation="eager",
    )
    model = Gemma2ForCausalLM(config)
    steps = args.updates * args.accumulation
    ids = torch.randint(3, args.vocab, (steps * args.batch_size, args.length))
    loader = DataLoader(TensorDataset(ids), args.batch_size, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-4, total_steps=2 * steps, pct_start=0.3
    )
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    model.train()
    for step, (batch,) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(input_ids=batch, labels=batch, use_cache=False).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        average = accelerator.gather(loss.detach()).mean()
        accelerator.print(f"batch {step}: loss {average.item():.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
