"""StableLM with accelerate: bf16, accumulation, clipping, a schedule, perplexity."""

import argparse
import math

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import StableLmConfig, StableLmForCausalLM, get_cosine_schedule_with_warmup


def groups(model, decay):
    large = [p for p in model.parameters() if p.ndim >= 2]
    small = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": large, "weight_decay": decay}, {"params": small, "weight_decay": 0.0}]


@torch.no_grad()
def perplexity(accelerator, model, loader):
    model.eval()
    losses = []
    for (ids,) in loader:
        loss = model(input_ids=ids, labels=ids).loss
        losses.append(accelerator.gather_for_metrics(loss.repeat(len(ids))))
    model.train()
    return math.exp(min(20.0, torch.cat(losses).mean().item()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--length", type=int, default=768)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()
    set_seed(21)
    accelerator = Accelerator(
        mixed_precision=args.precision, gradient_accumulation_steps=args.accumulate
    )
    config = StableLmConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 5 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=args.width // 128,
        use_qkv_bias=True,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = StableLmForCausalLM(config)
    optimizer = torch.optim.AdamW(groups(model, 0.1), lr=3e-4, betas=(0.9, 0.95))
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, 10)
    text = torch.randint(0, args.vocab, (7 * args.batch_size, args.length))
    train = DataLoader(TensorDataset(text), args.batch_size, shuffle=True, drop_last=True)
    held_out = DataLoader(TensorDataset(text[: args.batch_size + 1]), args.batch_size)
    model, optimizer, train, held_out, schedule = accelerator.prepare(
        model, optimizer, train, held_out, schedule
    )
    for step, (ids,) in enumerate(train):
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print(f"step {step}: {loss.item():.3f}")
    accelerator.print("perplexity", perplexity(accelerator, model, held_out))


if __name__ == "__main__":
    main()
