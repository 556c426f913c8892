"""GPT-Neo in a plain loop: fp16 autocast with a GradScaler, accumulation and clipping."""

import argparse

import torch
from torch.utils.data import DataLoader
from transformers import GPTNeoConfig, GPTNeoForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            num_layers=args.layers,
            attention_types=[[["global", "local"], args.layers // 2]],
            num_heads=args.hidden // 64,
            max_position_embeddings=args.length,
            use_cache=False,
        )
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(device)
    rows = torch.randint(
        0, args.vocab, (args.batch_size * args.accumulation * args.updates, args.length)
    )
    model.train()
    optimizer.zero_grad()
    for i, ids in enumerate(DataLoader(rows, args.batch_size, shuffle=True, drop_last=True)):
        ids = ids.to(device)
        with torch.autocast(device, dtype=torch.float16):
            loss = model(ids, labels=ids).loss / args.accumulation
        scaler.scale(loss).backward()
        if (i + 1) % args.accumulation == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print(i, loss.item() * args.accumulation, scaler.get_scale())


if __name__ == "__main__":
    main()
