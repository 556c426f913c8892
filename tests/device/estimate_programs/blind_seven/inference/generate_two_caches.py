"""Compares generate() with a growing cache and with a static cache on an Arcee-shaped model, for
left-padded prompts of different lengths.
"""

import argparse
import time

import torch
from transformers import ArceeConfig, ArceeForCausalLM


def padded_prompts(batch_size, longest, vocab, pad, seed, device):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, vocab, (batch_size, longest), generator=generator)
    lengths = torch.randint(longest // 2, longest + 1, (batch_size, 1), generator=generator)
    lengths[0] = longest
    mask = (torch.arange(longest)[None] >= longest - lengths).long()
    ids = ids.masked_fill(mask == 0, pad)
    return ids.to(device), mask.to(device)


def timed_generate(model, ids, mask, new_tokens, **options):
    began = time.perf_counter()
    output = model.generate(
        ids, attention_mask=mask, min_new_tokens=new_tokens, max_new_tokens=new_tokens, **options
    )
    answer = output[:, ids.shape[1] :].cpu()
    return answer, answer.numel() / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=96000)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = ArceeConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        max_position_embeddings=args.prompt + args.new_tokens,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    dtype = torch.bfloat16 if args.device == "cuda" else torch.float32
    with torch.device(args.device):
        model = ArceeForCausalLM(config)
    model = model.to(dtype).eval()

    settings = {
        "dynamic, greedy": dict(do_sample=False),
        "dynamic, sampling": dict(do_sample=True, temperature=0.8, top_p=0.95, top_k=50),
        "static, greedy": dict(
            do_sample=False, cache_implementation="static", disable_compile=True
        ),
    }
    answers = {}
    for seed, (name, options) in enumerate(settings.items()):
        ids, mask = padded_prompts(
            args.batch_size, args.prompt, args.vocab, 0, seed % 2, args.device
        )
        answers[name], speed = timed_generate(model, ids, mask, args.new_tokens, **options)
        print(f"{name}: {tuple(answers[name].shape)} at {speed:.0f} tokens/s")
    same = (answers["dynamic, greedy"] == answers["static, greedy"]).float().mean()
    print(f"same tokens with both caches: {same:.1%}")


if __name__ == "__main__":
    main()
