"""Continued pretraining of a Cohere model with accelerate: bf16, accumulation, EMA of the
loss, save_state.
"""

import argparse
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import CohereConfig, CohereForCausalLM, get_cosine_schedule_with_warmup


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=96000)
    parser.add_argument("--precision", default="bf16")
    args = parser.parse_args()
    set_seed(0)
    accelerator = Accelerator(mixed_precision=args.precision, gradient_accumulation_steps=2)
    config = CohereConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=args.width // 256,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = CohereForCausalLM(config)
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    decay = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=3e-4,
        betas=(0.9, 0.95),
    )
    data = torch.randint(3, args.vocab, (8 * args.batch_size, args.length))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 100)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    running = None
    for step, ids in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        value = accelerator.gather(loss.detach()).mean().item()
        running = value if running is None else 0.9 * running + 0.1 * value
        if accelerator.sync_gradients:
            accelerator.print(step, f"{running:.3f}", float(norm))
    accelerator.save_state(tempfile.mkdtemp())


if __name__ == "__main__":
    main()
