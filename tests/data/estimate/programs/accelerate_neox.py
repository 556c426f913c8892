"""Trains GPT-NeoX with accelerate: bf16, accumulation, clipping, a saved state at the end."""

import argparse
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, get_cosine_schedule_with_warmup


def build_model(args):
    config = GPTNeoXConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    return GPTNeoXForCausalLM(config)


def build_loader(args):
    tokens = torch.randint(
        0, args.vocab, (args.batch_size * args.accumulation * args.steps, args.length)
    )
    return DataLoader(
        TensorDataset(tokens), batch_size=args.batch_size, shuffle=True, drop_last=True
    )


@torch.no_grad()
def evaluate(model, accelerator, args):
    model.eval()
    losses = []
    for _ in range(2):
        ids = torch.randint(
            0, args.vocab, (args.batch_size, args.length), device=accelerator.device
        )
        losses.append(accelerator.gather(model(input_ids=ids, labels=ids).loss).mean())
    model.train()
    return torch.stack(losses).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50432)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    set_seed(7)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=args.accumulation)
    model = build_model(args)
    loader = build_loader(args)
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=args.lr,
        betas=(0.9, 0.95),
    )
    scheduler = get_cosine_schedule_with_warmup(optimizer, 1, args.steps)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)

    step = 0
    for (ids,) in loader:
        with accelerator.accumulate(model):
            output = model(input_ids=ids, labels=ids)
            accelerator.backward(output.loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                step += 1
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(f"step {step} loss {output.loss.item():.4f}")
    accelerator.print(f"eval loss {evaluate(model, accelerator, args):.4f}")
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)


if __name__ == "__main__":
    main()
