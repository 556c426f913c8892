"""Masked words with ModernBERT in a plain loop under bf16 autocast."""

import argparse

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM, get_linear_schedule_with_warmup


def mask_words(ids, vocab, rate=0.3):
    labels = ids.clone()
    chosen = torch.rand(ids.shape) < rate
    labels[~chosen] = -100
    masked = chosen & (torch.rand(ids.shape) < 0.8)
    random = chosen & ~masked & (torch.rand(ids.shape) < 0.5)
    ids = torch.where(masked, torch.full_like(ids, 4), ids)
    return torch.where(random, torch.randint_like(ids, 5, vocab), ids), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50368)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    config = ModernBertConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 3 // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        attn_implementation="sdpa",
    )
    model = ModernBertForMaskedLM(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 10)
    model.train()
    for step in range(args.steps):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length))
        ids, labels = mask_words(ids, args.vocab)
        attention = torch.ones_like(ids)
        attention[: args.batch_size // 2, args.length * 3 // 4 :] = 0
        labels[attention == 0] = -100
        with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
            output = model(ids.to(device), attention.to(device), labels=labels.to(device))
        optimizer.zero_grad()
        output.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(step, output.loss.item())


if __name__ == "__main__":
    main()
