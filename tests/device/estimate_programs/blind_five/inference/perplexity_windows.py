"""Perplexity of a long document with overlapping windows, as in the HF docs."""

import argparse
import math

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=9000)
    parser.add_argument("--stride", type=int, default=512)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--vocab", type=int, default=50257)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = GPT2Config(
        vocab_size=args.vocab,
        n_positions=args.context,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
    )
    model = GPT2LMHeadModel(config).to(device)
    model.eval()
    text = torch.randint(0, args.vocab, (1, args.tokens))
    nll_sum, n_tokens, previous = 0.0, 0, 0
    for begin in range(0, args.tokens, args.stride):
        end = min(begin + args.context, args.tokens)
        fresh = end - previous
        input_ids = text[:, begin:end].to(device)
        target_ids = input_ids.clone()
        target_ids[:, :-fresh] = -100
        with torch.no_grad():
            neg_log_likelihood = model(input_ids, labels=target_ids).loss
        valid = (target_ids != -100).sum().item()
        counted = valid - target_ids.size(0)
        nll_sum += neg_log_likelihood.item() * counted
        n_tokens += counted
        previous = end
        if end == args.tokens:
            break
    print("perplexity", math.exp(min(50, nll_sum / n_tokens)))


if __name__ == "__main__":
    main()
