"""Greedy generation with a static cache, allocated once for the longest sequence."""

import argparse

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, StaticCache


@torch.no_grad()
def answer(model, ids, cache, new_tokens):
    """Prefill, then one token at a time, writing into the same cache."""
    logits = model(ids, past_key_values=cache, logits_to_keep=1).logits
    tokens = [logits[:, -1].argmax(-1, keepdim=True)]
    for _ in range(new_tokens - 1):
        logits = model(tokens[-1], past_key_values=cache).logits
        tokens.append(logits[:, -1].argmax(-1, keepdim=True))
    return torch.cat(tokens, dim=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=384)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--longest", type=int, default=2048)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=50000)
    args = parser.parse_args()
    torch.manual_seed(3)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128 or 2,
        num_key_value_heads=2,
        max_position_embeddings=args.longest,
        pad_token_id=0,
        eos_token_id=None,
    )
    model = Qwen2ForCausalLM(config).to(device, torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=args.longest)
    for turn in range(2):
        ids = torch.randint(1, args.vocab, (args.batch_size, args.prompt), device=device)
        cache.reset()
        out = answer(model, ids, cache, args.new_tokens)
        print(f"turn {turn}: {tuple(out.shape)}, first {out[0, :6].tolist()}")

    # The same through generate(), which makes a cache of its own.
    ids = torch.randint(1, args.vocab, (args.batch_size, args.prompt), device=device)
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=args.new_tokens,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,
    )
    print(f"generate: {tuple(out.shape)}")


if __name__ == "__main__":
    main()
