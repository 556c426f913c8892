"""Gemma 3 (text) with Accelerate: bf16, accumulation over four batches, checkpointing, and a
validation loop between updates.
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, get_scheduler


def loaders(args):
    generator = torch.Generator().manual_seed(3)
    rows = args.batch_size * args.accumulation * args.updates
    train = torch.randint(0, args.vocab, (rows, args.length), generator=generator)
    held_out = torch.randint(0, args.vocab, (2 * args.batch_size, args.length), generator=generator)
    return (
        DataLoader(TensorDataset(train), batch_size=args.batch_size, shuffle=True),
        DataLoader(TensorDataset(held_out), batch_size=args.batch_size),
    )


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    losses = []
    for (ids,) in loader:
        loss = model(input_ids=ids, labels=ids).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(len(ids))))
    model.train()
    return torch.cat(losses).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=4)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1152)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=65536)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()
    set_seed(3)

    accelerator = Accelerator(
        mixed_precision=args.precision, gradient_accumulation_steps=args.accumulation
    )
    model = Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            intermediate_size=args.hidden * 6,
            num_hidden_layers=args.layers,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=256,
            sliding_window=512,
            use_cache=False,
        )
    )
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    schedule = get_scheduler("linear", optimizer, 1, args.updates)
    train, held_out = loaders(args)
    model, optimizer, train, held_out, schedule = accelerator.prepare(
        model, optimizer, train, held_out, schedule
    )
    model.train()
    for (ids,) in train:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            accelerator.print(
                f"{loss.item():.3f} held out {evaluate(model, held_out, accelerator):.3f}"
            )


if __name__ == "__main__":
    main()
