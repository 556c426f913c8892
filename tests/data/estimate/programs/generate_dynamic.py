"""Text generation with generate() and its growing cache: left-padded prompts, sampling."""

import argparse
import time

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM


def prompts(args):
    """Prompts of unequal length, padded on the left as decoders need it."""
    lengths = torch.randint(args.prompt // 2, args.prompt + 1, (args.batch_size,))
    ids = torch.randint(3, args.vocab, (args.batch_size, args.prompt))
    mask = (torch.arange(args.prompt)[None] >= args.prompt - lengths[:, None]).long()
    return ids * mask, mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=max(1, args.width // 256),
        max_position_embeddings=args.prompt + args.new_tokens,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16).to(device).eval()
    print(
        f"weights: {sum(p.numel() * p.element_size() for p in model.parameters()) / 2**30:.2f} GiB"
    )
    generation = GenerationConfig(
        max_new_tokens=args.new_tokens,
        do_sample=True,
        temperature=0.8,
        top_k=50,
        pad_token_id=0,
        eos_token_id=None,
    )
    for turn in range(2):
        ids, mask = prompts(args)
        started = time.perf_counter()
        out = model.generate(
            ids.to(device), attention_mask=mask.to(device), generation_config=generation
        )
        seconds = time.perf_counter() - started
        tokens = out.size(1) - ids.size(1)
        print(f"turn {turn}: {tokens} tokens each, {tokens * len(out) / seconds:.0f} tokens/s")
        print("first:", out[0, -8:].tolist())


if __name__ == "__main__":
    main()
