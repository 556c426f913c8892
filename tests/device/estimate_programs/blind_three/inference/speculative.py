"""Speculative decoding by hand: a small Llama drafts, a large one checks, caches are cropped."""

import argparse

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


def build(vocab, hidden, layers, device, dtype):
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 128,
        max_position_embeddings=4096,
    )
    with device:
        return LlamaForCausalLM(config).to(dtype).eval()


def extend(model, ids, cache):
    """Feeds what the cache does not have yet, and returns the logits of these places."""
    new = ids[:, cache.get_seq_length() :]
    return model(input_ids=new, past_key_values=cache, use_cache=True).logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompt", type=int, default=3000)
    parser.add_argument("--new-tokens", type=int, default=40)
    parser.add_argument("--drafted", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--draft-hidden", type=int, default=512)
    parser.add_argument("--draft-layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=96000)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    large = build(args.vocab, args.hidden, args.layers, device, torch.bfloat16)
    small = build(args.vocab, args.draft_hidden, args.draft_layers, device, torch.bfloat16)
    ids = torch.randint(args.vocab, (1, args.prompt), device=device)
    large_cache, small_cache = DynamicCache(), DynamicCache()
    accepted = rounds = 0
    with torch.inference_mode():
        extend(large, ids[:, :-1], large_cache)
        while ids.size(1) < args.prompt + args.new_tokens:
            draft = ids
            for _ in range(args.drafted):
                token = extend(small, draft, small_cache)[:, -1].argmax(-1, keepdim=True)
                draft = torch.cat([draft, token], dim=1)
            checked = extend(large, draft, large_cache)[:, -args.drafted - 1 :].argmax(-1)
            same = checked[0, :-1] == draft[0, ids.size(1) :]
            good = int(same.long().cumprod(0).sum())
            ids = torch.cat([draft[:, : ids.size(1) + good], checked[:, good : good + 1]], dim=1)
            large_cache.crop(ids.size(1) - 1)
            small_cache.crop(min(small_cache.get_seq_length(), ids.size(1) - 1))
            accepted, rounds = accepted + good, rounds + 1
    print(f"{rounds} rounds, {accepted / rounds:.2f} drafted tokens accepted in each")


if __name__ == "__main__":
    main()
